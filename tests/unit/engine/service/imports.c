/* SPDX-License-Identifier: MIT */
/* MIOpen's per-user caches in: whose the kernels are then, what damage costs, and how it ends
 * early. */
#include "tests/unit/engine/service/kernel_files.h"

#include "common/fs.h"
#include "engine/service/internal.h"
#include "engine/service/store_tasks.h"
#include "engine/store/kernel_name.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ID "gfx906_60"
#define ARGS "  -mcpu=gfx906"
#define LARGE (64u << 10)
#define LARGE_COUNT 20
#define MANY 600 /* rows: more than two steps of an import */

struct fixture {
    struct engine_fixture engine;
    struct test_caller ann, bob, admin;
    char cache[100]; /* a .ukdb to import */
    unsigned descriptors;
};

static void join(struct fixture *f)
{
    test_caller_join(&f->ann, &f->engine, 1000, ROLE_USE);
    test_caller_join(&f->bob, &f->engine, 1001, ROLE_USE);
    test_caller_join(&f->admin, &f->engine, 0, ROLE_ADMIN);
    must(test_caller_hello(&f->ann, &f->engine), f->engine.err);
    must(test_caller_hello(&f->bob, &f->engine), f->engine.err);
    must(test_caller_hello(&f->admin, &f->engine), f->engine.err);
}

static void leave(struct fixture *f)
{
    test_caller_leave(&f->ann, &f->engine);
    test_caller_leave(&f->bob, &f->engine);
    test_caller_leave(&f->admin, &f->engine);
}

static int setup(void **state)
{
    static struct fixture f;
    f.descriptors = open_descriptors();
    engine_fixture_open(&f.engine, true);
    join(&f);
    snprintf(f.cache, sizeof(f.cache), "%s/user.ukdb", f.engine.folder);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    leave(f);
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
    engine_fixture_close(&f->engine);
    assert_int_equal(open_descriptors(), f->descriptors);
    return 0;
}

static void write_cache(struct fixture *f, const struct kernel_row *rows, size_t count)
{
    unlink(f->cache);
    write_kernel_file(f->cache, rows, count);
}

/* |count| kernels named k0.o and on, each with a content of its own. */
static void write_many(struct fixture *f, unsigned count)
{
    static char names[MANY][16], contents[MANY][48];
    static struct kernel_row rows[MANY];
    for (unsigned i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), "k%u.o", i);
        snprintf(contents[i], sizeof(contents[i]), "the object of kernel number %u", i);
        rows[i] = (struct kernel_row)TEXT_KERNEL(names[i], ARGS, contents[i]);
    }
    write_cache(f, rows, count);
}

static void begin(struct fixture *f, struct test_caller *c, const char *question)
{
    const int file = open_copy(f->cache);
    test_caller_forget_replies(c);
    must(test_caller_send_files(c, &f->engine, MESSAGE_kernel_import, 3, bytes_of_text(question),
                                &file, 1),
         f->engine.err);
}

/* The transfer is over, the file is ready to be read. */
static void arrive(struct fixture *f)
{
    fake_executor_transfer(&f->engine.executor, f->cache, ID ".ukdb", "");
}

static void import(struct fixture *f, struct test_caller *c, const char *question)
{
    begin(f, c, question);
    arrive(f);
    fake_executor_run_tasks(&f->engine.executor);
}

static void import_one(struct fixture *f, struct test_caller *c, const char *question,
                       const char *content)
{
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, content);
    write_cache(f, &row, 1);
    import(f, c, question);
    json_destroy(reply_json(c, 0));
}

#define PAGE 4096

/* Where the page begins that holds |content|. */
static size_t page_of(const struct fixture *f, const char *content)
{
    BUFFER_AUTO struct buffer file;
    struct kiln_err err = KILN_ERR_INIT;
    buffer_init(&file, 16u << 20);
    must(fs_read_file(f->cache, 16u << 20, &file, &err), err);
    const uint8_t *at = memmem(file.data, file.size, content, strlen(content));
    assert_non_null(at);
    return (size_t)(at - file.data) / PAGE * PAGE;
}

