/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/users_fixture.h"

#include "common/base/fs.h"
#include "engine/service/internal.h"
#include "engine/service/kernels/file_object.h"
#include "engine/service/requests/cache_writer.h"
#include "engine/service/requests/exported_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ARGS "  -mcpu=gfx906"
#define MANY 600 /* number of kernels; an export needs more than two steps for them */

static void import_file(struct users *f, struct test_caller *c, const char *path, const char *name,
                        const char *question)
{
    const int file = open_copy(path);
    test_caller_forget_replies(c);
    test_caller_send_files(c, MESSAGE_kernel_import, question, &file, 1);
    fake_executor_transfer(&f->engine.executor, path, name, "");
    fake_executor_run_tasks(&f->engine.executor);
    json_destroy(reply_json(c, 0));
}

struct cache {
    const char *id;
    const struct kernel_row *rows;
    size_t count;
};

static void import_rows(struct users *f, struct test_caller *c, const struct cache *cache,
                        const char *question)
{
    char name[64];
    snprintf(name, sizeof(name), "%s.ukdb", cache->id);
    unlink(f->file);
    write_kernel_file(f->file, cache->rows, cache->count);
    import_file(f, c, f->file, name, question);
}

static void export_to(struct test_caller *c, const char *path)
{
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(c, MESSAGE_kernel_export, NULL);
    assert_int_equal(json_count(json_get(answer, "files")), 1);
    assert_int_equal(c->replies[0].object_count, 1);
    write_object(c, 0, 0, path);
}

static const struct kernel_row three[] = {
    TEXT_KERNEL("z.o", ARGS, "first in the file, last by name"),
    TEXT_KERNEL("a.o", ARGS, "second"),
    TEXT_KERNEL("a.o", " -mcpu=gfx906", "the same name, another blank"),
};

TEST_F(users, imported_kernels_are_exported_in_their_order)
{
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", three, 3 }, "{}");
    export_to(&f->ann, f->made);
    assert_kernel_file(f->made, three, 3);

    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    const struct json *file = json_first(json_get(answer, "files"));
    assert_string_equal(json_get_text(file, "name", ""), "gfx906_60.ukdb");
    assert_int_equal(json_get_u64(file, "kernels", 0), 3);
    assert_int_equal(json_get_u64(file, "damaged", 9), 0);
    assert_int_equal(json_get_u64(file, "descriptor", 9), 0);
}

static void expect_exported(struct users *f, const char *question, const char *name,
                            const struct kernel_row *row)
{
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->ann, MESSAGE_kernel_export, question);
    assert_int_equal(json_count(json_get(answer, "files")), 1);
    assert_string_equal(json_get_text(json_first(json_get(answer, "files")), "name", ""), name);
    write_object(&f->ann, 0, 0, f->made);
    assert_kernel_file(f->made, row, 1);
    unlink(f->made);
}

TEST_F(users, each_version_of_miopen_is_exported_separately)
{
    static const struct kernel_row old = TEXT_KERNEL("a.o", ARGS, "of an old MIOpen");
    static const struct kernel_row new = TEXT_KERNEL("a.o", ARGS, "of a new MIOpen");
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", &old, 1 }, "{\"version\":\"3.2\"}");
    expect_exported(f, "{}", "gfx906_60@3.2.ukdb", &old);
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", &new, 1 }, "{\"version\":\"3.3\"}");

    expect_exported(f, "{\"version\":\"3.2\"}", "gfx906_60.ukdb", &old);
    expect_exported(f, "{\"version\":\"3.3\",\"database_id\":\"gfx906_60\"}", "gfx906_60.ukdb",
                    &new);
    test_caller_refused(&f->ann, MESSAGE_kernel_export, "{\"database_id\":\"gfx906_60\"}",
                        KILN_INVALID, "'gfx906_60'");
    test_caller_refused(&f->ann, MESSAGE_kernel_export, "{}", KILN_INVALID, "3.");
    test_caller_refused(&f->ann, MESSAGE_kernel_export, "{\"version\":\"none\"}", KILN_NOT_FOUND,
                        "to export");
    test_caller_refused(&f->ann, MESSAGE_kernel_export, "{\"version\":\"3.4\"}", KILN_NOT_FOUND,
                        "to export");
    test_caller_refused(&f->ann, MESSAGE_kernel_export, "{\"version\":\"../x\"}", KILN_INVALID,
                        "version");
}

