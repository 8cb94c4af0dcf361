/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/users_fixture.h"

#include "common/base/fs.h"
#include "engine/store/kernel_name.h"

#include <stdio.h>
#include <string.h>

#define ARGS "  -mcpu=gfx906"

static void import_kernel(struct users *f, struct test_caller *c, const char *name,
                          const char *kernel, const char *question)
{
    const struct kernel_row row = TEXT_KERNEL(kernel, ARGS, kernel);
    unlink(f->file);
    write_kernel_file(f->file, &row, 1);
    const int file = open_copy(f->file);
    test_caller_forget_replies(c);
    test_caller_send_files(c, MESSAGE_kernel_import, question, &file, 1);
    fake_executor_transfer(&f->engine.executor, f->file, name, "");
    fake_executor_run_tasks(&f->engine.executor);
    json_destroy(reply_json(c, 0));
}

static struct json *ask_admin(struct users *f, enum message_type type, const char *question)
{
    return test_caller_ask(&f->admin, type, question);
}

static uint64_t count_of(struct users *f, enum message_type type, const char *question)
{
    KILN_AUTO(json) struct json *answer = ask_admin(f, type, question);
    return json_get_u64(answer, "kernels", 99);
}

static bool is_stored(struct users *f, const char *program)
{
    char question[100];
    snprintf(question, sizeof(question), "{\"program\":\"%s\"}", program);
    KILN_AUTO(json) struct json *list = ask_admin(f, MESSAGE_kernel_list, question);
    return json_count(json_get(list, "kernels")) == 1;
}

static void describe_as(struct users *f, const char *identity)
{
    char json[400];
    users_stop(f);
    snprintf(json, sizeof(json),
             "{\"toolchains\":[{\"name\":\"opencl\",\"version\":\"2\",\"path\":\"/x\","
             "\"family\":\"opencl\",\"only_target\":\"" FIXTURE_TARGET "\",\"identity\":\"%s\"}]}",
             identity);
    users_start_as(f, json);
}

#define UPGRADED "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

TEST_F(users, kernels_of_removed_toolchains_are_stale)
{
    compile_program(&f->ann, "old.cl");
    import_kernel(f, &f->ann, "gfx906_60.ukdb", "named.o", "{}");
    describe_as(f, UPGRADED);
    compile_program(&f->ann, "new.cl");

    KILN_AUTO(json)
    struct json *dry = ask_admin(f, MESSAGE_gc, "{\"stale\":true,\"dry_run\":true}");
    assert_int_equal(json_get_u64(dry, "stale_kernels", 9), 1);
    assert_true(json_get_bool(dry, "dry_run", false));
    assert_true(is_stored(f, "old.cl"));

    KILN_AUTO(json) struct json *gone = ask_admin(f, MESSAGE_gc, "{\"stale\":true}");
    assert_int_equal(json_get_u64(gone, "stale_kernels", 9), 1);
    assert_int_equal(json_get_u64(gone, "kernels", 9), 1);
    assert_false(is_stored(f, "old.cl"));
    assert_true(is_stored(f, "new.cl"));
    assert_true(is_stored(f, "named.o")); /* named.o was imported, so its toolchain is unknown */
}

TEST_F(users, two_versions_of_a_toolchain_live_side_by_side)
{
    compile_program(&f->ann, "k.cl");
    describe_as(f, UPGRADED);
    fetch_program(&f->ann, 1, "k.cl");
    assert_int_equal(f->ann.reply_count, 0);
    finish_compile(f, "by the new one");
    assert_int_equal(users_stat(f, "store_objects"), 2);
}

TEST_F(users, no_kernel_is_stale_while_toolchains_are_unknown)
{
    compile_program(&f->ann, "k.cl");
    users_stop(f);
    users_start_as(f, /* toolchains= */ NULL);
    test_caller_refused(&f->admin, MESSAGE_gc, "{\"stale\":true}", KILN_UNAVAILABLE, "compilers");
    assert_int_equal(count_of(f, MESSAGE_gc, "{}"), 0);
    assert_true(is_stored(f, "k.cl"));
}

