/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/packages.h"
#include "tests/unit/engine/service/users_fixture.h"

#include "common/base/fs.h"
#include "engine/manifest/manifest.h"
#include "engine/service/internal.h"
#include "engine/service/packages/packages_state.h"
#include "engine/store/kernel_name.h"

#include <stdio.h>
#include <string.h>

#define MI210 "gfx90a68"

static struct message_result fetch_named(struct users *f, const char *id, const char *name)
{
    test_caller_forget_replies(&f->ann);
    test_caller_fetch_name(&f->ann, id, name, " -mcpu=gfx90a");
    return last_result(&f->ann);
}

static void assert_content(struct message_result o, enum tier tier, const char *content)
{
    assert_int_equal(o.code, KILN_OK);
    assert_int_equal(o.tier, tier);
    assert_true(bytes_equal_text(o.content, content));
}

TEST_F(users, a_package_kernel_is_served_by_name_and_becomes_hot)
{
    put_one(f, "gfx90a68.kdb", "conv.o", "the object");

    assert_content(fetch_named(f, MI210, "conv.o"), TIER_PACKAGE, "the object");
    assert_content(fetch_named(f, MI210, "conv.o"), TIER_HOT, "the object");

    assert_int_equal(users_stat(f, "hits.package"), 1);
    assert_int_equal(users_stat(f, "hits.hot"), 1);
    assert_int_equal(users_stat(f, "compiles"), 0);
}

TEST_F(users, blanks_in_kernel_arguments_are_significant)
{
    const struct kernel_row rows[] = { TEXT_KERNEL("conv.o", " -mcpu=gfx90a", "one blank"),
                                       TEXT_KERNEL("conv.o", "  -mcpu=gfx90a", "two blanks") };
    put_package(&f->engine, "gfx90a68.kdb", rows, 2);
    engine_fixture_rescan(&f->engine);

    test_caller_fetch_name(&f->ann, MI210, "conv.o", rows[1].args);
    test_caller_fetch_name(&f->ann, MI210, "conv.o", rows[0].args);
    test_caller_fetch_name(&f->ann, MI210, "conv.o", "-mcpu=gfx90a");

    assert_content(reply_result(&f->ann, 0), TIER_PACKAGE, "two blanks");
    assert_content(reply_result(&f->ann, 1), TIER_PACKAGE, "one blank");
    assert_int_equal(reply_result(&f->ann, 2).code, KILN_NOT_FOUND);
}

TEST_F(users, the_exact_database_id_comes_before_the_plain_arch)
{
    put_one(f, "gfx90a.kdb", "conv.o", "for any compute units");
    put_one(f, "gfx90a68.kdb", "conv.o", "for 104 compute units");
    put_one(f, "gfx90a.more.kdb", "only-here.o", "for any");

    assert_content(fetch_named(f, MI210, "conv.o"), TIER_PACKAGE, "for 104 compute units");
    assert_content(fetch_named(f, "gfx90a6e", "conv.o"), TIER_PACKAGE, "for any compute units");
    assert_content(fetch_named(f, MI210, "only-here.o"), TIER_PACKAGE, "for any");
}

TEST_F(users, a_package_for_other_compute_units_is_a_miss)
{
    put_one(f, "gfx90a6e.kdb", "conv.o", "for 110 compute units");

    assert_int_equal(fetch_named(f, MI210, "conv.o").code, KILN_NOT_FOUND);
    assert_int_equal(fetch_named(f, "gfx90a", "conv.o").code, KILN_NOT_FOUND);

    assert_int_equal(users_stat(f, "misses"), 2);
}

TEST_F(users, a_flipped_bit_in_a_package_is_a_reported_miss)
{
    const struct kernel_row rows[] = { TEXT_KERNEL("bad.o", " -mcpu=gfx90a", "this one is damaged"),
                                       TEXT_KERNEL("good.o", " -mcpu=gfx90a", "this one is well") };
    put_package(&f->engine, "gfx90a68.kdb", rows, 2);
    flip_bit(package_path(&f->engine, "gfx90a68.kdb"), bytes_of_text(rows[0].content));
    engine_fixture_rescan(&f->engine);

    assert_int_equal(fetch_named(f, MI210, "bad.o").code, KILN_NOT_FOUND);
    assert_content(fetch_named(f, MI210, "good.o"), TIER_PACKAGE, "this one is well");

    assert_int_equal(users_stat(f, "quarantined"), 1);
    const char *reported = engine_fixture_reported(&f->engine, "quarantined");
    assert_non_null(reported);
    assert_says(reported, "'bad.o'");
}

