/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/tuning_fixture.h"

#include "common/base/fs.h"
#include "engine/service/internal.h"
#include "tests/support/entries.h"
#include "tests/support/stepped_clock.h"

#include <stdio.h>
#include <string.h>

#define QUESTION "{\"target\":\"" FIXTURE_TARGET "\"}"

static void reopen(struct users *f, uint64_t bytes, unsigned compiles)
{
    f->engine.options.queue_bytes_uid = bytes;
    f->engine.options.queue_bytes = 4 * bytes;
    f->engine.options.queue_limit_uid = compiles;
    users_reopen(f);
}

SET_UP_OF(setup, struct users)
{
    users_open(f, /* describe= */ true);
    /* The limit must be as large as 1 MiB, because each queued compile also counts the bytes of its
     * prelude. */
    reopen(f, 1u << 20, 100);
}

TEAR_DOWN_OF(teardown, struct users)
{
    test_caller_leave(&f->ann);
    fake_executor_run_tasks(&f->engine.executor);
    while (fake_executor_next_compile(&f->engine.executor))
        fake_executor_fail(&f->engine.executor, COMPILE_UNAVAILABLE, "the test is over", NULL);
    assert_int_equal(users_stat(f, "queued_bytes"), 0);
}

FIXTURE_OF(build, struct users, setup, teardown);

static int problems_file(const struct problem *problems, size_t count)
{
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 1u << 20);
    for (size_t i = 0; i < count; i++)
        problem_write(&b, &problems[i]);
    return sealed_file(buffer_view(&b));
}

static void begin_with(struct users *f, const char *question, int file)
{
    test_caller_forget_replies(&f->ann);
    test_caller_send_files(&f->ann, MESSAGE_package_build, question, &file, 1);
    fake_executor_run_tasks(&f->engine.executor);
}

static void begin_build(struct users *f, const char *question, const uint32_t *channels)
{
    struct problem problems[16];
    size_t count = 0;
    for (; channels[count]; count++)
        problems[count] = small_problem(channels[count]);
    begin_with(f, question, problems_file(problems, count));
}

/* Ends all compiles. Each object is "for " and the compile's options, so that no two are equal. */
static unsigned compile_all(struct users *f)
{
    unsigned count = 0;
    for (; fake_executor_next_compile(&f->engine.executor); count++) {
        const struct compile_job *job = &fake_executor_next_compile(&f->engine.executor)->job;
        assert_int_equal(job->origin, COMPILE_OF_KILN);
        BUFFER_AUTO struct buffer content;
        buffer_init(&content, 1u << 16);
        buffer_put(&content, "for ", 4);
        buffer_put(&content, job->options.data, job->options.size);
        fake_executor_compile(&f->engine.executor, buffer_view(&content));
        fake_executor_run_tasks(&f->engine.executor);
    }
    return count;
}

static struct json *answer_of(struct users *f)
{
    assert_true(f->ann.reply_count > 0);
    return reply_json(&f->ann, f->ann.reply_count - 1);
}

static void keep_package(struct users *f, const char *path)
{
    assert_int_equal(f->ann.replies[f->ann.reply_count - 1].object_count, 1);
    write_object(&f->ann, f->ann.reply_count - 1, 0, path);
}

struct listing {
    size_t rows;
    char last_name[256], last_args[2048];
};

static bool check_row(void *context, const struct kern_row *row)
{
    struct listing *l = context;
    struct kiln_err err = KILN_ERR_INIT;
    char name[256], args[2048];
    snprintf(name, sizeof(name), "%.*s", (int)row->name.size, (const char *)row->name.data);
    snprintf(args, sizeof(args), "%.*s", (int)row->args.size, (const char *)row->args.data);
    int order = strcmp(l->last_name, name);
    assert_true(order < 0 || (order == 0 && strcmp(l->last_args, args) < 0));
    memcpy(l->last_name, name, sizeof(name));
    memcpy(l->last_args, args, sizeof(args));
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, 1u << 20);
    must(kern_row_unpack(row, &raw, &err), err);
    assert_int_equal(memcmp(raw.data, "for ", 4), 0);
    assert_true(bytes_equal(bytes_of(raw.data + 4, raw.size - 4), row->args));
    l->rows++;
    return true;
}