static void overwrite(const struct fixture *f, size_t at, size_t size)
{
    uint8_t bytes[PAGE];
    memset(bytes, 0xee, sizeof(bytes));
    int fd = open(f->cache, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && size <= sizeof(bytes));
    assert_int_equal(pwrite(fd, bytes, size, (off_t)at), size);
    close(fd);
}

static struct message_outcome ask(struct fixture *f, struct test_caller *c, const char *name)
{
    test_caller_forget_replies(c);
    test_caller_want_named(c, &f->engine, ID, name, ARGS);
    return last_outcome(c);
}

static bool gets(struct fixture *f, struct test_caller *c, const char *content)
{
    struct message_outcome o = ask(f, c, "conv.o");
    return o.code == KILN_OK && bytes_equal_text(o.content, content);
}

static uint64_t stat(struct fixture *f, const char *name)
{
    return engine_fixture_stat(&f->engine, name);
}

static size_t listed(struct fixture *f, struct test_caller *c)
{
    KILN_AUTO(json)
    struct json *list = test_caller_ask(c, &f->engine, MESSAGE_kernel_list, NULL);
    return json_count(json_get(list, "kernels"));
}

/* ---- whose they are ---- */

static void what_a_user_imports_is_his_alone(void **state)
{
    struct fixture *f = *state;
    import_one(f, &f->ann, "{}", "of ann");

    assert_true(gets(f, &f->ann, "of ann"));
    assert_int_equal(last_outcome(&f->ann).tier, TIER_DISK);
    assert_true(gets(f, &f->ann, "of ann"));
    assert_int_equal(last_outcome(&f->ann).tier, TIER_HOT);
    assert_int_equal(ask(f, &f->bob, "conv.o").code, KILN_NOT_FOUND);
    assert_int_equal(ask(f, &f->admin, "conv.o").code, KILN_NOT_FOUND);
}

static void another_user_does_not_get_it_by_its_key_hot_or_not(void **state)
{
    struct fixture *f = *state;
    import_one(f, &f->ann, "{}", "of ann");
    assert_true(gets(f, &f->ann, "of ann")); /* hot now */
    struct digest key = last_outcome(&f->ann).key;
    for (int round = 0; round < 2; round++) {
        struct message_fetch m = { .key = key, .inline_limit = 100 };
        BUFFER_AUTO struct buffer b;
        buffer_init(&b, 100);
        message_fetch_write(&b, &m);
        test_caller_forget_replies(&f->bob);
        test_caller_forget_replies(&f->ann);
        must(test_caller_send(&f->bob, &f->engine, MESSAGE_fetch, 1, buffer_view(&b)),
             f->engine.err);
        must(test_caller_send(&f->ann, &f->engine, MESSAGE_fetch, 1, buffer_view(&b)),
             f->engine.err); /* joins the same look-up, in the second round */
        fake_executor_run_tasks(&f->engine.executor);
        assert_int_equal(last_outcome(&f->bob).code, KILN_NOT_FOUND);
        assert_int_equal(last_outcome(&f->bob).content.size, 0);
        assert_true(bytes_equal_text(last_outcome(&f->ann).content, "of ann"));
        hot_set_clear(f->engine.engine->hot);
    }
}

static void another_user_neither_lists_nor_shows_it_but_an_admin_does(void **state)
{
    struct fixture *f = *state;
    import_one(f, &f->ann, "{}", "of ann");
    assert_int_equal(listed(f, &f->ann), 1);
    assert_int_equal(listed(f, &f->bob), 0);
    assert_int_equal(listed(f, &f->admin), 1);

    assert_true(gets(f, &f->ann, "of ann"));
    struct digest key = last_outcome(&f->ann).key;
    char hex[DIGEST_HEX_SIZE], question[100];
    digest_to_hex(&key, hex);
    snprintf(question, sizeof(question), "{\"key\":\"%s\"}", hex);
    test_caller_refused(&f->bob, &f->engine, MESSAGE_kernel_show, question, KILN_NOT_FOUND,
                        "no stored kernel's key begins with");
    KILN_AUTO(json)
    struct json *shown = test_caller_ask(&f->ann, &f->engine, MESSAGE_kernel_show, question);
    assert_true(json_get_bool(shown, "private", false));
    assert_string_equal(json_get_text(shown, "program", ""), "conv.o");
    assert_string_equal(json_get_text(shown, "options", ""), ARGS);
    assert_string_equal(json_get_text(shown, "database_id", ""), ID);
    assert_string_equal(json_get_text(shown, "package", ""), ID ".ukdb");
    json_destroy(test_caller_ask(&f->admin, &f->engine, MESSAGE_kernel_show, question));
}