TEST_F(users, a_damaged_package_row_is_quarantined_and_not_unpacked_again)
{
    put_one(f, "gfx90a68.kdb", "bad.o", "this one is damaged");
    flip_bit(package_path(&f->engine, "gfx90a68.kdb"), bytes_of_text("this one is damaged"));
    engine_fixture_rescan(&f->engine);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(fetch_named(f, MI210, "bad.o").code, KILN_NOT_FOUND);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(users_stat(f, "quarantined"), 1);
    assert_int_equal(users_stat(f, "store_quarantined"), 1);
    users_reopen(f);
    KILN_AUTO(json)
    struct json *answer =
        test_caller_ask(&f->admin, MESSAGE_package_verify, "{\"name\":\"gfx90a68.kdb\"}");
    const struct json *row = json_first(json_get(answer, "quarantine"));
    assert_int_equal(json_count(json_get(answer, "quarantine")), 1);
    assert_string_equal(json_get_text(row, "kernel", ""), "bad.o");
    assert_says(json_get_text(row, "text", ""), "gfx90a68.kdb");
    assert_true(json_get_u64(row, "found", 0) > 0);
    assert_int_equal(fetch_named(f, MI210, "bad.o").code, KILN_NOT_FOUND);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(users_stat(f, "store_quarantined"), 1);
}

TEST_F(users, a_kernel_damaged_in_one_package_is_served_from_the_next)
{
    put_one(f, "gfx90a.kdb", "conv.o", "of the plain arch");
    put_one(f, "gfx90a68.kdb", "conv.o", "of the exact id");
    flip_bit(package_path(&f->engine, "gfx90a68.kdb"), bytes_of_text("of the exact id"));
    engine_fixture_rescan(&f->engine);

    assert_content(fetch_named(f, MI210, "conv.o"), TIER_PACKAGE, "of the plain arch");

    assert_int_equal(users_stat(f, "quarantined"), 1);
}

TEST_F(users, packages_may_appear_and_disappear_at_run_time)
{
    assert_int_equal(fetch_named(f, MI210, "conv.o").code, KILN_NOT_FOUND);

    put_one(f, "gfx90a68.kdb", "conv.o", "the object");
    assert_content(fetch_named(f, MI210, "conv.o"), TIER_PACKAGE, "the object");
    assert_says(engine_fixture_reported(&f->engine, "package_appeared"), "'gfx90a68.kdb'");

    unlink(package_path(&f->engine, "gfx90a68.kdb"));
    engine_fixture_rescan(&f->engine);
    assert_int_equal(fetch_named(f, MI210, "conv.o").code, KILN_NOT_FOUND);
    assert_says(engine_fixture_reported(&f->engine, "package_gone"), "'gfx90a68.kdb'");
}

TEST_F(users, a_replaced_package_answers_with_its_new_content)
{
    put_one(f, "gfx90a68.kdb", "conv.o", "the old object");
    assert_content(fetch_named(f, MI210, "conv.o"), TIER_PACKAGE, "the old object");

    put_one(f, "gfx90a68.kdb", "conv.o", "the new object");

    assert_content(fetch_named(f, MI210, "conv.o"), TIER_PACKAGE, "the new object");
}

TEST_F(users, installed_packages_are_used_from_the_start)
{
    put_one(f, "gfx90a68.kdb", "conv.o", "the object");

    users_reopen(f);

    assert_content(fetch_named(f, MI210, "conv.o"), TIER_PACKAGE, "the object");
}

TEST_F(users, an_invalid_package_file_is_reported_once_and_the_others_serve)
{
    struct kiln_err err = KILN_ERR_INIT;
    char text[200];
    memset(text, 'x', sizeof(text));
    must(fs_replace_file(package_path(&f->engine, "gfx906_60.kdb"), bytes_of(text, sizeof(text)),
                         0644, &err),
         err);
    put_one(f, "gfx90a68.kdb", "conv.o", "the object");
    assert_says(engine_fixture_reported(&f->engine, "package_refused"), "SQLite");
    size_t reported = f->engine.report_count;

    engine_fixture_rescan(&f->engine);

    assert_int_equal(f->engine.report_count, reported);
    assert_content(fetch_named(f, MI210, "conv.o"), TIER_PACKAGE, "the object");
}