/* MIOpen's own arguments are much shorter: some 2 KiB (docs/formats/kdb.md). */
TEST_F(users, a_kernel_with_the_longest_arguments_is_imported_and_exported)
{
    static char longest[LIMIT_NAMED_TEXT + 1], name[LIMIT_NAMED_TEXT + 1];
    memset(longest, 'a', sizeof(longest) - 1);
    memset(name, 'n', sizeof(name) - 1);
    const struct kernel_row rows[] = { TEXT_KERNEL("a.o", longest, "long arguments"),
                                       TEXT_KERNEL(name, ARGS, "a long name") };
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", rows, 2 }, "{}");
    export_to(&f->ann, f->made);
    assert_kernel_file(f->made, rows, 2);
}

TEST_F(users, kernels_without_a_version_are_exported_on_request)
{
    static const struct kernel_row plain = TEXT_KERNEL("a.o", ARGS, "of no version");
    static const struct kernel_row new = TEXT_KERNEL("a.o", ARGS, "of a new MIOpen");
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", &plain, 1 }, "{}");
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", &new, 1 }, "{\"version\":\"3.3\"}");

    expect_exported(f, "{\"version\":\"none\"}", "gfx906_60.ukdb", &plain);
    expect_exported(f, "{\"version\":\"none\",\"database_id\":\"gfx906_60\"}", "gfx906_60.ukdb",
                    &plain);
    test_caller_refused(&f->ann, MESSAGE_kernel_export, "{}", KILN_INVALID, "none");
}

TEST_F(users, the_only_version_of_a_device_need_not_be_named)
{
    static const struct kernel_row row = TEXT_KERNEL("a.o", ARGS, "of a new MIOpen");
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", &row, 1 }, "{\"version\":\"3.3\"}");
    import_rows(f, &f->ann, &(struct cache){ "gfx908", &row, 1 }, "{\"version\":\"3.2\"}");

    expect_exported(f, "{\"database_id\":\"gfx906_60\"}", "gfx906_60@3.3.ukdb", &row);
}

TEST_F(users, importing_an_export_and_exporting_again_gives_the_same_file)
{
    static char names[MANY][16], contents[MANY][64];
    static struct kernel_row rows[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "k%u.o", i * 7919 % MANY);
        snprintf(contents[i], sizeof(contents[i]), "object %u %u %u", i, i * i, i * 31);
        rows[i] = (struct kernel_row)TEXT_KERNEL(names[i], ARGS, contents[i]);
    }
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", rows, MANY }, "{}");
    export_to(&f->ann, f->made);
    assert_kernel_file(f->made, rows, MANY);

    import_file(f, &f->bob, f->made, "gfx906_60.ukdb", "{}");
    export_to(&f->bob, f->again);
    assert_same_bytes(f->made, f->again);

    export_to(&f->ann, f->again);
    assert_same_bytes(f->made, f->again);
}

TEST_F(users, objects_of_every_size_come_back_byte_for_byte)
{
    static char large[200000], one[] = "x";
    for (size_t i = 0; i < sizeof(large); i++)
        large[i] = (char)(i % 251 ? i * i >> 7 : 0);
    static struct kernel_row rows[3];
    rows[0] = (struct kernel_row){ "large.o", "", large, sizeof(large) };
    rows[1] = (struct kernel_row){ "one.o", "", one, 1 };
    rows[2] = (struct kernel_row){ "nul.o", "", large, 1 };
    large[0] = '\0';
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", rows, 3 }, "{}");
    export_to(&f->ann, f->made);
    assert_kernel_file(f->made, rows, 3);
}

TEST_F(users, each_database_id_is_exported_to_its_own_file)
{
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", three, 3 }, "{}");
    import_rows(f, &f->ann, &(struct cache){ "gfx90a68", three, 1 }, "{}");
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->ann, MESSAGE_kernel_export, NULL);
    assert_int_equal(json_count(json_get(answer, "files")), 2);
    assert_int_equal(f->ann.replies[0].object_count, 2);
    for (const struct json *file = json_first(json_get(answer, "files")); file;
         file = json_next(file)) {
        bool mi210 = strcmp(json_get_text(file, "name", ""), "gfx90a68.ukdb") == 0;
        write_object(&f->ann, 0, json_get_u64(file, "descriptor", 9), f->made);
        assert_kernel_file(f->made, three, mi210 ? 1 : 3);
    }

    KILN_AUTO(json)
    struct json *one =
        test_caller_ask(&f->ann, MESSAGE_kernel_export, "{\"database_id\":\"gfx90a68\"}");
    assert_int_equal(json_count(json_get(one, "files")), 1);
}

