/* SPDX-License-Identifier: MIT */
#include "tests/support/random_bytes.h"
#include "tests/unit/engine/service/import_fixture.h"

#include "engine/service/internal.h"
#include "engine/service/packages/uploads.h"

#include <stdio.h>
#include <string.h>

#define LARGE (64u << 10)
#define LARGE_COUNT 20

static void run_first_step(struct users *f)
{
    assert_true(fake_executor_run_task(&f->engine.executor));
    assert_true(fake_executor_run_task(&f->engine.executor));
}

TEST_F(users, a_large_import_runs_in_steps_and_lets_others_in)
{
    write_many(f, MANY);
    begin_import(f, &f->ann, "{}");
    end_transfer(f);
    run_first_step(f);
    assert_int_equal(f->ann.reply_count, 0);
    test_caller_fetch_name(&f->bob, ID, "k1.o", ARGS);

    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), MANY);
    assert_int_equal(json_get_u64(answer, "damaged", 9), 0);
    assert_int_equal(users_stat(f, "store_objects"), MANY);
    assert_int_equal(ask_imported(&f->ann, "k599.o").code, KILN_OK);
}

#define HUGE (12u << 20)

static void write_huge(struct users *f, size_t size)
{
    char *content = malloc(size);
    assert_non_null(content);
    memset(content, 'h', size);
    const struct kernel_row row = { "huge.o", ARGS, content, size };
    write_cache(f, &row, 1);
    free(content);
}

TEST_F(users, a_large_object_is_unpacked_in_steps_of_four_mebibytes)
{
    write_huge(f, HUGE);
    const unsigned *tasks = f->engine.executor.tasks_of;
    unsigned reads = tasks[WORK_QUEUE_READ];

    import_cache(f, &f->ann, "{}");

    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), 1);
    assert_true(tasks[WORK_QUEUE_READ] - reads >= HUGE / (4u << 20));
    assert_int_equal(ask_imported(&f->ann, "huge.o").code, KILN_OK);
    assert_int_equal(f->ann.replies[f->ann.reply_count - 1].first_object_size, HUGE);
}

TEST_F(users, a_large_object_is_stored_in_steps_of_four_mebibytes)
{
    write_huge(f, HUGE);
    const unsigned *tasks = f->engine.executor.tasks_of;
    unsigned writes = tasks[WORK_QUEUE_WRITE];

    import_cache(f, &f->ann, "{}");

    assert_true(tasks[WORK_QUEUE_WRITE] - writes >= HUGE / (4u << 20));
    assert_int_equal(users_stat(f, "store_objects"), 1);
}

TEST_F(users, a_client_that_leaves_ends_the_import_of_a_large_object)
{
    write_huge(f, HUGE);
    begin_import(f, &f->ann, "{}");
    end_transfer(f);
    const unsigned *tasks = f->engine.executor.tasks_of;
    const unsigned writes = tasks[WORK_QUEUE_WRITE];
    for (unsigned i = 0; tasks[WORK_QUEUE_WRITE] < writes + 3; i++) {
        assert_true(i < 1000);
        assert_true(fake_executor_run_task(&f->engine.executor));
    }

    test_caller_leave(&f->ann);
    fake_executor_run_tasks(&f->engine.executor);

    assert_true(uploads_idle(f->engine.engine));
    assert_int_equal(users_stat(f, "store_objects"), 0);
    assert_true(tasks[WORK_QUEUE_WRITE] <= writes + 3);
}