static void a_page_of_what_others_may_not_see_still_leads_on(void **state)
{
    struct fixture *f = *state;
    write_many(f, 20);
    import(f, &f->ann, "{}");
    import_one(f, &f->bob, "{}", "of bob");
    size_t seen = 0;
    char question[200] = "{\"count\":3}";
    for (bool more = true; more;) {
        KILN_AUTO(json)
        struct json *page = test_caller_ask(&f->bob, &f->engine, MESSAGE_kernel_list, question);
        seen += json_count(json_get(page, "kernels"));
        const char *next = json_get_text(page, "next", NULL);
        more = next != NULL;
        snprintf(question, sizeof(question), "{\"count\":3,\"after\":\"%s\"}", next ? next : "");
    }
    assert_int_equal(seen, 1);
}

static void only_an_admin_imports_for_everyone(void **state)
{
    struct fixture *f = *state;
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, "for all");
    write_cache(f, &row, 1);
    begin(f, &f->ann, "{\"for_all\":true}");
    assert_reply_refuses(&f->ann, 0, KILN_DENIED, "only an administrator may import for everyone");
    assert_int_equal(f->engine.executor.transfers_handed_over, 0);

    import(f, &f->admin, "{\"for_all\":true}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->admin, 0);
    assert_string_equal(json_get_text(answer, "scope", ""), "everyone");
    assert_true(gets(f, &f->ann, "for all"));
    assert_int_equal(last_outcome(&f->ann).tier, TIER_DISK);
    assert_true(gets(f, &f->bob, "for all"));
    assert_int_equal(listed(f, &f->bob), 1);
}

static void ones_own_goes_before_everyones_and_both_before_packages(void **state)
{
    struct fixture *f = *state;
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, "of the package");
    put_package(&f->engine, ID ".kdb", &row, 1);
    engine_fixture_rescan(&f->engine);
    assert_true(gets(f, &f->ann, "of the package"));
    import_one(f, &f->admin, "{\"for_all\":true}", "for all");
    assert_true(gets(f, &f->ann, "for all")); /* although the package's was hot */
    import_one(f, &f->ann, "{}", "of ann");

    assert_true(gets(f, &f->ann, "of ann"));
    assert_true(gets(f, &f->bob, "for all"));
}

static void the_same_name_imported_again_is_replaced(void **state)
{
    struct fixture *f = *state;
    import_one(f, &f->ann, "{}", "old");
    assert_true(gets(f, &f->ann, "old"));
    import_one(f, &f->ann, "{}", "new");
    assert_true(gets(f, &f->ann, "new"));
    assert_int_equal(listed(f, &f->ann), 1);
}

/* Of the one kernel there is, once the marks are written. */
static uint64_t uses(struct fixture *f)
{
    recency_write(f->engine.engine, /* force= */ true);
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json)
    struct json *list = test_caller_ask(&f->admin, &f->engine, MESSAGE_kernel_list, NULL);
    return json_get_u64(json_first(json_get(list, "kernels")), "uses", 0);
}

static void the_use_of_everyones_kernel_counts_also_when_it_is_hot(void **state)
{
    struct fixture *f = *state;
    import_one(f, &f->admin, "{\"for_all\":true}", "for all");
    uint64_t before = uses(f);
    assert_true(gets(f, &f->ann, "for all"));
    assert_int_equal(last_outcome(&f->ann).tier, TIER_DISK);
    uint64_t from_disk = uses(f);
    assert_true(from_disk > before);
    assert_true(gets(f, &f->ann, "for all"));
    assert_int_equal(last_outcome(&f->ann).tier, TIER_HOT);
    assert_true(uses(f) > from_disk);
}

