/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/tuning_fixture.h"

#include "engine/service/internal.h"
#include "engine/service/tuning/tuning_state.h"

#include <stdio.h>
#include <string.h>

#define BEYOND_STEP_NS 11000000u /* longer than a step may take (10 ms) */

static uint64_t clock_step_ns; /* time that passes with each reading of the clock, besides 1 ns */

WRAP(uint64_t, clock_monotonic_ns, void)
{
    static uint64_t now_ns = 3600000000000;
    now_ns += 1 + clock_step_ns;
    return now_ns;
}

TEAR_DOWN_OF(teardown, struct users) { clock_step_ns = 0; }

FIXTURE_OF(tuning_order, struct users, users_setup, teardown);

static void send_json(struct test_caller *c, enum message_type type, const char *question)
{
    test_caller_forget_replies(c);
    test_caller_send(c, type, 3, bytes_of_text(question));
}

static void run_until_answered(struct users *f, const struct test_caller *c)
{
    while (c->reply_count == 0)
        assert_true(fake_executor_run_task(&f->engine.executor));
}

TEST_F(tuning_order, puts_of_users_alternate)
{
    struct put put = find_put("Mine", 1);
    tuning_send_put(f, &f->ann, &put, false);
    tuning_send_put(f, &f->ann, &put, false);
    tuning_send_put(f, &f->ann, &put, false);
    tuning_send_put(f, &f->bob, &put, false);
    tuning_send_put(f, &f->bob, &put, false);

    run_until_answered(f, &f->bob);

    assert_int_equal(f->bob.replies[0].type, MESSAGE_recorded);
    assert_int_equal(f->ann.reply_count, 1);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->bob.reply_count, 2);
    assert_int_equal(f->ann.reply_count, 3);
}

TEST_F(tuning_order, a_put_waits_for_one_export_of_another_user)
{
    struct put put = find_put("Mine", 1);
    tuning_put(f, &f->ann, &put);
    tuning_send_put(f, &f->publisher, &put, false);
    send_json(&f->ann, MESSAGE_tuning_export, "{\"tier\":\"user\"}");
    test_caller_send(&f->ann, MESSAGE_tuning_export, 4, bytes_of_text("{\"tier\":\"user\"}"));
    tuning_send_put(f, &f->bob, &put, false);

    run_until_answered(f, &f->bob);

    assert_true(f->ann.reply_count > 0);
    assert_int_equal(f->ann.replies[f->ann.reply_count - 1].request_id, 3);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.replies[f->ann.reply_count - 1].request_id, 4);
}

TEST_F(tuning_order, puts_do_not_starve_an_export)
{
    struct put put = find_put("Mine", 1);
    tuning_put(f, &f->bob, &put);
    tuning_send_put(f, &f->ann, &put, false);
    send_json(&f->bob, MESSAGE_tuning_export, "{\"tier\":\"user\"}");
    for (int i = 0; i < 60; i++)
        tuning_send_put(f, i % 2 ? &f->ann : &f->publisher, &put, false);

    run_until_answered(f, &f->bob);

    assert_int_not_equal(f->engine.engine->tuning->queue.waiting.count, 0);
    test_caller_forget_replies(&f->ann);
    test_caller_forget_replies(&f->publisher);
    fake_executor_run_tasks(&f->engine.executor);
}

TEST_F(tuning_order, long_changes_count_as_administrative_requests)
{
    for (unsigned i = 0; i < 4; i++) {
        send_json(&f->ann, MESSAGE_tuning_export, "{\"tier\":\"user\"}");
        assert_int_equal(f->ann.reply_count, 0);
    }
    send_json(&f->ann, MESSAGE_tuning_export, "{\"tier\":\"user\"}");
    assert_reply_refuses(&f->ann, 0, KILN_BUSY, "administrative requests");

    send_json(&f->bob, MESSAGE_tuning_export, "{\"tier\":\"user\"}");
    assert_int_equal(f->bob.reply_count, 0);
    fake_executor_run_tasks(&f->engine.executor);
    assert_true(f->bob.reply_count > 0);
}