static size_t check_package(const char *path)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(kern_db) struct kern_db *db = NULL;
    struct listing listing = { 0 };
    must(kern_db_open(path, &db, &err), err);
    const struct kern_listing all = { .count = 1000, .each = check_row, .context = &listing };
    must(kern_db_each(db, &all, &err), err);
    return listing.rows;
}

/* ---- content ---- */

TEST_F(build, a_package_of_several_problems_has_each_kernel_once_sorted)
{
    begin_build(f, QUESTION, (const uint32_t[]){ 32, 8, 16, 8, 32, 0 });
    assert_int_equal(compile_all(f), 3);

    KILN_AUTO(json) struct json *answer = answer_of(f);
    assert_int_equal(json_get_u64(answer, "kernels", 0), 3);
    assert_int_equal(json_get_u64(answer, "failures", 9), 0);
    assert_int_equal(json_count(json_get(answer, "failed")), 0);
    keep_package(f, f->made);
    assert_int_equal(json_get_u64(answer, "size", 0),
                     f->ann.replies[f->ann.reply_count - 1].first_object_size);
    assert_int_equal(check_package(f->made), 3);
}

TEST_F(build, the_order_of_problems_does_not_change_the_package)
{
    static const char *const formats[] = { "kdb", "kiln" };
    for (size_t i = 0; i < 2; i++) {
        char question[100];
        snprintf(question, sizeof(question),
                 "{\"target\":\"" FIXTURE_TARGET "\",\"format\":\"%s\"}", formats[i]);
        begin_build(f, question, (const uint32_t[]){ 8, 16, 32, 0 });
        compile_all(f);
        keep_package(f, f->made);
        begin_build(f, question, (const uint32_t[]){ 32, 8, 32, 16, 0 });
        assert_int_equal(compile_all(f), 0);
        keep_package(f, f->again);
        assert_same_bytes(f->made, f->again);
    }
}

TEST_F(build, a_built_package_answers_the_plans_it_was_built_for)
{
    struct problem problem = small_problem(8);
    struct program_names names;
    program_names_find(&problem, FIXTURE_TARGET, NULL, &names);
    begin_build(f, QUESTION, (const uint32_t[]){ 8, 0 });
    compile_all(f);
    keep_package(f, f->made);

    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(kern_db) struct kern_db *db = NULL;
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, 1u << 20);
    bool damaged = false;
    must(kern_db_open(f->made, &db, &err), err);
    must(kern_db_find(db,
                      &(struct kern_name){ bytes_of_text((const char *)names.name.data),
                                           bytes_of_text((const char *)names.args.data) },
                      &raw, &damaged, &err),
         err);
    program_names_done(&names);
}

static bool check_kiln_row(void *context, const struct package_row *row)
{
    size_t *rows = context;
    static const struct digest none;
    assert_false(digest_equal(&row->key, &none));
    assert_false(digest_equal(&row->toolchain_id, &none));
    assert_string_equal(row->target, FIXTURE_TARGET);
    assert_string_equal(row->toolchain, "opencl");
    (*rows)++;
    return true;
}

TEST_F(build, a_kpkg_has_key_and_toolchain_of_each_kernel)
{
    begin_build(
        f, "{\"target\":\"" FIXTURE_TARGET "\",\"format\":\"kiln\",\"database_id\":\"gfx90a68\"}",
        (const uint32_t[]){ 8, 16, 0 });
    compile_all(f);
    char path[200];
    snprintf(path, sizeof(path), "%s/gfx90a68.kpkg", f->engine.directory);
    keep_package(f, path);

    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(package) struct package *package = NULL;
    const struct package_options options = { .path = path, .readers = 1 };
    size_t rows = 0;
    must(package_open(&options, &package, &err), err);
    must(package_each(package, &(struct package_listing){ 0, 100, check_kiln_row, &rows }, &err),
         err);
    assert_int_equal(rows, 2);
}

static void expect_records(const char *path, const char *name, const char *text)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(package) struct package *package = NULL;
    const struct package_options options = { .path = path, .readers = 1 };
    const struct kern_name row = { .name = bytes_of_text(name) };
    bool is_damaged = false;
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, 1u << 20);
    must(package_open(&options, &package, &err), err);
    must(package_find_named(package, &row, &raw, &is_damaged, &err), err);
    buffer_put_u8(&raw, '\0');
    assert_string_equal((const char *)raw.data, text);
}

