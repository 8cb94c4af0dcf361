/* SPDX-License-Identifier: MIT */
#include "tests/support/stepped_clock.h"
#include "tests/support/test_files.h"
#include "tests/unit/engine/service/tuning_fixture.h"

#include "engine/service/internal.h"
#include "engine/service/tuning/tuning_state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MY_VALUE "Mine:0.03,128,miopenConvolutionFwdAlgoDirect"

TEST_F(users, every_user_finds_imported_records_unchanged)
{
    tuning_import_system(f);
    assert_true(tuning_finds(f, &f->ann, WINOGRAD ";" GEMM));
    assert_true(tuning_finds(f, &f->bob, WINOGRAD ";" GEMM));
    assert_int_equal(users_stat(f, "tuning_hits_system"), 2);
}

TEST_F(users, an_unknown_problem_is_a_miss_without_a_message)
{
    struct message_tuning_answer answer = tuning_ask(f, &f->ann, 0, 0, 1);
    assert_int_equal(answer.code, KILN_NOT_FOUND);
    assert_int_equal(answer.text.size, 0);
    assert_int_equal(users_stat(f, "tuning_misses"), 1);
}

/* Checks that |reply| answers the problems that begin at |index|. Returns the index of the problem
 * after them. */
static uint32_t check_answers(const struct kept_reply *reply, uint32_t index)
{
    struct reader r = reader_of(reply->body);
    struct message_tuned m = message_tuned_read(&r);
    struct reader answers = reader_of(m.answers);
    for (uint32_t i = 0; i < m.count; i++, index++) {
        struct message_tuning_answer answer = message_tuning_answer_read(&answers);
        assert_int_equal(answer.index, index);
        assert_int_equal(answer.code, index == 0 ? KILN_OK : KILN_NOT_FOUND);
    }
    assert_int_equal(reader_left(&answers), 0);
    return index;
}

TEST_F(users, a_tuning_batch_answers_each_problem_at_its_index)
{
    uint32_t index = 0;
    tuning_import_system(f);
    tuning_ask_many(&f->ann, 0, 0, 1000);
    fake_executor_run_tasks(&f->engine.executor);
    for (size_t i = 0; i < f->ann.reply_count; i++) {
        assert_int_equal(f->ann.replies[i].flags, i + 1 < f->ann.reply_count ? FRAME_MORE : 0);
        index = check_answers(&f->ann.replies[i], index);
    }
    assert_int_equal(index, 1000);
}

TEST_F(users, a_neighbours_record_is_sent_on_request_with_its_distance)
{
    tuning_import_system(f);
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 4).code, KILN_NOT_FOUND);
    struct message_tuning_answer near = tuning_ask(f, &f->ann, 0, TUNING_NEAREST, 4);
    assert_int_equal(near.code, KILN_OK);
    assert_int_equal(near.flags, TUNING_NEAR);
    assert_true(near.batch_ratio == double_bits(4) && near.spatial_ratio == double_bits(1));
    assert_true(bytes_equal_text(near.key, KEY));
}

TEST_F(users, a_batch_for_neighbours_runs_over_several_loop_iterations)
{
    tuning_import_system(f);
    step_clock(5000);
    struct message_tuning_answer last = tuning_ask(f, &f->ann, 0, TUNING_NEAREST, 4096);
    step_clock(1);
    assert_int_equal(last.flags, TUNING_NEAR);
    assert_int_equal(users_stat(f, "tuning_near"), 4095);
}

TEST_F(users, a_users_measurement_is_private)
{
    tuning_import_system(f);
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    struct message_tuning_answer mine = tuning_ask(f, &f->ann, 0, 0, 1);
    assert_int_equal(mine.tier, 3);
    assert_true(bytes_equal_text(mine.value, MY_VALUE));
    assert_true(tuning_finds(f, &f->bob, WINOGRAD ";" GEMM));
    assert_true(tuning_finds(f, &f->admin, WINOGRAD ";" GEMM));
}