TEST_F(users, package_directories_are_scanned_one_scan_at_a_time)
{
    struct engine *e = f->engine.engine;
    packages_tick(e);
    fake_executor_run_tasks(&f->engine.executor);
    packages_tick(e);
    assert_int_equal(fake_executor_run_tasks(&f->engine.executor), 0);

    e->package_service->rescan_at_ns = 0;
    packages_tick(e);
    e->package_service->rescan_at_ns = 0;
    packages_tick(e);

    assert_int_equal(fake_executor_run_tasks(&f->engine.executor), 1);
}

TEST_F(users, an_unreadable_package_directory_is_reported)
{
    static char other[100];
    static const char *others[] = { other, NULL };
    snprintf(other, sizeof(other), "%s/loop", f->engine.directory);
    /* opening a link to itself fails with ELOOP, also for root */
    assert_int_equal(symlink(other, other), 0);
    f->engine.options.more_package_directories = others;

    users_reopen(f);

    assert_says(engine_fixture_reported(&f->engine, "package_refused"), "/loop");
}

TEST_F(users, an_invalid_kernel_name_is_refused)
{
    static char huge[LIMIT_NAMED_TEXT + 2];
    memset(huge, 'x', sizeof(huge) - 1);
    const struct {
        struct bytes id, name, args;
    } bad[] = {
        { bytes_of_text("gfx90a68"), bytes_of_text(""), bytes_of_text("-a") },
        { bytes_of_text("gfx90a68"), bytes_of_text(huge), bytes_of_text("-a") },
        { bytes_of_text("gfx90a68"), bytes_of_text("k.o"), bytes_of_text(huge) },
        { bytes_of_text("gfx90a68"), bytes_of("k\0o", 3), bytes_of_text("-a") },
        { bytes_of_text("gfx90a68"), bytes_of_text("k.o"), bytes_of("-\0a", 3) },
        { bytes_of_text("../etc"), bytes_of_text("k.o"), bytes_of_text("-a") },
        { bytes_of_text(""), bytes_of_text("k.o"), bytes_of_text("-a") },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct message_fetch_name m = { .database_id = bad[i].id,
                                        .name = bad[i].name,
                                        .args = bad[i].args };
        test_caller_forget_replies(&f->ann);
        SEND_MESSAGE(&f->ann, fetch_name, i, &m);
        assert_int_equal(reply_error(&f->ann, 0).code, KILN_INVALID);
    }
    assert_int_equal(fake_executor_run_tasks(&f->engine.executor), 0);
}

static void put_named_item(struct buffer *items, const char *name)
{
    struct message_fetch_name m = { .inline_limit = 100,
                                    .database_id = bytes_of_text(MI210),
                                    .name = bytes_of_text(name),
                                    .args = bytes_of_text(" -mcpu=gfx90a") };
    PUT_BATCH_ITEM(items, 2, fetch_name, &m);
}

TEST_F(users, a_batch_may_fetch_by_name)
{
    put_one(f, "gfx90a68.kdb", "conv.o", "the object");
    BUFFER_AUTO struct buffer items;
    buffer_init(&items, 10000);
    put_named_item(&items, "conv.o");
    put_named_item(&items, "none.o");
    put_named_item(&items, "");
    struct message_batch m = { .count = 3, .items = buffer_view(&items) };

    SEND_MESSAGE(&f->ann, batch, 9, &m);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(f->ann.reply_count, 2);
    assert_int_equal(reply_result(&f->ann, 0).index, 2);
    assert_int_equal(reply_result(&f->ann, 0).code, KILN_INVALID);
    struct reader r = reader_of(f->ann.replies[1].body);
    struct message_kernels both = message_kernels_read(&r);
    struct reader results = reader_of(both.results);
    assert_int_equal(both.count, 2);
    assert_content(message_result_read(&results), TIER_PACKAGE, "the object");
    struct message_result none = message_result_read(&results);
    assert_int_equal(none.index, 1);
    assert_int_equal(none.code, KILN_NOT_FOUND);
    assert_int_equal(f->ann.replies[1].flags, 0);
}

TEST_F(users, requests_for_one_name_share_a_look_up)
{
    put_one(f, "gfx90a68.kdb", "conv.o", "the object");
    struct message_fetch_name m = { .inline_limit = 100,
                                    .database_id = bytes_of_text(MI210),
                                    .name = bytes_of_text("conv.o"),
                                    .args = bytes_of_text(" -mcpu=gfx90a") };

    for (uint64_t id = 0; id < 3; id++)
        SEND_MESSAGE(&f->ann, fetch_name, id, &m);

    assert_int_equal(fake_executor_run_tasks(&f->engine.executor), 1);
    assert_int_equal(f->ann.reply_count, 3);
    assert_int_equal(users_stat(f, "coalesced"), 2);
    assert_int_equal(users_stat(f, "queued_bytes"), 0);
}