/* For the host, records a time of a solver of kiln. For ann, records a time of a solver of MIOpen,
 * and a perf config. */
static void record_times(struct users *f)
{
    struct put host = find_put("ConvDirectNaive", 2);
    host.m.tier = 2;
    tuning_put(f, &f->publisher, &host);
    const struct put anns = find_put("OfMIOpen", 1), perf = perf_put("ConvDirectNaive", "7", 3);
    tuning_put(f, &f->ann, &anns);
    tuning_put(f, &f->ann, &perf);
}

TEST_F(build, a_kpkg_with_records_has_those_that_decide_its_plans)
{
    const struct problem problems[] = { problem_of_batch(1), problem_of_batch(2) };
    char path[200];
    reopen(f, 64u << 20, 100);
    record_times(f);
    begin_with(f,
               "{\"target\":\"" FIXTURE_TARGET "\",\"format\":\"kiln\",\"records\":true,"
               "\"database_id\":\"" ID "\"}",
               problems_file(problems, 2));
    compile_all(f);
    KILN_AUTO(json) struct json *answer = answer_of(f);
    assert_int_equal(json_get_u64(answer, "records", 0), 2);
    snprintf(path, sizeof(path), "%s/gfx90a68.kpkg", f->engine.directory);
    keep_package(f, path);
    expect_records(path, "!records/" FIND_FILE,
                   KEY "=ConvDirectNaive:2,128,miopenConvolutionFwdAlgoDirect\n");
    expect_records(path, "!records/gfx90a68.db.txt",
                   "2x64x56x56x1x1x1x1x64x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=ConvDirectNaive:7\n");
}

TEST_F(build, records_need_kilns_format_and_a_device)
{
    const uint32_t channels[] = { 8, 0 };
    begin_build(f, "{\"target\":\"" FIXTURE_TARGET "\",\"format\":\"kiln\",\"records\":true}",
                channels);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "database id");
    begin_build(f,
                "{\"target\":\"" FIXTURE_TARGET "\",\"records\":true,\"database_id\":\"" ID "\"}",
                channels);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "format");
}

#define GENERIC_QUESTION "{\"target\":\"" FIXTURE_TARGET "\",\"generic\":true}"

TEST_F(build, a_generic_package_needs_no_problems)
{
    reopen(f, 64u << 20, 1000);
    test_caller_send_files(&f->ann, MESSAGE_package_build, GENERIC_QUESTION, NULL, 0);
    fake_executor_run_tasks(&f->engine.executor);
    unsigned compiled = compile_all(f);
    KILN_AUTO(json) struct json *answer = answer_of(f);
    assert_int_equal(compiled, 162 + 21); /* as docs/decisions/0025-generic-kernels.md says */
    assert_int_equal(json_get_u64(answer, "kernels", 0), compiled);
    assert_int_equal(json_get_u64(answer, "failures", 9), 0);
    keep_package(f, f->made);
    assert_int_equal(check_package(f->made), compiled);
}

TEST_F(build, a_generic_package_takes_no_problems_and_no_records)
{
    const uint32_t channels[] = { 8, 0 };
    begin_build(f, GENERIC_QUESTION, channels);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "neither");
    test_caller_forget_replies(&f->ann);
    test_caller_send_files(&f->ann, MESSAGE_package_build,
                           "{\"target\":\"" FIXTURE_TARGET "\",\"generic\":true,\"records\":true}",
                           NULL, 0);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "neither");
}

static void begin_many(struct users *f, uint32_t count)
{
    static struct problem problems[300];
    for (uint32_t i = 0; i < count; i++)
        problems[i] = small_problem(8 + i);
    begin_with(f, QUESTION, problems_file(problems, count));
}

TEST_F(build, a_build_of_many_problems_compiles_all_of_them)
{
    reopen(f, 64u << 20, 1000);
    begin_many(f, 300);
    assert_int_equal(users_stat(f, "queued"), 255);
    assert_int_equal(compile_all(f), 300);
    KILN_AUTO(json) struct json *answer = answer_of(f);
    assert_int_equal(json_get_u64(answer, "kernels", 0), 300);
    assert_int_equal(json_get_u64(answer, "failures", 9), 0);
}