static uint64_t replaced_by(struct fixture *f, const char *content)
{
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, content);
    write_cache(f, &row, 1);
    import(f, &f->ann, "{}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), 1);
    return json_get_u64(answer, "replaced", 9);
}

static void what_an_import_replaces_by_other_bytes_is_counted(void **state)
{
    struct fixture *f = *state;
    import_one(f, &f->bob, "{}", "of bob");
    assert_int_equal(replaced_by(f, "of one MIOpen"), 0);
    assert_int_equal(replaced_by(f, "of one MIOpen"), 0);
    assert_int_equal(replaced_by(f, "of another MIOpen"), 1);
}

static void versions_of_miopen_do_not_replace_each_other(void **state)
{
    struct fixture *f = *state;
    import_one(f, &f->ann, "{}", "of no version");
    import_one(f, &f->ann, "{\"version\":\"3.2.0\"}", "of one version");
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, "of another version");
    write_cache(f, &row, 1);
    import(f, &f->ann, "{\"version\":\"3.3.0-a_B\"}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);

    assert_int_equal(json_get_u64(answer, "replaced", 9), 0);
    assert_string_equal(json_get_text(answer, "database_id", ""), ID "@3.3.0-a_B");
    assert_int_equal(listed(f, &f->ann), 3);
    assert_true(gets(f, &f->ann, "of no version"));
}

static void what_is_no_version_is_refused_before_the_file_is_taken(void **state)
{
    struct fixture *f = *state;
    static const char *const questions[] = {
        "{\"version\":\"\"}",
        "{\"version\":\"3@2\"}",
        "{\"version\":\"3/2\"}",
        "{\"version\":\"3 2\"}",
        "{\"version\":\"12345678901234567890123456789012345678901\"}",
    };
    write_many(f, 1);
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        begin(f, &f->ann, questions[i]);
        assert_reply_refuses(&f->ann, 0, KILN_INVALID, "a version of MIOpen has 1 to 40 letters");
    }
    assert_int_equal(f->engine.executor.transfers_handed_over, 0);
}

static void what_others_have_hot_stays_hot(void **state)
{
    struct fixture *f = *state;
    import_one(f, &f->bob, "{}", "of bob");
    assert_true(gets(f, &f->bob, "of bob"));
    assert_true(gets(f, &f->bob, "of bob"));
    assert_int_equal(last_outcome(&f->bob).tier, TIER_HOT);

    import_one(f, &f->ann, "{}", "of ann");

    assert_true(gets(f, &f->bob, "of bob"));
    assert_int_equal(last_outcome(&f->bob).tier, TIER_HOT);
}

/* ---- which GPU they are for ---- */

static void the_database_id_may_be_given_for_files_of_another_name(void **state)
{
    struct fixture *f = *state;
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, "of ann");
    write_cache(f, &row, 1);
    begin(f, &f->ann, "{\"database_id\":\"gfx906_60\"}");
    fake_executor_transfer(&f->engine.executor, f->cache, "backup.ukdb", "");
    fake_executor_run_tasks(&f->engine.executor);
    json_destroy(reply_json(&f->ann, 0));
    assert_true(gets(f, &f->ann, "of ann"));

    begin(f, &f->ann, "{}");
    fake_executor_transfer(&f->engine.executor, f->cache, "backup.ukdb", "");
    fake_executor_run_tasks(&f->engine.executor);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "give its database id");
}

static void imports_salvage_and_need_no_signature(void **state)
{
    struct fixture *f = *state;
    leave(f);
    f->engine.options.require_signature = true;
    engine_fixture_reopen(&f->engine);
    join(f);
    const struct kernel_row row = TEXT_KERNEL("conv.o", ARGS, "of ann");
    write_cache(f, &row, 1);
    begin(f, &f->ann, "{\"name\":\"gfx906_60.ukdb\"}");
    const struct transfer_job *job = &fake_executor_next_transfer(&f->engine.executor)->job;
    assert_true(job->salvage);
    assert_false(job->require_signature);
    assert_string_equal(job->name, "gfx906_60.ukdb");
    arrive(f);
    fake_executor_run_tasks(&f->engine.executor);
    assert_true(gets(f, &f->ann, "of ann"));
}