TEST_F(users, a_client_that_leaves_during_a_package_lookup_leaves_nothing)
{
    put_one(f, "gfx90a68.kdb", "conv.o", "the object");
    struct message_fetch_name m = { .database_id = bytes_of_text(MI210),
                                    .name = bytes_of_text("conv.o") };
    SEND_MESSAGE(&f->ann, fetch_name, 1, &m);

    test_caller_leave(&f->ann);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(users_stat(f, "cancelled"), 1);
    assert_int_equal(users_stat(f, "queued_bytes"), 0);
}

#define RECORDS "a key=a record\n"

static void write_kpkg(const char *path, const struct digest *key)
{
    struct kiln_err err = KILN_ERR_INIT;
    const struct package_entry records = { .name = bytes_of_text("!records/gfx90a68.HIP.fdb.txt"),
                                           .raw = bytes_of_text(RECORDS) };
    KILN_AUTO(package_writer) struct package_writer *writer = NULL;
    const struct package_entry entry = {
        .name = bytes_of_text("conv.cl.o"),
        .args = bytes_of_text("-mcpu=gfx90a"),
        .raw = bytes_of_text("the signed object"),
        .key = *key,
        .toolchain_id = { { 7 } },
        .target = bytes_of_text("gfx90a"),
        .toolchain = bytes_of_text("clang"),
        .program = bytes_of_text("conv.cl"),
        .options = bytes_of_text(""),
        .source = bytes_of_text("source"),
    };
    unlink(path);
    must(package_writer_create(path, PACKAGE_KILN, &writer, &err), err);
    must(package_writer_add(writer, &records, &err), err);
    must(package_writer_add(writer, &entry, &err), err);
    must(package_writer_finish(writer, &err), err);
}

/* Installs |path| as if kiln-transfer had found it signed by |signer|. */
static void install_signed(struct users *f, const char *path, const char *name, const char *signer)
{
    char question[300];
    snprintf(question, sizeof(question), "{\"url\":\"file:///tmp/%s\"}", name);
    test_caller_forget_replies(&f->admin);
    test_caller_send(&f->admin, MESSAGE_package_install, 3, bytes_of_text(question));
    fake_executor_transfer(&f->engine.executor, path, name, signer);
    fake_executor_run_tasks(&f->engine.executor);
}

static struct message_result ask_key(struct users *f, const struct digest *key)
{
    struct message_fetch m = { .key = *key, .inline_limit = 100 };
    test_caller_forget_replies(&f->ann);
    SEND_MESSAGE(&f->ann, fetch, 4, &m);
    fake_executor_run_tasks(&f->engine.executor);
    return last_result(&f->ann);
}

TEST_F(users, a_signed_package_answers_by_key_and_an_unsigned_one_by_name_alone)
{
    struct kiln_err err = KILN_ERR_INIT;
    const struct digest key = { { 1, 2, 3 } };
    char path[100];
    snprintf(path, sizeof(path), "%s/made.kpkg", f->engine.directory);
    must(manifest_keygen(f->engine.keys, "release", &err), err);
    write_kpkg(path, &key);

    install_signed(f, path, "gfx90a68.kpkg", "");
    assert_int_equal(ask_key(f, &key).code, KILN_NOT_FOUND);
    install_signed(f, path, "gfx90a68.kpkg", "somebody"); /* "somebody" has no trusted key */
    assert_int_equal(ask_key(f, &key).code, KILN_NOT_FOUND);
    install_signed(f, path, "gfx90a68.kpkg", "release");
    assert_content(ask_key(f, &key), TIER_PACKAGE, "the signed object");

    test_caller_forget_replies(&f->ann);
    test_caller_fetch_name(&f->ann, MI210, "conv.cl.o", "-mcpu=gfx90a");
    assert_content(last_result(&f->ann), TIER_PACKAGE, "the signed object");
}