TEST_F(build, a_full_compile_queue_delays_a_build_without_failures)
{
    reopen(f, 64u << 20, /* compiles= */ 10);
    begin_many(f, 60);
    assert_int_equal(users_stat(f, "queued"), 10);
    assert_int_equal(compile_all(f), 60);
    KILN_AUTO(json) struct json *answer = answer_of(f);
    assert_int_equal(json_get_u64(answer, "kernels", 0), 60);
    assert_int_equal(json_get_u64(answer, "failures", 9), 0);
}

TEST_F(build, a_compile_queue_filled_by_others_fails_kernels_of_a_build)
{
    reopen(f, 64u << 20, 1);
    fetch_program(&f->ann, 1, "running.cl");
    fetch_program(&f->ann, 2, "waiting.cl");
    begin_build(f, QUESTION, (const uint32_t[]){ 8, 16, 0 });
    size_t last = f->ann.reply_count - 1;
    assert_int_equal(f->ann.replies[last].flags, 0);
    assert_reply_refuses(&f->ann, last, KILN_UNSUPPORTED, "problems");
}

TEST_F(build, the_problems_of_a_build_are_bounded_in_bytes)
{
    reopen(f, 100u << 10, 100);
    begin_many(f, 100);
    assert_int_equal(f->ann.reply_count, 1);
    assert_reply_refuses(&f->ann, 0, KILN_BUSY, "100 problems");
}

TEST_F(build, a_build_reports_progress_before_the_package)
{
    begin_build(f, QUESTION, (const uint32_t[]){ 8, 16, 0 });
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->ann.replies[0].flags, FRAME_MORE);
    KILN_AUTO(json) struct json *first = reply_json(&f->ann, 0);
    assert_string_equal(json_get_text(json_get(first, "progress"), "stage", ""), "compiling");
    assert_int_equal(json_get_u64(json_get(first, "progress"), "total", 0), 2);
    compile_all(f);
    assert_int_equal(f->ann.replies[f->ann.reply_count - 1].flags, 0);
}

/* ---- failures ---- */

TEST_F(build, a_build_lists_failures_and_builds_the_rest)
{
    struct problem problems[] = { small_problem(8), small_problem(16), small_problem(32) };
    problems[1].n = 0;
    begin_with(f, QUESTION, problems_file(problems, 3));
    fake_executor_fail(&f->engine.executor, COMPILE_CRASHED, "the worker died of SIGABRT", "log");
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(compile_all(f), 1);

    KILN_AUTO(json) struct json *answer = answer_of(f);
    assert_int_equal(json_get_u64(answer, "kernels", 0), 1);
    assert_int_equal(json_get_u64(answer, "failures", 0), 2);
    const struct json *first = json_first(json_get(answer, "failed"));
    assert_string_equal(json_get_text(first, "code", ""), "INVALID");
    const struct json *second = json_next(first);
    assert_string_equal(json_get_text(second, "code", ""), "COMPILE_FAILED");
    assert_says(json_get_text(second, "text", ""), "SIGABRT");
    assert_says(json_get_text(second, "problem", ""), "-c 32");
}

TEST_F(build, a_build_without_any_kernel_fails_with_the_reason)
{
    begin_build(f, QUESTION, (const uint32_t[]){ 8, 0 });
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "it does not compile", NULL);
    fake_executor_run_tasks(&f->engine.executor);
    size_t last = f->ann.reply_count - 1;
    assert_reply_refuses(&f->ann, last, KILN_UNSUPPORTED, "not compile");

    struct problem senseless = small_problem(8);
    senseless.n = 0;
    begin_with(f, QUESTION, problems_file(&senseless, 1));
    last = f->ann.reply_count - 1;
    assert_reply_refuses(&f->ann, last, KILN_UNSUPPORTED, "problems");
}