/* A caller names no URL: what a user may read is his to open, not kilnd's. */
static void a_cache_comes_as_a_file_alone(void **state)
{
    struct fixture *f = *state;
    test_caller_refused(&f->ann, &f->engine, MESSAGE_kernel_import,
                        "{\"url\":\"file:///etc/passwd\"}", KILN_INVALID, "'url' is no member");
    test_caller_refused(&f->ann, &f->engine, MESSAGE_kernel_import, "{}", KILN_INVALID, "came");
}

/* ---- damage ---- */

static void damaged_rows_are_counted_and_the_rest_is_imported(void **state)
{
    struct fixture *f = *state;
    write_many(f, 20);
    flip_bit(f->cache, bytes_of_text("the object of kernel number 4"));
    flip_bit(f->cache, bytes_of_text("the object of kernel number 7"));
    import(f, &f->ann, "{}");

    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), 18);
    assert_int_equal(json_get_u64(answer, "damaged", 0), 2);
    assert_int_equal(json_get_u64(answer, "lost", 9), 0);
    assert_says(json_get_text(answer, "first", ""), "row 5 (");
    assert_string_equal(json_get_text(answer, "database_id", ""), ID);
    assert_string_equal(json_get_text(answer, "scope", ""), "own");
    assert_int_equal(ask(f, &f->ann, "k3.o").code, KILN_OK);
    assert_int_equal(ask(f, &f->ann, "k4.o").code, KILN_NOT_FOUND);
}

static void what_is_damaged_in_the_store_later_is_a_miss_counted_once(void **state)
{
    struct fixture *f = *state;
    import_one(f, &f->admin, "{\"for_all\":true}", "this object is for everybody here");
    leave(f);
    engine_close(f->engine.engine);
    char path[100];
    snprintf(path, sizeof(path), "%s/kernels.db", f->engine.folder);
    flip_bit(path, bytes_of_text("this object is for everybody here"));
    must(engine_open(&f->engine.options, &f->engine.engine, &f->engine.err), f->engine.err);
    engine_start(f->engine.engine);
    engine_fixture_describe(&f->engine);
    join(f);

    assert_int_equal(ask(f, &f->ann, "conv.o").code, KILN_NOT_FOUND);

    assert_int_equal(stat(f, "quarantined"), 1);
    assert_int_equal(listed(f, &f->ann), 0);
}

/* Page 1 says where everything is; MIOpen's caches are often damaged there. */
static void a_cache_damaged_at_its_head_is_salvaged(void **state)
{
    struct fixture *f = *state;
    write_many(f, 20);
    overwrite(f, 0, 100);
    import(f, &f->ann, "{}");

    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), 20);
    assert_int_equal(json_get_u64(answer, "lost", 9), 0);
    assert_true(json_get_bool(answer, "file_damaged", false));
    assert_true(json_get_bool(answer, "lost_unknown", false));
    assert_int_equal(ask(f, &f->ann, "k19.o").code, KILN_OK);
}

static void lost_rows_are_counted_once_in_all_steps(void **state)
{
    struct fixture *f = *state;
    write_many(f, MANY);
    overwrite(f, page_of(f, "the object of kernel number 400"), PAGE);
    import(f, &f->ann, "{}");

    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    uint64_t imported = json_get_u64(answer, "imported", 0);
    assert_true(imported > MANY - 100 && imported < MANY);
    assert_int_equal(imported + json_get_u64(answer, "lost", 0), MANY);
    assert_true(json_get_bool(answer, "file_damaged", false));
    assert_false(json_get_bool(answer, "lost_unknown", false)); /* the index names them */
}