TEST_F(users, a_measurement_survives_a_restart_with_its_origin)
{
    struct put put = find_put("Mine", 0.03);
    put.m.device_uuid = bytes_of_text("GPU-7");
    tuning_put(f, &f->ann, &put);
    users_reopen(f);
    struct message_tuning_answer mine = tuning_ask(f, &f->ann, 0, TUNING_MEASUREMENTS, 1);
    assert_int_equal(mine.measurement_count, 1);
    struct reader r = reader_of(mine.measurements);
    struct message_tuning_measurement m = message_tuning_measurement_read(&r);
    assert_true(bytes_equal_text(m.id, "Mine"));
    assert_true(bytes_equal_text(m.device_uuid, "GPU-7"));
    assert_true(bytes_equal_text(m.library, "test"));
    assert_int_equal(m.uid, 1000);
    assert_int_equal(m.samples, 5);
    assert_int_equal(m.clock_mhz, 1700);
    assert_true(m.median_ms == double_bits(0.03) && m.measured_at > 1000000000);
}

TEST_F(users, records_of_another_driver_are_marked_and_counted)
{
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).flags, TUNING_STALE);
    assert_int_equal(users_stat(f, "tuning_stale"), 1);
}

TEST_F(users, stale_records_are_left_out_if_the_policy_ignores_them)
{
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    f->engine.options.tuning_stale = TUNING_IGNORE;
    users_reopen(f);
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).code, KILN_NOT_FOUND);
}

TEST_F(users, a_put_keeps_entries_of_other_solvers)
{
    struct put mine = find_put("Mine", 0.03), other = find_put("Other", 0.04);
    tuning_put(f, &f->ann, &mine);
    tuning_put(f, &f->ann, &other);
    assert_true(
        tuning_finds(f, &f->ann, MY_VALUE ";Other:0.04,128,miopenConvolutionFwdAlgoDirect"));
}

TEST_F(users, a_record_in_the_old_dialect_keeps_other_solvers_of_an_algorithm_apart)
{
    json_destroy(tuning_import(
        f, &f->ann, "{\"name\":\"" FIND_FILE "\",\"tier\":\"user\"}", FIND_FILE,
        KEY
        "=miopenConvolutionFwdAlgoDirect:Old,0.07,0,miopenConvolutionFwdAlgoDirect,<unused>\n"));
    struct put mine = find_put("Mine", 0.03), old = find_put("Old", 0.05);
    tuning_put(f, &f->ann, &mine);
    assert_true(tuning_finds(
        f, &f->ann,
        "miopenConvolutionFwdAlgoDirect:Old,0.07,0,miopenConvolutionFwdAlgoDirect,<unused>;"
        "Mine:0.03,128,miopenConvolutionFwdAlgoDirect"));

    tuning_put(f, &f->ann, &old);

    assert_true(tuning_finds(f, &f->ann,
                             "Old:0.05,128,miopenConvolutionFwdAlgoDirect;"
                             "Mine:0.03,128,miopenConvolutionFwdAlgoDirect"));
}

TEST_F(users, perf_parameters_are_put_and_found)
{
    struct put put = perf_put("ConvAsm1x1U", "1,8,2,64", 0.2);
    tuning_put(f, &f->ann, &put);
    struct message_tuning_answer answer = tuning_ask(f, &f->ann, 1, 0, 1);
    assert_true(bytes_equal_text(answer.value, "ConvAsm1x1U:1,8,2,64"));
    assert_int_equal(tuning_ask(f, &f->bob, 1, 0, 1).code, KILN_NOT_FOUND);
}

TEST_F(users, only_publishers_and_administrators_put_host_records)
{
    struct put put = find_put("Mine", 0.03);
    put.m.tier = 2;
    tuning_send_put(f, &f->ann, &put, true);
    assert_reply_refuses(&f->ann, 0, KILN_DENIED, "--tier user");
    tuning_put(f, &f->publisher, &put);
    struct message_tuning_answer answer = tuning_ask(f, &f->bob, 0, 0, 1);
    assert_int_equal(answer.tier, 2);
    assert_true(bytes_equal_text(answer.value, MY_VALUE));
}

/* ---- refusals ---- */

static void assert_refused(struct users *f, const struct put *put, const char *words)
{
    tuning_send_put(f, &f->ann, put, true);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, words);
}

TEST_F(users, impossible_measurements_are_refused)
{
    static const double bad[] = { -0.5, NAN, INFINITY, -INFINITY, 1.1e9 };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct put put = find_put("Mine", bad[i]);
        assert_refused(f, &put, "median");
        put = find_put("Mine", 1);
        put.entry.spread_ms = double_bits(bad[i]);
        assert_refused(f, &put, "spread");
    }
    struct put put = find_put("Mine", 1);
    put.entry.samples = 0;
    assert_refused(f, &put, "samples");
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).code, KILN_NOT_FOUND);
}