TEST_F(tuning_order, puts_run_between_the_steps_of_a_verification)
{
    struct put put = find_put("Mine", 1);
    tuning_import_system(f);
    send_json(&f->ann, MESSAGE_tuning_verify, "{}");
    tuning_send_put(f, &f->bob, &put, false);

    run_until_answered(f, &f->bob);

    assert_int_equal(f->bob.replies[0].type, MESSAGE_recorded);
    for (size_t i = 0; i < f->ann.reply_count; i++)
        assert_int_equal(f->ann.replies[i].flags, FRAME_MORE);
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json) struct json *a = reply_json(&f->ann, f->ann.reply_count - 1);
    assert_int_equal(answer_number(a, "checked"), 1);
    assert_int_equal(answer_number(a, "damaged"), 0);
}

/* With this clock, every step ends after one part of the records. The request names neither driver
 * nor toolchain. Every record is therefore read twice: first to find the newest driver and
 * toolchain, then to compare the record with them. */
TEST_F(tuning_order, stale_records_are_looked_for_in_steps_that_let_puts_run)
{
    struct put put = find_put("Mine", 1), old = find_put("Old", 2);
    const unsigned *tasks = &f->engine.executor.tasks_of[WORK_QUEUE_TUNING];
    old.m.driver = bytes_of_text("driver 0");
    tuning_put(f, &f->ann, &put);
    tuning_put(f, &f->ann, &old);
    clock_step_ns = BEYOND_STEP_NS;
    send_json(&f->ann, MESSAGE_tuning_verify, "{}");
    tuning_send_put(f, &f->bob, &put, false);
    unsigned before = *tasks;

    run_until_answered(f, &f->bob);

    assert_int_equal(f->bob.replies[0].type, MESSAGE_recorded);
    assert_true(*tasks < before + 10);
    fake_executor_run_tasks(&f->engine.executor);
    assert_true(*tasks > before + 100);
    KILN_AUTO(json) struct json *a = reply_json(&f->ann, f->ann.reply_count - 1);
    assert_int_equal(answer_number(a, "checked"), 1);
    assert_int_equal(answer_number(a, "stale"), 1);
}

#define TWO_RECORDS KEY "=" GEMM "\n" KEY_OF_TWO "=" GEMM "\n"

/* The clock makes the export write one record per step. */
TEST_F(tuning_order, puts_run_between_the_steps_of_an_export)
{
    struct put put = find_put("Mine", 1);
    json_destroy(tuning_import(f, &f->ann, USER_QUESTION, FIND_FILE, TWO_RECORDS));
    clock_step_ns = BEYOND_STEP_NS;
    send_json(&f->ann, MESSAGE_tuning_export, "{\"tier\":\"user\"}");
    tuning_send_put(f, &f->bob, &put, false);

    run_until_answered(f, &f->bob);

    assert_int_equal(f->bob.replies[0].type, MESSAGE_recorded);
    for (size_t i = 0; i < f->ann.reply_count; i++)
        assert_int_equal(f->ann.replies[i].flags, FRAME_MORE);
    fake_executor_run_tasks(&f->engine.executor);
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, 1u << 20);
    reply_object(&f->ann, f->ann.reply_count - 1, 0, &content);
    assert_true(bytes_equal_text(buffer_view(&content), TWO_RECORDS));
}

/* With this clock, listing the files takes several steps, before the export begins its first file.
 * The put must run between these steps. */
TEST_F(tuning_order, puts_run_between_the_steps_that_list_the_files_of_an_export)
{
    struct put put = find_put("Mine", 1);
    json_destroy(tuning_import(f, &f->ann, USER_QUESTION, FIND_FILE, TWO_RECORDS));
    clock_step_ns = BEYOND_STEP_NS;
    send_json(&f->ann, MESSAGE_tuning_export, "{\"tier\":\"user\"}");
    tuning_send_put(f, &f->bob, &put, false);

    run_until_answered(f, &f->bob);

    assert_int_equal(f->bob.replies[0].type, MESSAGE_recorded);
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.replies[f->ann.reply_count - 1].flags, 0);
}