TEST_F(build, a_build_counts_failures_beyond_those_it_shows)
{
    reopen(f, 64u << 20, 100);
    static struct problem problems[151];
    for (size_t i = 0; i < 151; i++)
        problems[i] = small_problem(i < 150 ? 0 : 8);
    begin_with(f, QUESTION, problems_file(problems, 151));
    compile_all(f);
    KILN_AUTO(json) struct json *answer = answer_of(f);
    assert_int_equal(json_get_u64(answer, "failures", 0), 150);
    assert_int_equal(json_count(json_get(answer, "failed")), 100);
}

TEST_F(build, a_build_for_a_target_without_a_compiler_is_refused)
{
    begin_build(f, "{\"target\":\"gfx90a\"}", (const uint32_t[]){ 8, 0 });
    assert_int_equal(f->ann.reply_count, 1);
    assert_reply_refuses(&f->ann, 0, KILN_UNSUPPORTED, "gfx90a");
}

TEST_F(build, invalid_build_questions_are_refused)
{
    static const struct {
        const char *question, *says;
    } bad[] = {
        { "{\"target\":\"" FIXTURE_TARGET "\",\"format\":\"zip\"}", "'zip'" },
        { "{\"target\":\"" FIXTURE_TARGET "\",\"database_id\":\"mi210\"}", "mi210" },
        { "{\"target\":\"toaster\"}", "toaster" },
        { "{}", "target" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        begin_build(f, bad[i].question, (const uint32_t[]){ 8, 0 });
        assert_reply_refuses(&f->ann, 0, KILN_INVALID, bad[i].says);
    }
}

/* ---- the file of problems ---- */

TEST_F(build, an_unsealed_file_of_problems_is_refused)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer b;
    struct problem problem = small_problem(8);
    buffer_init(&b, 1000);
    problem_write(&b, &problem);
    int memfd = -1;
    must(fs_memfd("open", &memfd, &err), err);
    must(fs_write_all(memfd, buffer_view(&b), &err), err);
    begin_with(f, QUESTION, memfd);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "sealed");

    FILE *file = tmpfile();
    assert_int_equal(fwrite(b.data, 1, b.size, file), b.size);
    assert_int_equal(fflush(file), 0);
    begin_with(f, QUESTION, dup(fileno(file)));
    fclose(file);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "sealed");

    int ends[2];
    assert_int_equal(pipe(ends), 0);
    begin_with(f, QUESTION, ends[0]);
    close(ends[1]);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_INVALID);
}

TEST_F(build, a_file_without_problems_is_refused)
{
    begin_with(f, QUESTION, sealed_file(bytes_of_text("")));
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "list of");
    begin_with(f, QUESTION, sealed_file(bytes_of_text("a hundred bytes are one, this is less")));
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "list of");
}

TEST_F(build, a_build_needs_exactly_one_file)
{
    test_caller_refused(&f->ann, MESSAGE_package_build, QUESTION, KILN_INVALID, "one file");
    struct problem problem = small_problem(8);
    const int files[] = { problems_file(&problem, 1), problems_file(&problem, 1) };
    test_caller_forget_replies(&f->ann);
    test_caller_send_files(&f->ann, MESSAGE_package_build, QUESTION, files, 2);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "one file");
}

TEST_F(build, too_many_problems_for_one_build_are_refused)
{
    enum { MANY = 20001 };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, MANY * PROBLEM_WIRE_SIZE);
    struct problem problem = small_problem(8);
    for (unsigned i = 0; i < MANY; i++)
        problem_write(&b, &problem);
    begin_with(f, QUESTION, sealed_file(buffer_view(&b)));
    assert_int_equal(f->ann.reply_count, 1);
    KILN_AUTO(mem) char *text = bytes_to_text(reply_error(&f->ann, 0).text);
    assert_says(text, "20000");
}

/* ---- loop iterations and queues ---- */

static void begin_quietly(struct test_caller *c, const struct problem *problems, size_t count)
{
    const int file = problems_file(problems, count);
    test_caller_send_files(c, MESSAGE_package_build, QUESTION, &file, 1);
}

TEST_F(build, equal_problems_are_fetched_once)
{
    static struct problem problems[300];
    reopen(f, 64u << 20, 1000);
    for (size_t i = 0; i < 300; i++)
        problems[i] = small_problem(8);
    begin_with(f, QUESTION, problems_file(problems, 300));
    assert_int_equal(compile_all(f), 1);
    KILN_AUTO(json) struct json *answer = answer_of(f);
    assert_int_equal(json_get_u64(answer, "kernels", 0), 1);
    assert_int_equal(users_stat(f, "fetches"), 1);
}