TEST_F(users, names_that_would_break_a_record_are_refused)
{
    static const char *const bad[] = { "", "A;B", "A:B", "A=B", "A,B", "A\nB", "\xff" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct put put = find_put(bad[i], 1);
        assert_refused(f, &put, "entry 0");
        put = find_put("Mine", 1);
        put.entry.algorithm = bytes_of_text(bad[i]);
        assert_refused(f, &put, "entry 0");
    }
    struct put put = perf_put("Mine", "1,2;Other:3", 1);
    assert_refused(f, &put, "parameters");
    put = find_put("Mine", 1);
    put.m.device = bytes_of_text("two\nlines");
    assert_refused(f, &put, "device");
}

TEST_F(users, names_unknown_to_miopen_are_refused)
{
    struct put put = find_put("Conv A", 1);
    assert_refused(f, &put, "'Conv A'");
    put = find_put("Mine", 1);
    put.entry.algorithm = bytes_of_text("direct");
    assert_refused(f, &put, "'direct'");
    put.entry.algorithm = bytes_of_text("miopenConvolutionBwdDataAlgoDirect");
    assert_refused(f, &put, "direction");
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).code, KILN_NOT_FOUND);
    put.m.problem.direction = DIRECTION_BACKWARD_DATA;
    tuning_put(f, &f->ann, &put);
}

TEST_F(users, a_put_of_an_unknown_kind_or_tier_is_refused)
{
    struct put put = find_put("Mine", 1);
    put.m.kind = 2;
    assert_refused(f, &put, "kind 2");
    put = find_put("Mine", 1);
    put.m.tier = 1;
    assert_refused(f, &put, "tier 1");
    put = find_put("Mine", 1);
    put.m.database_id = bytes_of_text("../gfx90a68");
    assert_refused(f, &put, "");
    put = find_put("Mine", 1);
    put.m.problem.n = 0;
    assert_refused(f, &put, "");
    put = perf_put("Mine", "1", 1);
    put.m.backend = bytes_of_text("HIP");
    assert_refused(f, &put, "no backend");
    put = find_put("Mine", 1);
    put.entry.params = bytes_of_text("1");
    assert_refused(f, &put, "parameters");
}

TEST_F(users, puts_with_a_wrong_entry_count_are_refused)
{
    struct put put = find_put("Mine", 1);
    put.m.count = 0;
    assert_refused(f, &put, "256 entries");
    put.m.count = 257;
    assert_refused(f, &put, "256 entries");
    put.m.count = 2;
    assert_refused(f, &put, "too early");
    put.repeated = 2;
    assert_refused(f, &put, "this solver");
    put.m.count = 1;
    assert_refused(f, &put, "last entry");
}

TEST_F(users, a_problem_of_mixed_layouts_has_no_perf_record)
{
    struct put put = perf_put("Mine", "1", 1);
    put.m.problem.y_layout = LAYOUT_CHANNELS_LAST;
    tuning_send_put(f, &f->ann, &put, true);
    assert_reply_refuses(&f->ann, 0, KILN_UNSUPPORTED, "layout");
}

TEST_F(users, look_ups_with_a_wrong_count_are_refused)
{
    uint8_t problems[PROBLEM_WIRE_SIZE] = { 0 };
    const struct message_tuning_get good = { .database_id = bytes_of_text(ID),
                                             .count = 1,
                                             .problems = bytes_of(problems, sizeof(problems)) };
    struct message_tuning_get bad[] = { good, good, good, good, good, good };
    bad[0].kind = 7;
    bad[1].count = 2;
    bad[2].count = 0;
    bad[3].count = UINT32_MAX;
    bad[4].database_id = bytes_of_text("/etc/passwd");
    bad[5].backend = bytes_of_text("a:b");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        BUFFER_AUTO struct buffer body;
        buffer_init(&body, 4096);
        message_tuning_get_write(&body, &bad[i]);
        test_caller_forget_replies(&f->ann);
        test_caller_send(&f->ann, MESSAGE_tuning_get, 4, buffer_view(&body));
        assert_reply_refuses(&f->ann, 0, KILN_INVALID, "");
    }
}