static void a_cache_without_damage_is_not_called_damaged(void **state)
{
    struct fixture *f = *state;
    write_many(f, 20);
    import(f, &f->ann, "{}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_null(json_get(answer, "file_damaged"));
    assert_null(json_get(answer, "lost_unknown"));
    assert_int_equal(json_get_u64(answer, "evicted", 9), 0);
}

static void a_cache_that_cannot_be_read_at_all_is_an_error(void **state)
{
    struct fixture *f = *state;
    FILE *file = fopen(f->cache, "w");
    fputs("not a database, and nothing like a row in it", file);
    fclose(file);
    import(f, &f->ann, "{}");
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_CORRUPT);
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

/* ---- many ---- */

static void many_rows_are_imported_in_steps_and_others_get_their_turn(void **state)
{
    struct fixture *f = *state;
    write_many(f, MANY);
    begin(f, &f->ann, "{}");
    arrive(f);
    assert_true(fake_executor_run_task(&f->engine.executor)); /* the first step */
    assert_int_equal(f->ann.reply_count, 0);
    test_caller_want_named(&f->bob, &f->engine, ID, "k1.o", ARGS); /* runs the rest, too */

    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), MANY);
    assert_int_equal(json_get_u64(answer, "damaged", 9), 0);
    assert_int_equal(json_get_u64(answer, "lost", 9), 0);
    assert_int_equal(stat(f, "store_objects"), MANY);
    assert_int_equal(ask(f, &f->ann, "k599.o").code, KILN_OK);
}