TEST_F(users, an_object_beyond_64_mib_is_damaged_and_not_unpacked)
{
    write_huge(f, (64u << 20) + 1);
    import_cache(f, &f->ann, "{}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "imported", 9), 0);
    assert_int_equal(json_get_u64(answer, "damaged", 0), 1);
    assert_says(json_get_text(answer, "first", ""), "67108864");
}

TEST_F(users, the_memory_of_a_large_object_is_charged_to_its_user)
{
    write_huge(f, HUGE);
    f->engine.options.queue_bytes_uid = HUGE / 2;
    users_reopen(f);
    import_cache(f, &f->ann, "{}");
    assert_reply_refuses(&f->ann, 0, KILN_BUSY, "queue_bytes_per_uid");
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

TEST_F(users, an_uncompressed_object_is_charged_as_a_blob_and_as_an_object)
{
    char *content = malloc(HUGE);
    assert_non_null(content);
    random_bytes(content, HUGE, 1);
    const struct kernel_row row = { "huge.o", ARGS, content, HUGE };
    write_cache(f, &row, 1);
    free(content);
    f->engine.options.queue_bytes_uid = HUGE / 2 * 3;
    users_reopen(f);
    import_cache(f, &f->ann, "{}");
    assert_reply_refuses(&f->ann, 0, KILN_BUSY, "queue_bytes_per_uid");
}

TEST_F(users, a_cache_of_exactly_one_step_is_imported_once)
{
    write_many(f, 512);
    import_cache(f, &f->ann, "{}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), 512);
    assert_int_equal(f->ann.reply_count, 1);
}

TEST_F(users, an_import_beyond_the_quota_fails_with_advice)
{
    f->engine.options.store_limit_bytes_uid = 64u << 10;
    users_reopen(f);
    write_many(f, MANY);

    import_cache(f, &f->ann, "{}");

    assert_reply_refuses(&f->ann, 0, KILN_FULL, "'gfx906_60.ukdb'");
    assert_reply_refuses(&f->ann, 0, KILN_FULL, " imported");
    assert_reply_refuses(&f->ann, 0, KILN_FULL, "--own");
    assert_reply_refuses(&f->ann, 0, KILN_FULL, "raise cache_limit_per_uid");
    assert_true(listed_kernels(&f->ann) > 0);
    import_one(f, &f->bob, "{}", "of bob");
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

static void write_large(struct users *f, unsigned count, uint32_t seed)
{
    static uint8_t contents[LARGE_COUNT][LARGE];
    static char names[LARGE_COUNT][16];
    static struct kernel_row rows[LARGE_COUNT];
    assert_true(count <= LARGE_COUNT);
    random_bytes(contents, count * (size_t)LARGE, seed);
    for (unsigned i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), "k%u.o", i);
        rows[i] = (struct kernel_row){ names[i], ARGS, (const char *)contents[i], LARGE };
    }
    write_cache(f, rows, count);
}

static void open_small_store(struct users *f)
{
    f->engine.options.store_limit_bytes = 2u << 20;
    users_reopen(f);
}

TEST_F(users, evictions_for_an_import_for_all_are_reported_and_counted)
{
    open_small_store(f);
    write_large(f, LARGE_COUNT, 1);
    import_cache(f, &f->ann, "{}");
    json_destroy(reply_json(&f->ann, 0));
    write_large(f, LARGE_COUNT, 2);
    import_cache(f, &f->admin, "{\"for_all\":true}");

    KILN_AUTO(json) struct json *answer = reply_json(&f->admin, 0);
    uint64_t evicted = json_get_u64(answer, "evicted", 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), LARGE_COUNT);
    assert_true(evicted > 0 && evicted <= LARGE_COUNT);
    assert_int_equal(users_stat(f, "evictions"), evicted);
}

TEST_F(users, a_users_import_keeps_what_fits_and_evicts_nothing_of_others)
{
    open_small_store(f);
    write_large(f, LARGE_COUNT, 1);
    import_cache(f, &f->ann, "{}");
    json_destroy(reply_json(&f->ann, 0));
    write_large(f, LARGE_COUNT, 2);

    import_cache(f, &f->bob, "{}");

    assert_reply_refuses(&f->bob, 0, KILN_FULL, "'gfx906_60.ukdb'");
    assert_reply_refuses(&f->bob, 0, KILN_FULL, " imported");
    assert_reply_refuses(&f->bob, 0, KILN_FULL, "clear --own");
    assert_reply_refuses(&f->bob, 0, KILN_FULL, "--own");
    assert_int_equal(listed_kernels(&f->ann), LARGE_COUNT);
    assert_in_range(listed_kernels(&f->bob), 1, LARGE_COUNT - 1);
    assert_int_equal(users_stat(f, "evictions"), 0);
}

static void import_many(struct users *f)
{
    write_many(f, MANY);
    import_cache(f, &f->ann, "{}");
    json_destroy(reply_json(&f->ann, 0));
    test_caller_forget_replies(&f->ann);
}

static void begin_clear(struct users *f)
{
    import_many(f);
    test_caller_send(&f->ann, MESSAGE_clear, 9, bytes_of_text("{\"own\":true}"));
    assert_true(fake_executor_run_task(&f->engine.executor));
    assert_int_equal(f->ann.reply_count, 0);
}

TEST_F(users, a_clear_of_many_kernels_runs_in_steps_and_lets_others_in)
{
    begin_clear(f);
    test_caller_send(&f->bob, MESSAGE_kernel_list, 3, (struct bytes){ 0 });
    while (f->bob.reply_count == 0)
        assert_true(fake_executor_run_task(&f->engine.executor));
    assert_int_equal(f->ann.reply_count, 0);

    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "kernels", 0), MANY);
    assert_int_equal(users_stat(f, "store_objects"), 0);
    assert_int_equal(ask_imported(&f->ann, "k1.o").code, KILN_NOT_FOUND);
}