/* Returns true if the look-up is answered, and false if it is refused as invalid. */
static bool is_answered(struct users *f, enum tuning_kind kind, const char *id, const char *backend)
{
    uint8_t problems[PROBLEM_WIRE_SIZE] = { 0 };
    const struct message_tuning_get m = { .kind = (uint8_t)kind,
                                          .database_id = bytes_of_text(id),
                                          .backend = bytes_of_text(backend),
                                          .count = 1,
                                          .problems = bytes_of(problems, sizeof(problems)) };
    test_caller_forget_replies(&f->ann);
    SEND_MESSAGE(&f->ann, tuning_get, 4, &m);
    if (f->ann.replies[0].type == MESSAGE_tuned)
        return true;
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "");
    return false;
}

TEST_F(users, a_database_is_checked_whichever_was_used_before)
{
    assert_false(is_answered(f, TUNING_FIND, "", ""));
    assert_false(is_answered(f, TUNING_PERF, "", ""));
    for (int i = 0; i < 2; i++) {
        assert_true(is_answered(f, TUNING_FIND, ID, "HIP"));
        assert_true(is_answered(f, TUNING_FIND, ID, "HIP"));
        assert_false(is_answered(f, TUNING_FIND, ID, "CUDA"));
        assert_false(is_answered(f, TUNING_FIND, ID "x", "HIP"));
        assert_false(is_answered(f, TUNING_PERF, ID, "HIP"));
        assert_true(is_answered(f, TUNING_PERF, ID, ""));
        assert_true(is_answered(f, TUNING_FIND, ID, ""));
        assert_false(is_answered(f, TUNING_FIND, "", "HIP"));
        assert_false(is_answered(f, TUNING_PERF, "", ""));
    }
}

TEST_F(users, alternating_look_ups_use_the_right_database)
{
    tuning_import_system(f);
    for (int i = 0; i < 2; i++) {
        assert_true(is_answered(f, TUNING_FIND, "gfx906_60", "HIP"));
        assert_true(tuning_finds(f, &f->ann, WINOGRAD ";" GEMM));
        assert_true(is_answered(f, TUNING_FIND, ID, "OpenCL"));
        assert_true(tuning_finds(f, &f->bob, WINOGRAD ";" GEMM));
    }
}

TEST_F(users, an_invalid_problem_of_a_batch_is_answered_at_its_index)
{
    uint8_t problems[PROBLEM_WIRE_SIZE] = { 0 };
    const struct message_tuning_get m = { .database_id = bytes_of_text(ID),
                                          .count = 1,
                                          .problems = bytes_of(problems, sizeof(problems)) };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 4096);
    message_tuning_get_write(&body, &m);
    test_caller_send(&f->ann, MESSAGE_tuning_get, 4, buffer_view(&body));
    struct reader r = reader_of(f->ann.replies[f->ann.reply_count - 1].body);
    struct message_tuned tuned = message_tuned_read(&r);
    struct reader answers = reader_of(tuned.answers);
    struct message_tuning_answer answer = message_tuning_answer_read(&answers);
    assert_int_equal(answer.code, KILN_INVALID);
    assert_true(answer.text.size > 0);
}

TEST_F(users, tuning_requests_of_the_wrong_size_are_refused)
{
    static const enum message_type types[] = { MESSAGE_tuning_get, MESSAGE_tuning_put,
                                               MESSAGE_tuning_lease, MESSAGE_tuning_report };
    uint8_t junk[700];
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        for (size_t size = 0; size < sizeof(junk); size += 13) {
            memset(junk, size % 2 ? 0xff : 0, sizeof(junk));
            test_caller_forget_replies(&f->ann);
            test_caller_send(&f->ann, types[i], 4, bytes_of(junk, size));
            assert_int_equal(f->ann.replies[0].type, MESSAGE_error);
        }
    }
}

/* ---- the queue ---- */

TEST_F(users, a_queued_put_of_a_client_that_left_records_nothing)
{
    struct put first = find_put("First", 1), second = find_put("Second", 1);
    tuning_send_put(f, &f->bob, &first, false);
    tuning_send_put(f, &f->ann, &second, false);
    test_caller_cancel(&f->ann, 6);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_CANCELLED);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).code, KILN_NOT_FOUND);
    assert_int_equal(tuning_ask(f, &f->bob, 0, 0, 1).code, KILN_OK);
}

TEST_F(users, a_running_put_continues_when_its_client_leaves)
{
    struct put put = find_put("First", 1);
    tuning_send_put(f, &f->ann, &put, false);
    test_caller_cancel(&f->ann, 6);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).code, KILN_OK);
}