TEST_F(build, a_build_holds_few_kernels_in_memory_at_a_time)
{
    static struct problem problems[600];
    reopen(f, 64u << 20, 1000);
    for (uint32_t i = 0; i < 600; i++)
        problems[i] = small_problem(8 + i);
    begin_with(f, QUESTION, problems_file(problems, 600));
    assert_int_equal(compile_all(f), 600);
    uint64_t fetches = users_stat(f, "fetches");
    test_caller_forget_replies(&f->ann);
    unsigned before = descriptor_count(getpid());

    begin_quietly(&f->ann, problems, 600);

    while (fake_executor_run_task(&f->engine.executor))
        assert_in_range(descriptor_count(getpid()), 0, before + 256 + 20);
    KILN_AUTO(json) struct json *answer = answer_of(f);
    assert_int_equal(json_get_u64(answer, "kernels", 0), 600);
    assert_int_equal(users_stat(f, "fetches"), fetches + 600);
}

/* A build need not wait for hot kernels. It returns to the loop only when a step reaches its time
 * limit. */
TEST_F(build, a_build_takes_hot_kernels_over_several_loop_iterations)
{
    static struct problem problems[200];
    f->engine.options.hot_limit_count = 1000;
    f->engine.options.hot_limit_bytes = 64u << 20;
    reopen(f, 64u << 20, 1000);
    for (uint32_t i = 0; i < 200; i++)
        problems[i] = small_problem(8 + i);
    begin_with(f, QUESTION, problems_file(problems, 200));
    assert_int_equal(compile_all(f), 200);
    test_caller_forget_replies(&f->ann);

    step_clock(TASK_SLICE_NS);
    begin_quietly(&f->ann, problems, 200);
    unsigned tasks = fake_executor_run_tasks(&f->engine.executor);
    step_clock(1);

    assert_true(tasks >= 200); /* each loop iteration ran a task and took one kernel */
    KILN_AUTO(json) struct json *answer = answer_of(f);
    assert_int_equal(json_get_u64(answer, "kernels", 0), 200);
    assert_int_equal(users_stat(f, "hits.hot"), 200);
}

TEST_F(build, builds_use_one_work_queue_task_at_a_time)
{
    struct problem problem = small_problem(8);
    begin_build(f, QUESTION, (const uint32_t[]){ 8, 0 });
    compile_all(f);
    test_caller_forget_replies(&f->ann);

    begin_quietly(&f->ann, &problem, 1);
    begin_quietly(&f->bob, &problem, 1);

    assert_int_equal(count_tasks(f), 1);
    while (fake_executor_run_task(&f->engine.executor))
        assert_in_range(count_tasks(f), 0, 1);
    assert_int_equal(f->ann.replies[f->ann.reply_count - 1].object_count, 1);
    assert_int_equal(f->bob.replies[f->bob.reply_count - 1].object_count, 1);
}

TEST_F(build, a_client_that_leaves_while_its_build_is_queued_leaves_nothing)
{
    struct problem problem = small_problem(8);
    begin_quietly(&f->ann, &problem, 1);
    begin_quietly(&f->bob, &problem, 1);
    test_caller_leave(&f->bob);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(compile_all(f), 1);
    KILN_AUTO(json) struct json *answer = answer_of(f);
    assert_int_equal(json_get_u64(answer, "kernels", 0), 1);
}

TEST_F(build, each_user_has_one_build_at_a_time)
{
    struct test_caller again;
    const struct problem problem = small_problem(8);
    test_caller_connect(&again, &f->engine, 1000, ROLE_USE);
    test_caller_forget_replies(&again);
    test_caller_forget_replies(&f->bob);
    begin_quietly(&f->ann, &problem, 1);

    begin_quietly(&again, &problem, 1);
    begin_quietly(&f->bob, &problem, 1);

    assert_reply_refuses(&again, 0, KILN_BUSY, "user 1000");
    assert_int_equal(f->bob.reply_count, 0);
    fake_executor_run_tasks(&f->engine.executor);
    compile_all(f);
    json_destroy(answer_of(f));
    test_caller_forget_replies(&again);
    begin_quietly(&again, &problem, 1);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(again.replies[again.reply_count - 1].object_count, 1);
    test_caller_leave(&again);
}