TEST_F(users, tuning_files_of_a_package_are_returned_as_descriptors)
{
    char path[100], text[64];
    const char *question = "{\"name\":\"gfx90a68.kpkg\",\"count\":0,\"records\":true}";
    snprintf(path, sizeof(path), "%s/made.kpkg", f->engine.directory);
    write_kpkg(path, &(const struct digest){ { 1 } });
    install_signed(f, path, "gfx90a68.kpkg", "");

    KILN_AUTO(json) struct json *shown = test_caller_ask(&f->ann, MESSAGE_package_show, question);
    const struct json *name = json_first(json_get(shown, "records"));
    assert_string_equal(json_as_text(name, ""), "gfx90a68.HIP.fdb.txt");
    assert_null(json_next(name));
    size_t last = f->ann.reply_count - 1;
    assert_int_equal(f->ann.replies[last].object_count, 1);
    write_object(&f->ann, last, 0, f->made);
    FILE *file = fopen(f->made, "re");
    assert_non_null(file);
    assert_string_equal(fgets(text, sizeof(text), file), RECORDS);
    fclose(file);
}

static struct digest fail_conv(struct users *f)
{
    test_caller_forget_replies(&f->ann);
    fetch_program(&f->ann, 1, "conv.cl");
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "it does not compile", NULL);
    assert_int_equal(last_result(&f->ann).code, KILN_COMPILE_FAILED);
    return last_result(&f->ann).key;
}

static void make_release(struct users *f, const struct digest *key, char path[static 100])
{
    struct kiln_err err = KILN_ERR_INIT;
    snprintf(path, 100, "%s/made.kpkg", f->engine.directory);
    must(manifest_keygen(f->engine.keys, "release", &err), err);
    write_kpkg(path, key);
}

TEST_F(users, an_installed_package_serves_a_kernel_whose_compile_failed_before)
{
    char path[100];
    struct digest key = fail_conv(f);
    make_release(f, &key, path);

    install_signed(f, path, "gfx90a68.kpkg", "release");
    test_caller_forget_replies(&f->ann);
    fetch_program(&f->ann, 1, "conv.cl");

    assert_int_equal(last_result(&f->ann).code, KILN_OK);
    assert_int_equal(last_result(&f->ann).tier, TIER_PACKAGE);
}

TEST_F(users, a_compile_that_fails_after_an_install_is_not_remembered)
{
    char path[100];
    struct digest key = fail_conv(f);
    test_caller_send(&f->admin, MESSAGE_clear, 9, bytes_of_text("{\"all\":true}"));
    fake_executor_run_tasks(&f->engine.executor);
    make_release(f, &key, path);

    fetch_program(&f->ann, 1, "conv.cl");
    install_signed(f, path, "gfx90a68.kpkg", "release");
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "it does not compile", NULL);
    test_caller_forget_replies(&f->ann);
    fetch_program(&f->ann, 1, "conv.cl");

    assert_int_equal(last_result(&f->ann).code, KILN_OK);
    assert_int_equal(last_result(&f->ann).tier, TIER_PACKAGE);
}

/* One package has a damaged kernel under the key. This must not prevent the look-up by name in
 * another package. */
TEST_F(users, a_kernel_damaged_under_its_key_is_found_by_name_in_another_package)
{
    struct kiln_err err = KILN_ERR_INIT;
    const struct digest key = kernel_name_key(1000, bytes_of_text(MI210), bytes_of_text("conv.o"),
                                              bytes_of_text(" -mcpu=gfx90a"));
    char path[100];
    snprintf(path, sizeof(path), "%s/made.kpkg", f->engine.directory);
    put_one(f, "gfx90a68.kdb", "conv.o", "the object");
    must(manifest_keygen(f->engine.keys, "release", &err), err);
    write_kpkg(path, &key);
    flip_bit(path, bytes_of_text("the signed object"));
    install_signed(f, path, "gfx90a68.kpkg", "release");

    assert_content(fetch_named(f, MI210, "conv.o"), TIER_PACKAGE, "the object");

    assert_int_equal(users_stat(f, "quarantined"), 1);
    assert_says(engine_fixture_reported(&f->engine, "quarantined"), "package 'gfx90a68.kpkg'");
}

TEST_F(users, unsigned_packages_are_reported_and_unused_if_signatures_are_required)
{
    put_one(f, "gfx90a68.kdb", "conv.o", "the object");
    f->engine.options.require_signature = true;

    users_reopen(f);

    assert_int_equal(fetch_named(f, MI210, "conv.o").code, KILN_NOT_FOUND);
    assert_says(engine_fixture_reported(&f->engine, "package_refused"), "require-signature");
}