static void as_many_rows_as_a_step_takes_are_imported_once(void **state)
{
    struct fixture *f = *state;
    write_many(f, 512);
    import(f, &f->ann, "{}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), 512);
    assert_int_equal(f->ann.reply_count, 1);
}

static void beyond_the_quota_it_is_said_how_much_and_what_to_do(void **state)
{
    struct fixture *f = *state;
    leave(f);
    f->engine.options.store_limit_bytes_uid = 64u << 10;
    engine_fixture_reopen(&f->engine);
    join(f);
    write_many(f, MANY);

    import(f, &f->ann, "{}");

    assert_reply_refuses(&f->ann, 0, KILN_FULL, "importing 'gfx906_60.ukdb', after ");
    assert_reply_refuses(&f->ann, 0, KILN_FULL, "kilnctl clear --uid 1000");
    assert_true(listed(f, &f->ann) > 0);    /* what fitted stays */
    import_one(f, &f->bob, "{}", "of bob"); /* another's quota is his own */
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

/* Kernels of 64 KiB that do not compress, from |seed|. */
static void write_large(struct fixture *f, unsigned count, uint32_t seed)
{
    static uint8_t contents[LARGE_COUNT][LARGE];
    static char names[LARGE_COUNT][16];
    static struct kernel_row rows[LARGE_COUNT];
    assert_true(count <= LARGE_COUNT);
    for (unsigned i = 0; i < count; i++) {
        for (size_t at = 0; at < LARGE; at++) {
            seed = seed * 1664525u + 1013904223u;
            contents[i][at] = (uint8_t)(seed >> 24);
        }
        snprintf(names[i], sizeof(names[i]), "k%u.o", i);
        rows[i] = (struct kernel_row){ names[i], ARGS, (const char *)contents[i], LARGE };
    }
    write_cache(f, rows, count);
}

static void what_had_to_go_for_an_import_is_told_and_counted(void **state)
{
    struct fixture *f = *state;
    leave(f);
    f->engine.options.store_limit_bytes = 2u << 20;
    engine_fixture_reopen(&f->engine);
    join(f);
    write_large(f, LARGE_COUNT, 1);
    import(f, &f->ann, "{}");
    json_destroy(reply_json(&f->ann, 0));
    write_large(f, LARGE_COUNT, 2);
    import(f, &f->bob, "{}");

    KILN_AUTO(json) struct json *answer = reply_json(&f->bob, 0);
    uint64_t evicted = json_get_u64(answer, "evicted", 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), LARGE_COUNT);
    assert_true(evicted > 0 && evicted <= LARGE_COUNT);
    assert_int_equal(stat(f, "evictions"), evicted);
}

/* ---- how large, how many ---- */

static void a_cache_that_the_store_could_never_hold_is_not_copied(void **state)
{
    struct fixture *f = *state;
    leave(f);
    f->engine.options.store_limit_bytes = 2u << 20;
    f->engine.options.package_limit = 1u << 30;
    engine_fixture_reopen(&f->engine);
    join(f);
    write_many(f, 1);
    begin(f, &f->ann, "{}");
    assert_int_equal(fake_executor_next_transfer(&f->engine.executor)->job.size_limit, 8u << 20);
    fake_executor_transfer_fail(&f->engine.executor, KILN_FULL, "too large");
    leave(f);
    f->engine.options.package_limit = 1u << 20;
    engine_fixture_reopen(&f->engine);
    join(f);
    begin(f, &f->ann, "{}");
    assert_int_equal(fake_executor_next_transfer(&f->engine.executor)->job.size_limit, 1u << 20);
    fake_executor_transfer_fail(&f->engine.executor, KILN_FULL, "too large");
}

static void a_user_has_two_on_their_way_at_most(void **state)
{
    struct fixture *f = *state;
    write_many(f, 1);
    begin(f, &f->ann, "{}");
    begin(f, &f->ann, "{}");
    begin(f, &f->ann, "{}");
    assert_reply_refuses(&f->ann, 0, KILN_BUSY, "2 imports of yours (uid 1000) are under way");
    begin(f, &f->bob, "{}");
    assert_int_equal(f->bob.reply_count, 0);
    fake_executor_transfer_fail(&f->engine.executor, KILN_IO, "no");
    begin(f, &f->ann, "{}");
    assert_int_equal(f->ann.reply_count, 0);
    while (fake_executor_next_transfer(&f->engine.executor))
        fake_executor_transfer_fail(&f->engine.executor, KILN_IO, "no");
}

#define USERS 6

static void users_leave_room_for_administrators(void **state)
{
    struct fixture *f = *state;
    struct test_caller users[USERS];
    write_many(f, 1);
    for (unsigned i = 0; i < USERS; i++) {
        test_caller_join(&users[i], &f->engine, 2000 + i, ROLE_USE);
        must(test_caller_hello(&users[i], &f->engine), f->engine.err);
        begin(f, &users[i], "{}");
        begin(f, &users[i], "{}");
        assert_int_equal(users[i].reply_count, 0);
    }
    begin(f, &f->ann, "{}");
    assert_reply_refuses(&f->ann, 0, KILN_BUSY, "12 packages and caches are on their way");
    for (int i = 0; i < 4; i++) {
        begin(f, &f->admin, "{}");
        assert_int_equal(f->admin.reply_count, 0);
    }
    begin(f, &f->admin, "{}");
    assert_reply_refuses(&f->admin, 0, KILN_BUSY, "16 packages and caches are on their way");
    while (fake_executor_next_transfer(&f->engine.executor))
        fake_executor_transfer_fail(&f->engine.executor, KILN_IO, "no");
    for (unsigned i = 0; i < USERS; i++)
        test_caller_leave(&users[i], &f->engine);
}

/* ---- ended early ---- */

static void who_leaves_during_the_transfer_has_it_cancelled(void **state)
{
    struct fixture *f = *state;
    write_many(f, 3);
    begin(f, &f->ann, "{}");
    test_caller_leave(&f->ann, &f->engine);
    assert_int_equal(f->engine.executor.transfers_cancelled, 1);
    fake_executor_transfer_fail(&f->engine.executor, KILN_CANCELLED, "cancelled");
    assert_int_equal(fake_executor_run_tasks(&f->engine.executor), 0);
    assert_int_equal(stat(f, "store_objects"), 0);
    test_caller_join(&f->ann, &f->engine, 1000, ROLE_USE);
}

static void who_leaves_during_the_import_ends_it_after_the_step(void **state)
{
    struct fixture *f = *state;
    write_many(f, MANY);
    begin(f, &f->ann, "{}");
    arrive(f);
    assert_true(fake_executor_run_task(&f->engine.executor));
    assert_int_equal(engine_fixture_staged(&f->engine), 1);

    test_caller_leave(&f->ann, &f->engine);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(engine_fixture_staged(&f->engine), 0);
    assert_null(f->engine.engine->arrivals);
    uint64_t there = stat(f, "store_objects");
    assert_true(there > 0 && there < MANY);
    test_caller_join(&f->ann, &f->engine, 1000, ROLE_USE);
}

static void a_cancelled_import_is_answered_once(void **state)
{
    struct fixture *f = *state;
    write_many(f, MANY);
    begin(f, &f->ann, "{}");
    arrive(f);
    assert_true(fake_executor_run_task(&f->engine.executor));
    test_caller_cancel(&f->ann, &f->engine, 3);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_CANCELLED);
}