TEST_F(users, one_user_cannot_fill_the_tuning_queue)
{
    struct put put = find_put("Mine", 1);
    for (unsigned i = 0; i < 64; i++) {
        tuning_send_put(f, &f->ann, &put, false);
        assert_int_equal(f->ann.reply_count, 0);
    }
    tuning_send_put(f, &f->ann, &put, false);
    assert_reply_refuses(&f->ann, 0, KILN_BUSY, "64");
    test_caller_forget_replies(&f->ann);
    tuning_send_put(f, &f->bob, &put, false);
    assert_int_equal(f->bob.reply_count, 0);
    /* Ann leaves, because a test_caller cannot store as many replies as she would get. */
    test_caller_leave(&f->ann);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->bob.replies[0].type, MESSAGE_recorded);
}

TEST_F(users, changes_run_one_at_a_time_and_in_order_on_the_tuning_work_queue)
{
    struct put put = find_put("Mine", 1);
    unsigned before = f->engine.executor.tasks_of[WORK_QUEUE_TUNING];
    tuning_send_put(f, &f->ann, &put, false);
    tuning_send_put(f, &f->bob, &put, false);
    assert_int_equal(f->engine.executor.tasks_of[WORK_QUEUE_TUNING], before + 1);
    assert_true(fake_executor_run_task(&f->engine.executor));
    assert_true(fake_executor_run_task(&f->engine.executor));
    assert_int_equal(f->ann.replies[0].type, MESSAGE_recorded);
    assert_int_equal(f->bob.reply_count, 0);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->bob.replies[0].type, MESSAGE_recorded);
}

TEST_F(users, a_stopping_daemon_ends_the_running_put_and_rejects_the_others)
{
    struct put put = find_put("Mine", 1);
    tuning_send_put(f, &f->ann, &put, false);
    tuning_send_put(f, &f->bob, &put, false);
    engine_drain(f->engine.engine);
    assert_reply_refuses(&f->bob, 0, KILN_UNAVAILABLE, "stopping");
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.replies[0].type, MESSAGE_recorded);
    tuning_send_put(f, &f->ann, &put, false);
    assert_reply_refuses(&f->ann, 0, KILN_UNAVAILABLE, "stopping");
}

TEST_F(users, a_users_records_are_limited)
{
    f->engine.options.tuning_records_per_uid = 1;
    users_reopen(f);
    struct put put = find_put("Mine", 1);
    tuning_put(f, &f->ann, &put);
    put.m.problem.n = 2;
    tuning_send_put(f, &f->ann, &put, true);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_FULL);
    tuning_put(f, &f->bob, &put);
}

/* ---- without tuning.db ---- */

/* Puts a file in place of the state directory's parent. Then, not even root can create the state
 * directory. */
static void block_directory(struct users *f)
{
    snprintf(f->file, sizeof(f->file), "%s/blocked", f->engine.directory);
    f->engine.options.state_directory = test_path(f->engine.directory, "blocked/state");
    tuning_write(f, "");
}

TEST_F(users, without_a_state_directory_only_tuning_fails)
{
    block_directory(f);
    users_reopen(f);
    assert_null(f->engine.engine->tuning->databases);
    struct put put = find_put("Mine", 1);
    tuning_send_put(f, &f->ann, &put, true);
    assert_reply_refuses(&f->ann, 0, KILN_UNAVAILABLE, "blocked");
    KILN_AUTO(json)
    struct json *status = test_caller_ask(&f->ann, MESSAGE_status, NULL);
    const struct json *tuning = json_get(status, "tuning");
    assert_false(json_get_bool(tuning, "available", true));
    assert_says(json_get_text(tuning, "trouble", ""), "blocked");
    assert_non_null(engine_fixture_reported(&f->engine, "tuning_unavailable"));
}

TEST_F(users, tuning_opens_without_a_restart_once_its_directory_can_be_made)
{
    block_directory(f);
    users_reopen(f);
    assert_int_equal(unlink(f->file), 0);
    engine_tick(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);
    /* The engine has not tried again. It would do so only after ten seconds. */
    assert_null(f->engine.engine->tuning->databases);
    f->engine.engine->tuning->retry_ns = 0;
    engine_tick(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);
    struct put put = find_put("Mine", 1);
    tuning_put(f, &f->ann, &put);
}