TEST_F(users, shared_imports_are_exported_unless_private_ones_replace_them)
{
    const struct kernel_row shared[] = { TEXT_KERNEL("a.o", ARGS, "a of all"),
                                         TEXT_KERNEL("b.o", ARGS, "b of all") };
    const struct kernel_row own[] = { TEXT_KERNEL("b.o", ARGS, "b of ann") };
    const struct kernel_row both[] = { own[0], shared[0] };
    import_rows(f, &f->admin, &(struct cache){ "gfx906_60", shared, 2 }, "{\"for_all\":true}");
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", own, 1 }, "{}");

    export_to(&f->ann, f->made);
    assert_kernel_file(f->made, both, 2);
    export_to(&f->bob, f->again);
    assert_kernel_file(f->again, shared, 2);
}

TEST_F(users, private_imports_of_others_are_not_exported)
{
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", three, 3 }, "{}");
    test_caller_refused(&f->bob, MESSAGE_kernel_export, "{}", KILN_NOT_FOUND, "imported kernels");
    test_caller_refused(&f->bob, MESSAGE_kernel_export, "{\"database_id\":\"gfx906_60\"}",
                        KILN_NOT_FOUND, "of gfx906_60");
}

TEST_F(users, kernels_compiled_here_are_not_exported)
{
    fetch_program(&f->ann, 1, "k.cl");
    finish_compile(f, "object");
    test_caller_refused(&f->ann, MESSAGE_kernel_export, "", KILN_NOT_FOUND, "imported kernels");
}

TEST_F(users, another_format_is_refused)
{
    test_caller_refused(&f->ann, MESSAGE_kernel_export, "{\"format\":\"zip\"}", KILN_INVALID,
                        "'zip'");
}

TEST_F(users, a_damaged_kernel_is_left_out_and_counted)
{
    const struct kernel_row rows[] = { TEXT_KERNEL("a.o", ARGS, "this object will be damaged"),
                                       TEXT_KERNEL("b.o", ARGS, "this object stays well") };
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", rows, 2 }, "{}");
    users_stop(f);
    char path[100];
    snprintf(path, sizeof(path), "%s/kernels.db", f->engine.directory);
    flip_bit(path, bytes_of_text("this object will be damaged"));
    users_start(f);

    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->ann, MESSAGE_kernel_export, NULL);
    const struct json *file = json_first(json_get(answer, "files"));
    assert_int_equal(json_get_u64(file, "kernels", 0), 1);
    assert_int_equal(json_get_u64(file, "damaged", 0), 1);
    write_object(&f->ann, 0, 0, f->made);
    assert_kernel_file(f->made, &rows[1], 1);

    assert_int_equal(users_stat(f, "quarantined"), 1);
    json_destroy(answer);
    answer = test_caller_ask(&f->ann, MESSAGE_kernel_export, NULL);
    assert_int_equal(json_get_u64(json_first(json_get(answer, "files")), "damaged", 9), 0);
    assert_int_equal(users_stat(f, "quarantined"), 1);
}