static void a_daemon_that_stops_puts_the_rest_off(void **state)
{
    struct fixture *f = *state;
    write_many(f, MANY);
    begin(f, &f->ann, "{}");
    arrive(f);
    engine_drain(f->engine.engine);
    assert_int_equal(f->engine.executor.transfers_cancelled, 0); /* it is over */
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    assert_reply_refuses(&f->ann, 0, KILN_UNAVAILABLE, "kilnd is stopping");
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

#define IMPORT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IMPORT_TEST(what_a_user_imports_is_his_alone),
        IMPORT_TEST(another_user_does_not_get_it_by_its_key_hot_or_not),
        IMPORT_TEST(another_user_neither_lists_nor_shows_it_but_an_admin_does),
        IMPORT_TEST(a_page_of_what_others_may_not_see_still_leads_on),
        IMPORT_TEST(only_an_admin_imports_for_everyone),
        IMPORT_TEST(ones_own_goes_before_everyones_and_both_before_packages),
        IMPORT_TEST(the_same_name_imported_again_is_replaced),
        IMPORT_TEST(the_use_of_everyones_kernel_counts_also_when_it_is_hot),
        IMPORT_TEST(what_an_import_replaces_by_other_bytes_is_counted),
        IMPORT_TEST(versions_of_miopen_do_not_replace_each_other),
        IMPORT_TEST(what_is_no_version_is_refused_before_the_file_is_taken),
        IMPORT_TEST(what_others_have_hot_stays_hot),
        IMPORT_TEST(the_database_id_may_be_given_for_files_of_another_name),
        IMPORT_TEST(imports_salvage_and_need_no_signature),
        IMPORT_TEST(a_cache_comes_as_a_file_alone),
        IMPORT_TEST(damaged_rows_are_counted_and_the_rest_is_imported),
        IMPORT_TEST(what_is_damaged_in_the_store_later_is_a_miss_counted_once),
        IMPORT_TEST(a_cache_damaged_at_its_head_is_salvaged),
        IMPORT_TEST(lost_rows_are_counted_once_in_all_steps),
        IMPORT_TEST(a_cache_without_damage_is_not_called_damaged),
        IMPORT_TEST(a_cache_that_cannot_be_read_at_all_is_an_error),
        IMPORT_TEST(many_rows_are_imported_in_steps_and_others_get_their_turn),
        IMPORT_TEST(as_many_rows_as_a_step_takes_are_imported_once),
        IMPORT_TEST(beyond_the_quota_it_is_said_how_much_and_what_to_do),
        IMPORT_TEST(what_had_to_go_for_an_import_is_told_and_counted),
        IMPORT_TEST(a_cache_that_the_store_could_never_hold_is_not_copied),
        IMPORT_TEST(a_user_has_two_on_their_way_at_most),
        IMPORT_TEST(users_leave_room_for_administrators),
        IMPORT_TEST(who_leaves_during_the_transfer_has_it_cancelled),
        IMPORT_TEST(who_leaves_during_the_import_ends_it_after_the_step),
        IMPORT_TEST(a_cancelled_import_is_answered_once),
        IMPORT_TEST(a_daemon_that_stops_puts_the_rest_off),
    };
    return cmocka_run_group_tests_name("imports", tests, NULL, NULL);
}