TEST_F(users, a_dry_run_of_a_clear_delays_no_write)
{
    const unsigned *tasks = f->engine.executor.tasks_of;
    write_many(f, 2);
    import_cache(f, &f->ann, "{}");
    test_caller_forget_replies(&f->ann);
    unsigned writes = tasks[WORK_QUEUE_WRITE];

    KILN_AUTO(json)
    struct json *answer =
        test_caller_ask(&f->ann, MESSAGE_clear, "{\"own\":true,\"dry_run\":true}");

    assert_int_equal(json_get_u64(answer, "kernels", 0), 2);
    assert_true(json_get_bool(answer, "dry_run", false));
    assert_int_equal(tasks[WORK_QUEUE_WRITE], writes);
    assert_int_equal(users_stat(f, "store_objects"), 2);
}

TEST_F(users, a_client_that_leaves_ends_its_clear_after_the_step)
{
    begin_clear(f);

    test_caller_leave(&f->ann);
    assert_true(fake_executor_run_tasks(&f->engine.executor) <= 1);

    assert_in_range(users_stat(f, "store_objects"), 1, MANY - 1);
}

/* Starts the administrator's request, and runs tasks until bob's list is answered. The request must
 * not have ended by then, so bob's list was read between two of its steps. */
static void run_beside_a_list(struct users *f, enum message_type type, const char *question)
{
    test_caller_forget_replies(&f->admin);
    test_caller_send(&f->admin, type, 3, bytes_of_text(question));
    test_caller_send(&f->bob, MESSAGE_kernel_list, 3, (struct bytes){ 0 });
    while (f->bob.reply_count == 0)
        assert_true(fake_executor_run_task(&f->engine.executor));
    assert_int_equal(f->admin.reply_count, 0);
    fake_executor_run_tasks(&f->engine.executor);
}