TEST_F(users, gc_to_zero_bytes_spares_pinned_kernels)
{
    compile_program(&f->ann, "a.cl");
    compile_program(&f->ann, "b.cl");
    assert_int_equal(count_of(f, MESSAGE_kernel_pin, "{\"name\":\"b.cl\"}"), 1);
    KILN_AUTO(json) struct json *answer = ask_admin(f, MESSAGE_gc, "{\"to_bytes\":0}");
    assert_int_equal(json_get_u64(answer, "evicted_kernels", 9), 1);
    assert_true(json_get_bool(answer, "target_missed", false));
    assert_false(is_stored(f, "a.cl"));
    assert_true(is_stored(f, "b.cl"));
    assert_int_equal(users_stat(f, "evictions"), 1);
}

TEST_F(users, gc_sends_an_event_if_it_dropped_kernels)
{
    compile_program(&f->ann, "a.cl");
    json_destroy(test_caller_ask(&f->bob, MESSAGE_events, NULL));
    test_caller_forget_replies(&f->bob);
    json_destroy(ask_admin(f, MESSAGE_gc, "{}"));
    json_destroy(ask_admin(f, MESSAGE_gc, "{\"to_bytes\":0,\"dry_run\":true}"));
    assert_int_equal(f->bob.reply_count, 0);
    json_destroy(ask_admin(f, MESSAGE_gc, "{\"to_bytes\":0}"));
    assert_int_equal(f->bob.reply_count, 1);
}

TEST_F(users, kernels_are_pinned_and_unpinned_by_key)
{
    struct digest key = compile_program(&f->ann, "a.cl");
    char hex[DIGEST_HEX_SIZE], question[200];
    digest_to_hex(&key, hex);
    snprintf(question, sizeof(question), "{\"keys\":[\"%.12s\"]}", hex);
    assert_int_equal(count_of(f, MESSAGE_kernel_pin, question), 1);
    snprintf(question, sizeof(question), "{\"key\":\"%s\"}", hex);
    KILN_AUTO(json) struct json *pinned = ask_admin(f, MESSAGE_kernel_show, question);
    assert_true(json_get_bool(pinned, "pinned", false));

    snprintf(question, sizeof(question), "{\"keys\":[\"%s\"],\"pin\":false}", hex);
    assert_int_equal(count_of(f, MESSAGE_kernel_pin, question), 1);
    assert_int_equal(count_of(f, MESSAGE_gc, "{\"to_bytes\":0}"), 1);
}

TEST_F(users, kernels_are_pinned_by_target_name_and_database_id)
{
    compile_program(&f->ann, "a.cl");
    compile_program(&f->ann, "b.cl");
    import_kernel(f, &f->ann, "gfx906_60.ukdb", "named.o", "{}");
    assert_int_equal(count_of(f, MESSAGE_kernel_pin, "{\"target\":\"" FIXTURE_TARGET "\"}"), 2);
    assert_int_equal(count_of(f, MESSAGE_kernel_pin, "{\"database_id\":\"gfx906_60\"}"), 1);
    assert_int_equal(count_of(f, MESSAGE_kernel_pin, "{\"name\":\"none.cl\"}"), 0);
    assert_int_equal(count_of(f, MESSAGE_gc, "{\"to_bytes\":0}"), 0);
}

TEST_F(users, a_pin_request_must_name_kernels)
{
    test_caller_refused(&f->admin, MESSAGE_kernel_pin, "{}", KILN_INVALID, "kernel_pin");
    test_caller_refused(&f->admin, MESSAGE_kernel_pin, "{\"keys\":[\"ab\"],\"name\":\"x\"}",
                        KILN_INVALID, "kernel_pin");
    test_caller_refused(&f->admin, MESSAGE_kernel_pin, "{\"keys\":[\"xyz\"]}", KILN_INVALID,
                        "'xyz'");
    test_caller_refused(&f->admin, MESSAGE_kernel_pin, "{\"keys\":[\"ab\"]}", KILN_NOT_FOUND,
                        "'ab'");
    test_caller_refused(&f->ann, MESSAGE_kernel_pin, "{\"name\":\"x\"}", KILN_DENIED,
                        "administrator");
    test_caller_refused(&f->ann, MESSAGE_gc, "{}", KILN_DENIED, "administrator");
}