TEST_F(tuning_order, an_export_ends_when_its_client_leaves)
{
    json_destroy(tuning_import(f, &f->ann, USER_QUESTION, FIND_FILE, TWO_RECORDS));
    clock_step_ns = BEYOND_STEP_NS;
    send_json(&f->ann, MESSAGE_tuning_export, "{\"tier\":\"user\"}");
    assert_true(fake_executor_run_task(&f->engine.executor));

    test_caller_cancel(&f->ann, 3);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

TEST_F(tuning_order, a_comparison_keeps_the_records_it_read_before_a_put)
{
    struct put put = find_put("Mine", 1), other = find_put("Other", 2);
    tuning_import_system(f);
    tuning_put(f, &f->ann, &put);
    send_json(&f->ann, MESSAGE_tuning_diff,
              "{\"kind\":\"find\",\"database_id\":\"" ID
              "\",\"a_tier\":\"user\",\"b_tier\":\"system\"}");
    assert_true(fake_executor_run_task(&f->engine.executor));
    test_caller_leave(&f->bob);
    test_caller_connect(&f->bob, &f->engine, 1000, ROLE_USE);
    tuning_send_put(f, &f->bob, &other, false);
    run_until_answered(f, &f->bob);
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json) struct json *a = reply_json(&f->ann, f->ann.reply_count - 1);
    assert_int_equal(answer_number(a, "a_records"), 1);
    assert_int_equal(answer_number(a, "different"), 1);
    KILN_AUTO(json) struct json *frame = tuning_reported(&f->ann, "differences");
    assert_int_equal(json_count(json_get(frame, "differences")), 3);
}

/* Each of ann's verifications takes several steps. Bob's export must run before any of them has
 * ended. */
TEST_F(tuning_order, long_changes_of_two_users_alternate)
{
    tuning_import_system(f);
    send_json(&f->ann, MESSAGE_tuning_verify, "{}");
    send_json(&f->ann, MESSAGE_tuning_verify, "{}");
    send_json(&f->bob, MESSAGE_tuning_export, "{\"tier\":\"system\"}");

    run_until_answered(f, &f->bob);

    for (size_t i = 0; i < f->ann.reply_count; i++)
        assert_int_equal(f->ann.replies[i].flags, FRAME_MORE);
    fake_executor_run_tasks(&f->engine.executor);
}

TEST_F(tuning_order, a_comparison_reads_on_in_a_database_that_was_replaced)
{
    tuning_import_system(f);
    send_json(&f->ann, MESSAGE_tuning_diff,
              "{\"kind\":\"find\",\"database_id\":\"" ID
              "\",\"a_tier\":\"system\",\"b_tier\":\"host\"}");
    assert_true(fake_executor_run_task(&f->engine.executor));
    tuning_import_system(f);
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json) struct json *a = reply_json(&f->ann, f->ann.reply_count - 1);
    assert_true(answer_number(a, "only_a") > 0);
}

TEST_F(tuning_order, tuning_work_stops_between_steps_when_its_client_leaves)
{
    tuning_import_system(f);
    send_json(&f->ann, MESSAGE_tuning_verify, "{}");
    assert_true(fake_executor_run_task(&f->engine.executor));
    test_caller_cancel(&f->ann, 3);
    unsigned before = f->engine.executor.tasks_of[WORK_QUEUE_TUNING];

    fake_executor_run_tasks(&f->engine.executor);

    assert_true(f->engine.executor.tasks_of[WORK_QUEUE_TUNING] <= before + 1);
    assert_int_equal(f->engine.engine->tuning->queue.waiting.count, 0);
    assert_null(f->engine.engine->tuning->queue.running);
}

TEST_F(tuning_order, a_change_between_its_steps_is_refused_when_the_engine_drains)
{
    struct put put = find_put("Mine", 1);
    tuning_import_system(f);
    send_json(&f->ann, MESSAGE_tuning_verify, "{}");
    tuning_send_put(f, &f->bob, &put, false);
    const struct request_queue *queue = &f->engine.engine->tuning->queue;
    while (!queue->running || queue->running->caller != &f->bob.base)
        assert_true(fake_executor_run_task(&f->engine.executor));

    engine_drain(f->engine.engine);

    assert_reply_refuses(&f->ann, f->ann.reply_count - 1, KILN_UNAVAILABLE, "stopping");
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->bob.replies[0].type, MESSAGE_recorded);
}

TEST_F(tuning_order, a_long_batch_of_look_ups_lets_other_requests_run)
{
    tuning_import_system(f);
    clock_step_ns = 10000000;

    tuning_ask_many(&f->ann, 0, 0, 3);

    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->ann.replies[0].flags, FRAME_MORE);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 3);
    assert_int_equal(f->ann.replies[2].flags, 0);
}