TEST_F(users, pins_of_many_kernels_are_set_in_steps_and_let_others_in)
{
    import_many(f);
    run_beside_a_list(f, MESSAGE_kernel_pin, "{\"database_id\":\"gfx906_60\"}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->admin, 0);
    assert_int_equal(json_get_u64(answer, "kernels", 0), MANY);
}

TEST_F(users, a_gc_runs_in_steps_and_lets_others_in)
{
    import_many(f);
    run_beside_a_list(f, MESSAGE_gc, "{\"to_bytes\":0}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->admin, 0);
    assert_int_equal(json_get_u64(answer, "evicted_kernels", 0), MANY);
    assert_int_equal(users_stat(f, "evictions"), MANY);
}

TEST_F(users, a_gc_reads_all_rows_before_it_needs_the_write_queue)
{
    import_many(f);
    const unsigned *tasks = f->engine.executor.tasks_of;
    const unsigned reads = tasks[WORK_QUEUE_READ], writes = tasks[WORK_QUEUE_WRITE];

    test_caller_send(&f->admin, MESSAGE_gc, 3, bytes_of_text("{}"));

    assert_int_equal(tasks[WORK_QUEUE_READ], reads + 1);
    assert_int_equal(tasks[WORK_QUEUE_WRITE], writes);
    test_caller_forget_replies(&f->admin);
    fake_executor_run_tasks(&f->engine.executor);
    assert_true(tasks[WORK_QUEUE_WRITE] > writes);
    KILN_AUTO(json) struct json *answer = reply_json(&f->admin, 0);
    assert_int_equal(json_get_u64(answer, "kernels", 9), 0);
}

TEST_F(users, a_dry_run_of_a_gc_does_not_wait_for_writes)
{
    const unsigned *tasks = f->engine.executor.tasks_of;
    import_many(f);
    unsigned writes = tasks[WORK_QUEUE_WRITE];
    KILN_AUTO(json)
    struct json *answer =
        test_caller_ask(&f->admin, MESSAGE_gc, "{\"to_bytes\":0,\"dry_run\":true}");
    assert_int_equal(json_get_u64(answer, "evicted_kernels", 0), MANY);
    assert_int_equal(tasks[WORK_QUEUE_WRITE], writes);
    assert_int_equal(users_stat(f, "evictions"), 0);
}

TEST_F(users, a_client_that_leaves_ends_its_gc_after_the_step)
{
    import_many(f);
    test_caller_send(&f->admin, MESSAGE_gc, 3, bytes_of_text("{\"to_bytes\":0}"));
    assert_true(fake_executor_run_task(&f->engine.executor));
    test_caller_leave(&f->admin);
    assert_true(fake_executor_run_tasks(&f->engine.executor) <= 1);
    assert_int_equal(users_stat(f, "store_objects"), MANY);
}

TEST_F(users, a_cache_larger_than_the_store_is_not_copied)
{
    f->engine.options.store_limit_bytes = 2u << 20;
    f->engine.options.package_limit = 1u << 30;
    users_reopen(f);
    write_many(f, 1);
    begin_import(f, &f->ann, "{}");
    assert_int_equal(fake_executor_next_transfer(&f->engine.executor)->job.size_limit, 8u << 20);
    fake_executor_transfer_fail(&f->engine.executor, KILN_FULL, "too large");
    f->engine.options.package_limit = 1u << 20;
    users_reopen(f);
    begin_import(f, &f->ann, "{}");
    assert_int_equal(fake_executor_next_transfer(&f->engine.executor)->job.size_limit, 1u << 20);
    fake_executor_transfer_fail(&f->engine.executor, KILN_FULL, "too large");
}

/* kilnctl compares a file's size with these limits before it sends the file. */
TEST_F(users, status_has_the_limits_of_uploaded_files)
{
    f->engine.options.store_limit_bytes = 2u << 20;
    f->engine.options.package_limit = 1u << 30;
    users_reopen(f);
    struct json *status = test_caller_ask(&f->ann, MESSAGE_status, NULL);
    const struct json *uploads = json_get(status, "uploads");
    assert_int_equal(json_get_u64(uploads, "cache_limit_bytes", 0), 8u << 20);
    assert_int_equal(json_get_u64(uploads, "tuning_limit_bytes", 0), 8u << 20);
    json_destroy(status);
    f->engine.options.store_limit_bytes = 1u << 30;
    users_reopen(f);
    status = test_caller_ask(&f->ann, MESSAGE_status, NULL);
    uploads = json_get(status, "uploads");
    assert_int_equal(json_get_u64(uploads, "cache_limit_bytes", 0), 1u << 30);
    assert_int_equal(json_get_u64(uploads, "tuning_limit_bytes", 0), 256u << 20);
    json_destroy(status);
}

TEST_F(users, a_user_has_at_most_two_imports_in_flight)
{
    write_many(f, 1);
    begin_import(f, &f->ann, "{}");
    begin_import(f, &f->ann, "{}");
    begin_import(f, &f->ann, "{}");
    assert_reply_refuses(&f->ann, 0, KILN_BUSY, "uploads: ");
    begin_import(f, &f->bob, "{}");
    assert_int_equal(f->bob.reply_count, 0);
    fake_executor_transfer_fail(&f->engine.executor, KILN_IO, "no");
    begin_import(f, &f->ann, "{}");
    assert_int_equal(f->ann.reply_count, 0);
    while (fake_executor_next_transfer(&f->engine.executor))
        fake_executor_transfer_fail(&f->engine.executor, KILN_IO, "no");
    static const char failed[] =
        "kiln_remote_requests_total{tier=\"disk\",op=\"copy\",result=\"io\"}";
    assert_int_equal(test_caller_metric(&f->bob, failed), 4);
}

#define USERS 6

TEST_F(users, users_leave_upload_capacity_for_administrators)
{
    struct test_caller users[USERS];
    write_many(f, 1);
    for (unsigned i = 0; i < USERS; i++) {
        test_caller_connect(&users[i], &f->engine, 2000 + i, ROLE_USE);
        begin_import(f, &users[i], "{}");
        begin_import(f, &users[i], "{}");
        assert_int_equal(users[i].reply_count, 0);
    }
    begin_import(f, &f->ann, "{}");
    assert_reply_refuses(&f->ann, 0, KILN_BUSY, "uploads: 12");
    for (int i = 0; i < 4; i++) {
        begin_import(f, &f->admin, "{}");
        assert_int_equal(f->admin.reply_count, 0);
    }
    begin_import(f, &f->admin, "{}");
    assert_reply_refuses(&f->admin, 0, KILN_BUSY, "uploads: 16");
    while (fake_executor_next_transfer(&f->engine.executor))
        fake_executor_transfer_fail(&f->engine.executor, KILN_IO, "no");
    for (unsigned i = 0; i < USERS; i++)
        test_caller_leave(&users[i]);
}

TEST_F(users, a_client_that_leaves_during_the_import_transfer_has_it_cancelled)
{
    write_many(f, 3);
    begin_import(f, &f->ann, "{}");
    test_caller_leave(&f->ann);
    assert_int_equal(f->engine.executor.transfers_cancelled, 1);
    fake_executor_transfer_fail(&f->engine.executor, KILN_CANCELLED, "cancelled");
    assert_int_equal(fake_executor_run_tasks(&f->engine.executor), 0);
    assert_int_equal(users_stat(f, "store_objects"), 0);
}

TEST_F(users, a_client_that_leaves_ends_its_import_after_the_step)
{
    write_many(f, MANY);
    begin_import(f, &f->ann, "{}");
    end_transfer(f);
    run_first_step(f);
    assert_int_equal(engine_fixture_staged(&f->engine), 1);

    test_caller_leave(&f->ann);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(engine_fixture_staged(&f->engine), 0);
    assert_true(uploads_idle(f->engine.engine));
    uint64_t there = users_stat(f, "store_objects");
    assert_true(there > 0 && there < MANY);
}

TEST_F(users, a_cancelled_import_is_answered_once)
{
    write_many(f, MANY);
    begin_import(f, &f->ann, "{}");
    end_transfer(f);
    run_first_step(f);
    test_caller_cancel(&f->ann, 3);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_CANCELLED);
}

TEST_F(users, a_stopping_daemon_defers_the_rest_of_an_import)
{
    write_many(f, MANY);
    begin_import(f, &f->ann, "{}");
    end_transfer(f);
    engine_drain(f->engine.engine);
    assert_int_equal(f->engine.executor.transfers_cancelled, 0);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    assert_reply_refuses(&f->ann, 0, KILN_UNAVAILABLE, "stopping");
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}