/* A running step of a build cannot be stopped. A user who reconnects meanwhile must not start a
 * second build. */
TEST_F(build, a_user_who_leaves_a_running_build_waits_for_its_end)
{
    const struct problem problem = small_problem(8);
    begin_quietly(&f->ann, &problem, 1);
    fake_executor_begin_task(&f->engine.executor);
    test_caller_leave(&f->ann);
    test_caller_connect(&f->ann, &f->engine, 1000, ROLE_USE);
    test_caller_forget_replies(&f->ann);

    begin_quietly(&f->ann, &problem, 1);

    assert_reply_refuses(&f->ann, 0, KILN_BUSY, "user 1000");
    fake_executor_run_tasks(&f->engine.executor);
    test_caller_forget_replies(&f->ann);
    begin_quietly(&f->ann, &problem, 1);
    assert_int_equal(f->ann.reply_count, 0);
}

/* ---- ended early ---- */

TEST_F(build, a_client_that_leaves_while_its_build_compiles_leaves_nothing)
{
    begin_build(f, QUESTION, (const uint32_t[]){ 8, 16, 32, 0 });
    finish_compile(f, "object");
    assert_int_equal(users_stat(f, "queued"), 1);

    test_caller_leave(&f->ann);

    assert_int_equal(users_stat(f, "queued"), 0);
    fake_executor_compile(&f->engine.executor, bytes_of_text("object"));
    fake_executor_run_tasks(&f->engine.executor);
    assert_null(fake_executor_next_compile(&f->engine.executor));
}

TEST_F(build, a_client_that_leaves_while_its_package_is_written_leaves_nothing)
{
    begin_build(f, QUESTION, (const uint32_t[]){ 8, 0 });
    compile_all(f);
    test_caller_forget_replies(&f->ann);
    struct problem problem = small_problem(8);
    const int file = problems_file(&problem, 1);
    test_caller_send_files(&f->ann, MESSAGE_package_build, QUESTION, &file, 1);

    test_caller_leave(&f->ann);
    fake_executor_run_tasks(&f->engine.executor);
}

TEST_F(build, a_cancelled_build_is_answered_once)
{
    begin_build(f, QUESTION, (const uint32_t[]){ 8, 16, 0 });
    size_t reported = f->ann.reply_count;
    test_caller_cancel(&f->ann, 3);
    finish_compile(f, "object");
    assert_int_equal(f->ann.reply_count, reported + 1);
    assert_int_equal(reply_error(&f->ann, reported).code, KILN_CANCELLED);
}

TEST_F(build, a_stopping_daemon_ends_a_build_that_has_some_kernels)
{
    begin_build(f, QUESTION, (const uint32_t[]){ 8, 16, 32, 0 });
    finish_compile(f, "object");
    engine_drain(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);
    size_t last = f->ann.reply_count - 1;
    assert_int_equal(f->ann.replies[last].flags, 0);
    assert_reply_refuses(&f->ann, last, KILN_UNAVAILABLE, "stopping");

    begin_build(f, QUESTION, (const uint32_t[]){ 8, 0 });
    assert_reply_refuses(&f->ann, 0, KILN_UNAVAILABLE, "stopping");
}

TEST_F(build, a_stopping_daemon_sends_no_half_written_package)
{
    static struct problem problems[200];
    reopen(f, 64u << 20, 1000);
    for (uint32_t i = 0; i < 200; i++)
        problems[i] = small_problem(8 + i);
    begin_with(f, QUESTION, problems_file(problems, 200));
    compile_all(f);
    test_caller_forget_replies(&f->ann);
    begin_quietly(&f->ann, problems, 200);
    assert_true(fake_executor_run_task(&f->engine.executor));
    assert_true(fake_executor_run_task(&f->engine.executor));
    engine_drain(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);
    assert_reply_refuses(&f->ann, f->ann.reply_count - 1, KILN_UNAVAILABLE, "stopping");
}