/* An export is a file on disk, so limits of memory do not apply to it. */
TEST_F(users, an_export_may_be_larger_than_any_code_object)
{
    const off_t size = (off_t)LIMIT_CODE_OBJECT + 4097;
    int fd = open(f->file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    assert_int_equal(pwrite(fd, "end", 3, size - 3), 3);
    close(fd);
    struct object *object = NULL;

    must(object_of_file(f->file, &object, &f->engine.err), f->engine.err);
    unlink(f->file);

    char end[3];
    struct stat seen;
    assert_int_equal(object->size, size);
    assert_int_equal(fstat(object->fd, &seen), 0);
    assert_int_equal(seen.st_size, size);
    assert_int_equal(pread(object->fd, end, 3, size - 3), 3);
    assert_memory_equal(end, "end", 3);
    assert_int_equal(fcntl(object->fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_int_equal(lseek(object->fd, 0, SEEK_CUR), 0);
    object_unref(object);
}

TEST_F(users, an_export_counts_for_its_user_until_closed)
{
    struct exported_files *exported = f->engine.engine->exported;
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", three, 3 }, "{}");
    json_destroy(test_caller_ask(&f->ann, MESSAGE_kernel_export, NULL));
    engine_tick(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(exported_files_count(exported), 1);

    test_caller_forget_replies(&f->ann);
    engine_tick(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(exported_files_count(exported), 0);
}

TEST_F(users, a_user_with_too_many_exported_files_open_is_asked_to_close_them)
{
    struct exported_files *exported = f->engine.engine->exported;
    struct export_space space = { .to.uid = f->ann.base.uid };
    static struct object *kept[EXPORTED_FILES_MAX_UID];
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", three, 3 }, "{}");
    for (unsigned i = 0; i < EXPORTED_FILES_MAX_UID; i++) {
        close(open(f->again, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        assert_int_equal(truncate(f->again, LIMIT_INLINE_OBJECT + 1), 0);
        must(exported_files_open(exported, f->again, &space, &kept[i], &f->engine.err),
             f->engine.err);
        unlink(f->again);
    }

    test_caller_refused(&f->ann, MESSAGE_kernel_export, "{}", KILN_BUSY, "exported files");

    for (unsigned i = 0; i < EXPORTED_FILES_MAX_UID; i++)
        object_unref(kept[i]);
    export_to(&f->ann, f->made);
}

TEST_F(users, an_invalid_database_id_is_refused_by_export)
{
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", three, 3 }, "{}");
    test_caller_refused(&f->ann, MESSAGE_kernel_export, "{\"database_id\":\"no such id\"}",
                        KILN_INVALID, "id");
    test_caller_refused(&f->ann, MESSAGE_kernel_export,
                        "{\"database_id\":\"gfx906_60000000000000000000000000000\"}", KILN_INVALID,
                        "gfx906_6000");
    test_caller_refused(&f->ann, MESSAGE_kernel_export,
                        "{\"database_id\":\"gfx906_60@1\",\"version\":\"2\"}", KILN_INVALID,
                        "version already");
}

TEST_F(users, a_missing_exported_file_fails_the_request)
{
    struct object *object = NULL;
    assert_int_equal(object_of_file(f->file, &object, &f->engine.err), KILN_NOT_FOUND);
    assert_non_null(strstr(f->engine.err.text, f->file));
}

TEST_F(users, an_export_of_more_files_than_a_frame_carries_is_refused)
{
    for (unsigned i = 0; i < 65; i++) {
        char id[32];
        snprintf(id, sizeof(id), "gfx90a%x", 70 + i);
        import_rows(f, &f->ann, &(struct cache){ id, three, 1 }, "{}");
    }
    test_caller_refused(&f->ann, MESSAGE_kernel_export, "{}", KILN_FULL, "than 64");
    KILN_AUTO(json)
    struct json *one =
        test_caller_ask(&f->ann, MESSAGE_kernel_export, "{\"database_id\":\"gfx90a46\"}");
    assert_int_equal(json_count(json_get(one, "files")), 1);
}

#define HUGE (12u << 20)
#define STEP (4u << 20)

static void import_huge(struct users *f)
{
    static char content[HUGE];
    memset(content, 'h', sizeof(content));
    f->engine.options.queue_bytes_uid = 4 * HUGE;
    users_reopen(f);
    const struct kernel_row row = { "huge.o", ARGS, content, sizeof(content) };
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", &row, 1 }, "{}");
}

static void begin_export(struct users *f)
{
    import_huge(f);
    test_caller_forget_replies(&f->ann);
    test_caller_send(&f->ann, MESSAGE_kernel_export, 9, (struct bytes){ 0 });
    assert_true(fake_executor_run_task(&f->engine.executor));
    assert_int_equal(f->ann.reply_count, 0);
    assert_int_equal(engine_fixture_staged(&f->engine), 1);
}

TEST_F(users, a_large_object_is_exported_in_steps_of_four_mebibytes)
{
    import_huge(f);
    const unsigned *tasks = f->engine.executor.tasks_of;
    unsigned reads = tasks[WORK_QUEUE_READ];

    export_to(&f->ann, f->made);

    assert_true(tasks[WORK_QUEUE_READ] - reads >= HUGE / STEP);
    import_file(f, &f->bob, f->made, "gfx906_60.ukdb", "{}");
    export_to(&f->bob, f->again);
    assert_same_bytes(f->made, f->again);
}

TEST_F(users, small_objects_are_exported_in_steps_of_four_mebibytes)
{
    static char content[200000];
    static struct kernel_row rows[STEP / sizeof(content) * 2 + 2];
    static char names[sizeof(rows) / sizeof(rows[0])][16];
    const size_t count = sizeof(rows) / sizeof(rows[0]);
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), "k%zu.o", i);
        rows[i] = (struct kernel_row){ names[i], ARGS, content, sizeof(content) };
    }
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", rows, count }, "{}");
    const unsigned *tasks = f->engine.executor.tasks_of;
    unsigned reads = tasks[WORK_QUEUE_READ];

    export_to(&f->ann, f->made);

    assert_true(tasks[WORK_QUEUE_READ] - reads >= 2);
    assert_kernel_file(f->made, rows, count);
}

TEST_F(users, another_users_list_is_answered_between_the_steps_of_an_export)
{
    begin_export(f);
    test_caller_send(&f->bob, MESSAGE_kernel_list, 3, (struct bytes){ 0 });
    while (f->bob.reply_count == 0)
        assert_true(fake_executor_run_task(&f->engine.executor));

    assert_int_equal(f->ann.reply_count, 0);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->ann.replies[0].object_count, 1);
}

TEST_F(users, a_client_that_leaves_ends_its_export_after_the_step)
{
    begin_export(f);

    test_caller_leave(&f->ann);
    assert_true(fake_executor_run_tasks(&f->engine.executor) <= 2);

    assert_int_equal(engine_fixture_staged(&f->engine), 0);
    assert_int_equal(exported_files_count(f->engine.engine->exported), 0);
}

TEST_F(users, a_stopping_daemon_ends_an_export_after_the_step)
{
    begin_export(f);

    engine_drain(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);

    assert_reply_refuses(&f->ann, 0, KILN_UNAVAILABLE, "stopping");
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

TEST_F(users, the_memory_of_a_large_exported_object_is_charged_to_its_user)
{
    import_huge(f);
    f->engine.options.queue_bytes_uid = HUGE / 2;
    users_reopen(f);
    test_caller_refused(&f->ann, MESSAGE_kernel_export, "{}", KILN_BUSY, "queue_bytes_per_uid");
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

static void ignore_damage(void *context, const struct digest *key)
{
    (void)context;
    (void)key;
}

TEST_F(users, a_large_object_is_copied_only_after_its_memory_is_granted)
{
    KILN_AUTO(cache_writer) struct cache_writer *writer = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    import_huge(f);
    const struct cache_writer_options options = { .store = f->engine.engine->store,
                                                  .path = f->again,
                                                  .uid = (uint32_t)f->ann.base.uid,
                                                  .database_id = "gfx906_60",
                                                  .damaged = ignore_damage };
    must(cache_writer_open(&options, &writer, &err), err);
    for (unsigned i = 0; i < 2; i++) {
        must(cache_writer_write(writer, &err), err);
        assert_int_equal(cache_writer_kernels(writer), 0);
        assert_in_range(cache_writer_bytes(writer), 2 * HUGE, 2 * HUGE + 1000);
        assert_false(cache_writer_is_over(writer));
    }
    cache_writer_grant(writer, cache_writer_bytes(writer));
    while (!cache_writer_is_over(writer))
        must(cache_writer_write(writer, &err), err);
    assert_int_equal(cache_writer_kernels(writer), 1);
}

TEST_F(users, a_client_that_leaves_during_an_export_leaves_nothing)
{
    import_rows(f, &f->ann, &(struct cache){ "gfx906_60", three, 3 }, "{}");
    test_caller_send(&f->ann, MESSAGE_kernel_export, 9, (struct bytes){ 0 });
    test_caller_leave(&f->ann);
    fake_executor_run_tasks(&f->engine.executor);
}