TEST_F(users, private_kernels_of_others_make_no_key_prefix_ambiguous)
{
    struct digest key = compile_program(&f->bob, "a.cl"), private;
    char hex[DIGEST_HEX_SIZE], question[100], name[32];
    unsigned number = 0;
    /* Finds a name such that the key of ann's kernel with that name begins with the same digit as
     * |key|. */
    do {
        snprintf(name, sizeof(name), "k%u.o", number++);
        private = kernel_name_key(1000, bytes_of_text("gfx906_60"), bytes_of_text(name),
                                  bytes_of_text(ARGS));
    } while (private.bytes[0] >> 4 != key.bytes[0] >> 4);
    import_kernel(f, &f->ann, "gfx906_60.ukdb", name, "{}");
    digest_to_hex(&key, hex);
    snprintf(question, sizeof(question), "{\"key\":\"%.1s\"}", hex);

    KILN_AUTO(json)
    struct json *shown = test_caller_ask(&f->bob, MESSAGE_kernel_show, question);
    assert_string_equal(json_get_text(shown, "key", ""), hex);
    test_caller_refused(&f->ann, MESSAGE_kernel_show, question, KILN_INVALID, "several keys");
    test_caller_refused(&f->admin, MESSAGE_kernel_show, question, KILN_INVALID, "several keys");
    digest_to_hex(&private, hex);
    snprintf(question, sizeof(question), "{\"key\":\"%s\"}", hex);
    test_caller_refused(&f->bob, MESSAGE_kernel_show, question, KILN_NOT_FOUND, "begins with");
}

/* Stores four kernels: a.cl, compiled for ann; b.cl, compiled for bob; named.o, a private import of
 * ann's from gfx906_60.ukdb; and other.o, an import for all users from gfx90a68.ukdb. */
static void store_four_kernels(struct users *f)
{
    compile_program(&f->ann, "a.cl");
    compile_program(&f->bob, "b.cl");
    import_kernel(f, &f->ann, "gfx906_60.ukdb", "named.o", "{}");
    import_kernel(f, &f->admin, "gfx90a68.ukdb", "other.o", "{\"for_all\":true}");
}

TEST_F(users, clearing_removes_only_matching_kernels)
{
    static const struct {
        const char *question;
        const char *gone;
    } cases[] = {
        { "{\"name\":\"a.cl\"}", "a" },
        { "{\"name\":\"named.o\"}", "n" },
        { "{\"uid\":1000}", "an" },
        { "{\"uid\":0}", "o" },
        { "{\"toolchain\":\"opencl\"}", "ab" },
        { "{\"toolchain\":\"miopen\"}", "no" },
        { "{\"package\":\"gfx90a68.ukdb\"}", "o" },
        { "{\"database_id\":\"gfx906_60\"}", "n" },
        { "{\"target\":\"" FIXTURE_TARGET "\"}", "ab" },
        { "{\"uid\":1000,\"toolchain\":\"opencl\"}", "a" },
        { "{\"uid\":1001,\"package\":\"gfx90a68.ukdb\"}", "" },
        { "{\"all\":true}", "abno" },
    };
    static const char *const programs[] = { "a.cl", "b.cl", "named.o", "other.o" };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_destroy(ask_admin(f, MESSAGE_clear, "{\"all\":true}"));
        store_four_kernels(f);
        char dry[200];
        snprintf(dry, sizeof(dry), "{\"dry_run\":true,%s", cases[i].question + 1);
        assert_int_equal(count_of(f, MESSAGE_clear, dry), strlen(cases[i].gone));
        assert_int_equal(count_of(f, MESSAGE_clear, cases[i].question), strlen(cases[i].gone));
        for (size_t k = 0; k < sizeof(programs) / sizeof(programs[0]); k++)
            assert_int_equal(is_stored(f, programs[k]), !strchr(cases[i].gone, programs[k][0]));
    }
}

TEST_F(users, a_cleared_kernel_is_no_longer_hot)
{
    store_four_kernels(f);
    test_caller_fetch_name(&f->ann, "gfx906_60", "named.o", ARGS);
    assert_int_equal(last_result(&f->ann).code, KILN_OK);
    assert_int_equal(count_of(f, MESSAGE_clear, "{\"package\":\"gfx906_60.ukdb\"}"), 1);
    test_caller_fetch_name(&f->ann, "gfx906_60", "named.o", ARGS);
    assert_int_equal(last_result(&f->ann).code, KILN_NOT_FOUND);
}

TEST_F(users, a_clear_request_must_name_kernels)
{
    test_caller_refused(&f->admin, MESSAGE_clear, "{\"dry_run\":true}", KILN_INVALID,
                        "older_than_s");
}