TEST_F(users, an_invalid_solver_name_is_refused_in_a_perf_record)
{
    struct put put = perf_put("Conv A", "1,2", 1);
    assert_refused(f, &put, "'Conv A'");
    assert_int_equal(tuning_ask(f, &f->ann, 1, 0, 1).code, KILN_NOT_FOUND);
}

TEST_F(users, an_unknown_backend_is_refused)
{
    struct put put = find_put("Mine", 1);
    put.m.backend = bytes_of_text("Metal");
    assert_refused(f, &put, "'Metal'");
    put.m.backend = bytes_of_text("OpenCL");
    tuning_put(f, &f->ann, &put);
}

TEST_F(users, a_backend_that_contradicts_the_device_is_refused)
{
    struct put put = find_put("Mine", 1);
    put.m.backend = bytes_of_text("CUDA");
    assert_refused(f, &put, "'CUDA'");
    put.m.database_id = bytes_of_text("sm_90_132");
    put.m.backend = bytes_of_text("HIP");
    assert_refused(f, &put, "'HIP'");
    put.m.database_id = bytes_of_text("opencl_1a2b3c4d");
    put.m.backend = bytes_of_text("CUDA");
    assert_refused(f, &put, "'CUDA'");
}

static bool note_backend(void *context, const struct tuning_held *held)
{
    snprintf(context, 16, "%s", held->place.backend);
    return true;
}

TEST_F(users, a_put_without_a_backend_uses_the_devices)
{
    static const struct {
        const char *id, *backend;
    } ways[] = { { "gfx906_60", "HIP" }, { "sm_90_132", "CUDA" }, { "opencl_1a2b3c4d", "OpenCL" } };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const struct tuning_selection of_device = { .database_id = ways[i].id };
        char backend[16] = "";
        struct tuning_walk walk = { .selection = &of_device,
                                    .each = note_backend,
                                    .context = backend };
        struct put put = find_put("Mine", 1);
        put.m.database_id = bytes_of_text(ways[i].id);
        put.m.backend = bytes_of_text("");
        tuning_put(f, &f->ann, &put);
        tuning_walk_step(f->engine.engine->tuning->databases, &walk, UINT64_MAX);
        assert_string_equal(backend, ways[i].backend);
    }
}

/* ---- repeated puts ---- */

static uint32_t samples_of_mine(struct users *f)
{
    struct message_tuning_answer mine = tuning_ask(f, &f->ann, 0, TUNING_MEASUREMENTS, 1);
    assert_int_equal(mine.measurement_count, 1);
    struct reader r = reader_of(mine.measurements);
    return message_tuning_measurement_read(&r).samples;
}

TEST_F(users, a_repeated_put_counts_once)
{
    struct put put = find_put("Mine", 0.03);
    put.m.token = bytes_of_text("sixteen letters!");
    tuning_put(f, &f->ann, &put);

    put.entry.median_ms = double_bits(0.0301); /* ignored, because the token is known */
    tuning_put(f, &f->ann, &put);

    assert_int_equal(samples_of_mine(f), 5);
    assert_int_equal(users_stat(f, "tuning_puts"), 1);
    put.m.token = bytes_of_text("sixteen letters?");
    tuning_put(f, &f->ann, &put);
    assert_int_equal(samples_of_mine(f), 10);
    put.m.token = bytes_of_text(""); /* a client that does not repeat requests sends no token */
    put.entry.median_ms = double_bits(0.0302);
    tuning_put(f, &f->ann, &put);
    put.entry.median_ms = double_bits(0.0303);
    tuning_put(f, &f->ann, &put);
    assert_int_equal(samples_of_mine(f), 20);
    assert_int_equal(users_stat(f, "tuning_puts"), 4);
}

TEST_F(users, a_put_repeated_after_a_restart_counts_once)
{
    struct put put = find_put("Mine", 0.03);
    put.m.token = bytes_of_text("sixteen letters!");
    tuning_put(f, &f->ann, &put);
    users_reopen(f);
    put.entry.median_ms = double_bits(0.0301);
    tuning_put(f, &f->ann, &put);
    assert_int_equal(samples_of_mine(f), 5);
}

TEST_F(users, a_put_token_of_the_wrong_size_is_refused)
{
    struct put put = find_put("Mine", 1);
    put.m.token = bytes_of_text("short");
    assert_refused(f, &put, "5 bytes");
    put.m.token = bytes_of_text("seventeen letters");
    assert_refused(f, &put, "17 bytes");
}
