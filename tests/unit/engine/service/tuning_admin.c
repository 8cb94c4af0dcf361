/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/tuning_fixture.h"

#include "engine/service/budget.h"
#include "engine/service/internal.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/service/tuning/tuning_view.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- show, stats ---- */

TEST_F(users, show_lists_all_tiers_the_most_private_first)
{
    tuning_import_system(f);
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_show,
                                     "{\"problem\":\"" DRIVER "\",\"database_id\":\"" ID
                                     "\",\"driver\":\"driver 2\"}");
    const struct json *problem = json_first(json_get(a, "problems"));
    const struct json *mine = json_first(json_get(problem, "find"));
    const struct json *entry = json_first(json_get(mine, "entries"));
    assert_string_equal(json_get_text(problem, "find_key", ""), KEY);
    assert_string_equal(json_get_text(mine, "tier", ""), "user");
    assert_int_equal(answer_number(mine, "uid"), 1000);
    assert_string_equal(json_get_text(entry, "solver", ""), "Mine");
    assert_true(json_get_bool(entry, "stale", false));
    assert_int_equal(answer_number(entry, "samples"), 5);
    assert_string_equal(json_get_text(json_next(mine), "tier", ""), "system");
    assert_int_equal(json_count(json_get(json_next(mine), "entries")), 2);
}

TEST_F(users, another_users_records_are_not_shown)
{
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    KILN_AUTO(json)
    struct json *a =
        test_caller_ask(&f->bob, MESSAGE_tuning_show,
                        "{\"problem\":\"" KEY "\",\"database_id\":\"" ID "\",\"nearest\":true}");
    const struct json *problem = json_first(json_get(a, "problems"));
    assert_int_equal(json_count(json_get(problem, "find")), 0);
}

TEST_F(users, show_has_the_nearest_record_of_an_unknown_problem)
{
    tuning_import_system(f);
    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->bob, MESSAGE_tuning_show,
                                     "{\"problem\":\"" KEY_OF_TWO "\",\"database_id\":\"" ID
                                     "\",\"nearest\":true}");
    const struct json *near = json_first(json_get(json_first(json_get(a, "problems")), "find"));
    assert_true(json_get_bool(near, "near", false));
    assert_true(json_get_number(near, "batch_ratio", 0) == 2);
    assert_string_equal(json_get_text(near, "key", ""), KEY);
}

TEST_F(users, show_refuses_an_invalid_problem_and_a_missing_device)
{
    test_caller_refused(&f->ann, MESSAGE_tuning_show, "{\"database_id\":\"" ID "\"}", KILN_INVALID,
                        "");
    test_caller_refused(&f->ann, MESSAGE_tuning_show,
                        "{\"problem\":\"hello\",\"database_id\":\"" ID "\"}", KILN_INVALID, "");
    test_caller_refused(&f->ann, MESSAGE_tuning_show, "{\"problem\":\"" KEY "\"}", KILN_INVALID,
                        "database id");
}

TEST(users, tuning_stats_count_databases_and_records)
{
    struct users *f = *state;
    tuning_import_system(f);
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    KILN_AUTO(json) struct json *a = test_caller_ask(&f->bob, MESSAGE_tuning_stats, "{}");
    const struct json *system = json_first(json_get(a, "system"));
    assert_string_equal(json_get_text(system, "state", ""), "ok");
    assert_string_equal(json_get_text(system, "source", ""), FIND_FILE);
    assert_int_equal(answer_number(json_get(a, "user"), "records"), 1);
    assert_int_equal(answer_number(json_get(a, "user"), "own"), 0);
    assert_string_equal(json_get_text(a, "policy", ""), "warn");
}

/* ---- promote, remove ---- */

TEST_F(users, only_administrators_promote_records_to_all_users)
{
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    test_caller_refused(&f->ann, MESSAGE_tuning_promote, "{}", KILN_DENIED, "administrator");
    test_caller_refused(&f->publisher, MESSAGE_tuning_promote, "{}", KILN_DENIED, "administrator");
    KILN_AUTO(json)
    struct json *none = test_caller_ask(&f->admin, MESSAGE_tuning_promote, "{\"uid\":1001}");
    assert_int_equal(answer_number(none, "records"), 0);
    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->admin, MESSAGE_tuning_promote,
                                     "{\"uid\":1000,\"problem\":\"" DRIVER "\"}");
    assert_int_equal(answer_number(a, "added"), 1);
    assert_int_equal(tuning_ask(f, &f->bob, 0, 0, 1).tier, 2);
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).tier, 3);
}

TEST_F(users, one_users_claim_is_promoted_only_for_a_named_user_and_can_be_undone)
{
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);

    KILN_AUTO(json) struct json *held = test_caller_ask(&f->admin, MESSAGE_tuning_promote, "{}");
    assert_int_equal(answer_number(held, "held"), 1);
    assert_int_equal(answer_number(held, "added"), 0);
    assert_int_equal(tuning_ask(f, &f->bob, 0, 0, 1).code, KILN_NOT_FOUND);
    KILN_AUTO(json)
    struct json *dry =
        test_caller_ask(&f->admin, MESSAGE_tuning_promote, "{\"uid\":1000,\"dry_run\":true}");
    assert_int_equal(answer_number(dry, "added"), 1);
    assert_int_equal(tuning_ask(f, &f->bob, 0, 0, 1).code, KILN_NOT_FOUND);

    tuning_put(f, &f->bob, &put);
    KILN_AUTO(json) struct json *both = test_caller_ask(&f->admin, MESSAGE_tuning_promote, "{}");
    assert_int_equal(answer_number(both, "held"), 0);
    KILN_AUTO(json)
    struct json *undone = test_caller_ask(&f->admin, MESSAGE_tuning_promote, "{\"undo\":true}");
    assert_int_equal(answer_number(undone, "removed"), 1);
    test_caller_refused(&f->admin, MESSAGE_tuning_promote, "{\"undo\":true}", KILN_NOT_FOUND,
                        "undo");
    test_caller_refused(&f->admin, MESSAGE_tuning_promote, "{\"undo\":true,\"uid\":1000}",
                        KILN_INVALID, "undo");
}

TEST_F(users, a_problem_is_promoted_in_both_kinds_or_in_none)
{
    struct put find = find_put("Mine", 1), perf = perf_put("Mine", "1,8", 1);
    tuning_put(f, &f->ann, &find);
    tuning_put(f, &f->ann, &perf);
    test_caller_forget_replies(&f->admin);
    test_caller_send(&f->admin, MESSAGE_tuning_promote, 3,
                     bytes_of_text("{\"problem\":\"" DRIVER "\",\"uid\":1000}"));
    assert_true(fake_executor_run_task(&f->engine.executor));
    /* engine_drain prevents a second step, so the first step must make the whole change */
    engine_drain(f->engine.engine);
    fake_executor_run_tasks(&f->engine.executor);

    KILN_AUTO(json) struct json *a = reply_json(&f->admin, f->admin.reply_count - 1);
    assert_int_equal(answer_number(a, "added"), 2);
    users_reopen(f);
    assert_int_equal(tuning_ask(f, &f->bob, 0, 0, 1).tier, 2);
    assert_int_equal(tuning_ask(f, &f->bob, 1, 0, 1).tier, 2);
}

TEST_F(users, users_remove_only_their_own_records)
{
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    tuning_put(f, &f->bob, &put);
    test_caller_refused(&f->ann, MESSAGE_tuning_remove,
                        "{\"tier\":\"user\",\"all\":true,\"uid\":1001}", KILN_DENIED,
                        "another user's");
    KILN_AUTO(json)
    struct json *a =
        test_caller_ask(&f->ann, MESSAGE_tuning_remove, "{\"tier\":\"user\",\"all\":true}");
    assert_int_equal(answer_number(a, "removed"), 1);
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).code, KILN_NOT_FOUND);
    assert_int_equal(tuning_ask(f, &f->bob, 0, 0, 1).code, KILN_OK);
    json_destroy(test_caller_ask(&f->admin, MESSAGE_tuning_remove,
                                 "{\"tier\":\"user\",\"all\":true,\"uid\":1001}"));
    assert_int_equal(tuning_ask(f, &f->bob, 0, 0, 1).code, KILN_NOT_FOUND);
}

TEST_F(users, an_administrator_who_names_no_user_removes_their_own_records)
{
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    json_destroy(
        test_caller_ask(&f->admin, MESSAGE_tuning_remove, "{\"tier\":\"user\",\"all\":true}"));
    assert_int_equal(tuning_ask(f, &f->ann, 0, 0, 1).code, KILN_OK);
}

TEST_F(users, one_solver_of_one_problem_is_removed_and_the_rest_stays)
{
    struct put mine = find_put("Mine", 0.03), other = find_put("Other", 0.04);
    tuning_put(f, &f->ann, &mine);
    tuning_put(f, &f->ann, &other);
    KILN_AUTO(json)
    struct json *a =
        test_caller_ask(&f->ann, MESSAGE_tuning_remove,
                        "{\"tier\":\"user\",\"problem\":\"" KEY "\",\"solver\":\"Mine\"}");
    assert_int_equal(answer_number(a, "replaced"), 1);
    assert_true(tuning_finds(f, &f->ann, "Other:0.04,128,miopenConvolutionFwdAlgoDirect"));
}

TEST_F(users, shared_records_are_removed_by_publishers_only)
{
    const char *system = "{\"tier\":\"system\",\"kind\":\"find\",\"database_id\":\"" ID "\"}";
    tuning_import_system(f);
    test_caller_refused(&f->ann, MESSAGE_tuning_remove, system, KILN_DENIED, "--tier user");
    test_caller_refused(&f->ann, MESSAGE_tuning_remove, "{\"tier\":\"host\",\"all\":true}",
                        KILN_DENIED, "");
    assert_int_equal(tuning_ask(f, &f->bob, 0, 0, 1).code, KILN_OK);
    json_destroy(test_caller_ask(&f->publisher, MESSAGE_tuning_remove, system));
    assert_int_equal(tuning_ask(f, &f->bob, 0, 0, 1).code, KILN_NOT_FOUND);
    test_caller_refused(&f->publisher, MESSAGE_tuning_remove, system, KILN_NOT_FOUND,
                        "kilnctl db stats");
}

TEST_F(users, a_remove_request_must_name_records)
{
    test_caller_refused(&f->ann, MESSAGE_tuning_remove, "{}", KILN_INVALID, "tier");
    test_caller_refused(&f->ann, MESSAGE_tuning_remove, "{\"tier\":\"user\"}", KILN_INVALID,
                        "'all'");
    test_caller_refused(&f->admin, MESSAGE_tuning_remove, "{\"tier\":\"system\"}", KILN_INVALID,
                        "database id");
    test_caller_refused(&f->admin, MESSAGE_tuning_remove,
                        "{\"tier\":\"system\",\"kind\":\"find\",\"database_id\":\"" ID
                        "\",\"solver\":\"x\"}",
                        KILN_INVALID, "whole");
}

/* ---- verify ---- */

TEST_F(users, verify_lists_records_of_another_driver)
{
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    KILN_AUTO(json)
    struct json *fine =
        test_caller_ask(&f->ann, MESSAGE_tuning_verify, "{\"driver\":\"driver 1\"}");
    assert_int_equal(answer_number(fine, "stale"), 0);
    assert_int_equal(answer_number(fine, "checked"), 1);
    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_verify, "{\"driver\":\"driver 2\"}");
    assert_int_equal(answer_number(a, "stale"), 1);
    KILN_AUTO(json) struct json *frame = tuning_reported(&f->ann, "stale");
    const struct json *stale = json_first(json_get(frame, "stale"));
    assert_string_equal(json_get_text(stale, "key", ""), KEY);
    assert_string_equal(json_get_text(stale, "solver", ""), "Mine");
    assert_string_equal(json_get_text(stale, "driver", ""), "driver 1");
    assert_int_equal(answer_number(stale, "uid"), 1000);
}

TEST_F(users, verify_checks_the_file_only_for_administrators)
{
    KILN_AUTO(json) struct json *anns = test_caller_ask(&f->ann, MESSAGE_tuning_verify, "{}");
    assert_false(json_get_bool(anns, "tuning_db_checked", true));
    KILN_AUTO(json) struct json *all = test_caller_ask(&f->admin, MESSAGE_tuning_verify, "{}");
    assert_true(json_get_bool(all, "tuning_db_checked", false));
}

TEST_F(users, verify_names_the_user_who_measured_a_host_record)
{
    struct put put = find_put("Mine", 0.03);
    put.m.tier = 2;
    tuning_put(f, &f->publisher, &put);
    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_verify, "{\"driver\":\"driver 2\"}");
    assert_int_equal(answer_number(a, "stale"), 1);
    KILN_AUTO(json) struct json *frame = tuning_reported(&f->ann, "stale");
    const struct json *stale = json_first(json_get(frame, "stale"));
    assert_string_equal(json_get_text(stale, "tier", ""), "host");
    assert_int_equal(answer_number(stale, "uid"), 1002);
}

TEST_F(users, verify_does_not_show_another_users_records)
{
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    KILN_AUTO(json)
    struct json *others =
        test_caller_ask(&f->bob, MESSAGE_tuning_verify, "{\"driver\":\"driver 2\"}");
    assert_int_equal(answer_number(others, "checked"), 0);
    KILN_AUTO(json)
    struct json *all =
        test_caller_ask(&f->admin, MESSAGE_tuning_verify, "{\"driver\":\"driver 2\"}");
    assert_int_equal(answer_number(all, "stale"), 1);
}

TEST_F(users, verify_without_a_driver_uses_the_devices_newest_measurement)
{
    struct put old = find_put("Old", 0.03), other = find_put("OtherDevice", 0.03);
    other.m.device = bytes_of_text("gfx906");
    other.m.driver = bytes_of_text("driver 0");
    tuning_put(f, &f->ann, &other);
    tuning_put(f, &f->ann, &old);
    KILN_AUTO(json) struct json *fine = test_caller_ask(&f->ann, MESSAGE_tuning_verify, "{}");
    assert_int_equal(answer_number(fine, "stale"), 0);
    struct put newer = find_put("New", 0.03);
    newer.m.driver = bytes_of_text("driver 2");
    tuning_put(f, &f->ann, &newer);
    KILN_AUTO(json) struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_verify, "{}");
    assert_int_equal(answer_number(a, "stale"), 1);
}

static bool note_index(void *context, const struct tuning_system *system)
{
    snprintf(context, 128, "%.60s", system->file->index_file);
    return false;
}

static void damage_index(struct users *f)
{
    char name[128] = "", path[256];
    tuning_each_system(tuning_databases(f->engine.engine), note_index, name);
    snprintf(path, sizeof(path), "%s/%s", f->engine.state, name);
    KILN_AUTO(fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    off_t size = lseek(fd, 0, SEEK_END);
    assert_int_equal(pwrite(fd, "XXXX", 4, size / 2), 4);
}

TEST_F(users, verify_reports_an_index_whose_bytes_changed)
{
    tuning_import_system(f);
    damage_index(f);
    KILN_AUTO(json) struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_verify, "{}");
    assert_int_equal(answer_number(a, "damaged"), 1);
    KILN_AUTO(json) struct json *frame = tuning_reported(&f->ann, "damaged");
    assert_says(json_get_text(json_first(json_get(frame, "damaged")), "what", ""), ID);
}

TEST(users, verify_does_not_count_a_database_it_cannot_open)
{
    struct users *f = *state;
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    tuning_import_system(f);
    KILN_AUTO(json) struct json *fine = test_caller_ask(&f->ann, MESSAGE_tuning_verify, "{}");
    assert_int_equal(answer_number(fine, "checked"), 2);
    assert_null(json_get(fine, "unchecked"));
    char name[128] = "", path[256];
    tuning_each_system(tuning_databases(f->engine.engine), note_index, name);
    snprintf(path, sizeof(path), "%s/%s", f->engine.state, name);
    assert_int_equal(unlink(path), 0);
    users_reopen(f);

    KILN_AUTO(json) struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_verify, "{}");

    assert_int_equal(answer_number(a, "checked"), 1);
    assert_int_equal(answer_number(a, "unchecked"), 1);
    assert_int_equal(answer_number(a, "damaged"), 1);
}

/* ---- diff ---- */

#define DIFF "{\"kind\":\"find\",\"database_id\":\"" ID "\","

TEST_F(users, two_tiers_are_compared_entry_by_entry)
{
    json_destroy(
        tuning_import(f, &f->admin, SYSTEM_QUESTION, FIND_FILE, KEY "=" WINOGRAD ";" GEMM "\n"));
    json_destroy(tuning_import(
        f, &f->ann, USER_QUESTION, FIND_FILE,
        KEY "=GemmFwd1x1_0_1:0.08,0,miopenConvolutionFwdAlgoGEMM\n" KEY_OF_TWO "=" GEMM "\n"));
    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_diff,
                                     DIFF "\"a_tier\":\"system\",\"b_tier\":\"user\"}");
    assert_int_equal(answer_number(a, "a_records"), 1);
    assert_int_equal(answer_number(a, "b_records"), 2);
    assert_int_equal(answer_number(a, "different"), 1);
    assert_int_equal(answer_number(a, "only_b"), 1);
    KILN_AUTO(json) struct json *frame = tuning_reported(&f->ann, "differences");
    const struct json *d = json_first(json_get(frame, "differences"));
    assert_string_equal(json_get_text(d, "what", ""), "only a");
    d = json_next(d);
    assert_string_equal(json_get_text(d, "what", ""), "time");
    assert_string_equal(json_get_text(d, "a", ""), "0.07,0,miopenConvolutionFwdAlgoGEMM");
    assert_string_equal(json_get_text(json_next(d), "what", ""), "only b");
}

TEST_F(users, a_tier_and_a_file_are_compared)
{
    tuning_import_system(f);
    tuning_write(f, KEY "=" WINOGRAD ";" GEMM "\n");
    tuning_send_file(f, &f->ann, MESSAGE_tuning_diff,
                     DIFF "\"a_tier\":\"system\",\"b_name\":\"mine.txt\"}", "mine.txt");
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json) struct json *a = reply_json(&f->ann, f->ann.reply_count - 1);
    assert_int_equal(answer_number(a, "same"), 1);
    assert_int_equal(answer_number(a, "different"), 0);
}

TEST_F(users, two_files_are_compared)
{
    tuning_write(f, MINE);
    const int files[] = { open(f->file, O_RDONLY | O_CLOEXEC),
                          open(f->file, O_RDONLY | O_CLOEXEC) };
    test_caller_send_files(&f->ann, MESSAGE_tuning_diff, DIFF "\"a_name\":\"a\",\"b_name\":\"b\"}",
                           files, 2);
    fake_executor_transfer(&f->engine.executor, f->file, "a", "");
    assert_string_equal(fake_executor_next_transfer(&f->engine.executor)->job.name, "b");
    tuning_write(f, KEY_OF_TWO "=" GEMM "\n");
    fake_executor_transfer(&f->engine.executor, f->file, "b", "");
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json) struct json *a = reply_json(&f->ann, f->ann.reply_count - 1);
    assert_int_equal(answer_number(a, "only_a"), 1);
    assert_int_equal(answer_number(a, "only_b"), 1);
    static const char brought[] =
        "kiln_remote_requests_total{tier=\"tuning\",op=\"copy\",result=\"ok\"}";
    assert_int_equal(test_caller_metric(&f->ann, brought), 2);
}

static void write_blank_lines(struct users *f, size_t size)
{
    KILN_AUTO(mem) char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, '\n', size);
    text[size] = '\0';
    tuning_write(f, text);
}

TEST(users, tiers_that_are_compared_are_charged_to_their_reader)
{
    static const char question[] = DIFF "\"a_tier\":\"user\",\"b_tier\":\"host\"}";
    struct users *f = *state;
    struct put put = find_put("Mine", 1);
    tuning_put(f, &f->ann, &put);
    budget_set_limits(f->engine.engine->budget, 64u << 20, 12u << 10);
    test_caller_forget_replies(&f->ann);
    test_caller_send(&f->ann, MESSAGE_tuning_diff, 3, bytes_of_text(question));
    fake_executor_run_tasks(&f->engine.executor);
    assert_reply_refuses(&f->ann, f->ann.reply_count - 1, KILN_BUSY, "queue_bytes_per_uid");
    assert_int_equal(budget_taken(f->engine.engine->budget), 0);
}

TEST(users, a_tuning_file_is_charged_to_its_user_before_it_is_read)
{
    static const char diff[] = DIFF "\"a_tier\":\"user\",\"b_name\":\"mine.txt\"}";
    struct users *f = *state;
    /* The user's limit is 16 MiB. A file that is compared counts twice, so 9 MiB are too much. */
    for (unsigned i = 0; i < 2; i++) {
        write_blank_lines(f, 9u << 20);
        tuning_send_file(f, &f->ann, MESSAGE_tuning_diff, diff, "mine.txt");
        fake_executor_run_tasks(&f->engine.executor);
        assert_reply_refuses(&f->ann, 0, KILN_BUSY, "queue_bytes_per_uid");

        tuning_send_file(f, &f->ann, MESSAGE_tuning_import, "{\"name\":\"gfx90a68.HIP.ufdb.txt\"}",
                         "gfx90a68.HIP.ufdb.txt");
        fake_executor_run_tasks(&f->engine.executor);
        json_destroy(reply_json(&f->ann, f->ann.reply_count - 1));

        write_blank_lines(f, 17u << 20);
        tuning_send_file(f, &f->ann, MESSAGE_tuning_import, "{\"name\":\"gfx90a68.HIP.ufdb.txt\"}",
                         "gfx90a68.HIP.ufdb.txt");
        fake_executor_run_tasks(&f->engine.executor);
        assert_reply_refuses(&f->ann, 0, KILN_BUSY, "queue_bytes_per_uid");
    }
    tuning_write(f, MINE);
    tuning_send_file(f, &f->ann, MESSAGE_tuning_diff, diff, "mine.txt");
    fake_executor_run_tasks(&f->engine.executor);
    json_destroy(reply_json(&f->ann, f->ann.reply_count - 1));
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

/* Compares |f->file| with ann's records. She has none. Returns the number of tasks of the
 * comparison. */
static unsigned compare_with_nothing(struct users *f, uint64_t *ret_records)
{
    unsigned before = f->engine.executor.tasks_of[WORK_QUEUE_TUNING];
    tuning_send_file(f, &f->ann, MESSAGE_tuning_diff,
                     DIFF "\"a_tier\":\"user\",\"b_name\":\"mine.txt\"}", "mine.txt");
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(json) struct json *a = reply_json(&f->ann, f->ann.reply_count - 1);
    *ret_records = json_get_u64(a, "b_records", 0);
    assert_int_equal(json_get_u64(a, "only_b", 0), *ret_records);
    return f->engine.executor.tasks_of[WORK_QUEUE_TUNING] - before;
}

TEST(users, a_large_file_is_compared_in_steps)
{
    static const char record[] = KEY "=" GEMM "\n", other[] = KEY_OF_TWO "=" GEMM "\n";
    const size_t blank = 6u << 20;
    struct users *f = *state;
    BUFFER_AUTO struct buffer text;
    uint64_t records = 0;
    tuning_write(f, record);
    unsigned tasks = compare_with_nothing(f, &records);
    assert_int_equal(records, 1);

    buffer_init(&text, 2 * blank);
    buffer_put(&text, record, strlen(record));
    for (size_t i = 0; i < blank; i++)
        buffer_put_u8(&text, '\n');
    buffer_put(&text, record, strlen(record));
    buffer_put(&text, other, sizeof(other));
    tuning_write(f, (const char *)text.data);
    assert_true(compare_with_nothing(f, &records) > tasks);
    assert_int_equal(records, 2);
}

TEST_F(users, a_file_of_too_many_records_is_not_compared)
{
    BUFFER_AUTO struct buffer text;
    char line[64];
    budget_set_limits(f->engine.engine->budget, 1u << 30, 512u << 20);
    buffer_init(&text, 64u << 20);
    for (unsigned i = 0; i <= TUNING_VIEW_RECORDS_MAX; i++) {
        int size = snprintf(line, sizeof(line), "%x=a:b,1,0,a,c\n", i);
        buffer_put(&text, line, (size_t)size);
    }
    buffer_put_u8(&text, '\0');
    tuning_write(f, (const char *)text.data);
    tuning_send_file(f, &f->ann, MESSAGE_tuning_diff,
                     DIFF "\"a_tier\":\"user\",\"b_name\":\"mine.txt\"}", "mine.txt");
    fake_executor_run_tasks(&f->engine.executor);
    assert_reply_refuses(&f->ann, f->ann.reply_count - 1, KILN_FULL, "too many to compare");
}

TEST_F(users, a_comparison_ends_when_its_client_leaves_between_two_files)
{
    tuning_write(f, MINE);
    const int files[] = { open(f->file, O_RDONLY | O_CLOEXEC),
                          open(f->file, O_RDONLY | O_CLOEXEC) };
    test_caller_send_files(&f->ann, MESSAGE_tuning_diff, DIFF "\"a_name\":\"a\",\"b_name\":\"b\"}",
                           files, 2);
    fake_executor_transfer(&f->engine.executor, f->file, "a", "");
    test_caller_cancel(&f->ann, 3);
    fake_executor_transfer_fail(&f->engine.executor, KILN_CANCELLED, "");
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}

TEST_F(users, only_administrators_compare_another_users_records)
{
    struct put put = find_put("Mine", 0.03);
    tuning_put(f, &f->ann, &put);
    const char *q = DIFF "\"a_tier\":\"user\",\"b_tier\":\"host\",\"uid\":1000}";
    test_caller_refused(&f->bob, MESSAGE_tuning_diff, q, KILN_DENIED, "another user's");
    KILN_AUTO(json) struct json *a = test_caller_ask(&f->admin, MESSAGE_tuning_diff, q);
    assert_int_equal(answer_number(a, "only_a"), 1);
}

TEST_F(users, a_comparison_needs_two_sides)
{
    test_caller_refused(&f->ann, MESSAGE_tuning_diff, DIFF "\"a_tier\":\"user\"}", KILN_INVALID,
                        "b_tier");
    test_caller_refused(&f->ann, MESSAGE_tuning_diff, DIFF "\"a_tier\":\"user\",\"b_name\":\"x\"}",
                        KILN_INVALID, "0 files");
    test_caller_refused(&f->ann, MESSAGE_tuning_diff, "{\"a_tier\":\"user\",\"b_tier\":\"host\"}",
                        KILN_INVALID, "database id");
}

TEST_F(users, a_missing_system_database_is_not_compared)
{
    const char *q = DIFF "\"a_tier\":\"system\",\"b_tier\":\"host\"}";
    test_caller_send(&f->ann, MESSAGE_tuning_diff, 3, bytes_of_text(q));
    fake_executor_run_tasks(&f->engine.executor);
    assert_reply_refuses(&f->ann, f->ann.reply_count - 1, KILN_NOT_FOUND, "find database");
}

#define SHOW(problem) "{\"problem\":\"" problem "\",\"database_id\":\"" ID "\"}"
#define SHOW_TO_DRIVER_2 \
    "{\"problem\":\"" KEY "\",\"database_id\":\"" ID "\",\"driver\":\"driver 2\"}"

static const struct json *first_records(const struct json *answer, const char *kind)
{
    return json_first(json_get(json_first(json_get(answer, "problems")), kind));
}

TEST_F(users, show_lists_ignored_records_last_and_counts_them)
{
    struct put stale = find_put("Stale", 0.03), fresh = find_put("Fresh", 0.04);
    fresh.m.tier = 2;
    fresh.m.driver = bytes_of_text("driver 2");
    tuning_put(f, &f->ann, &stale);
    tuning_put(f, &f->publisher, &fresh);
    f->engine.options.tuning_stale = TUNING_IGNORE;
    users_reopen(f);
    assert_true(tuning_finds(f, &f->ann, "Fresh:0.04,128,miopenConvolutionFwdAlgoDirect"));

    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_show, SHOW_TO_DRIVER_2);

    const struct json *host = first_records(a, "find"), *mine = json_next(host);
    assert_string_equal(json_get_text(host, "tier", ""), "host");
    assert_null(json_get(host, "left_out"));
    assert_string_equal(json_get_text(mine, "tier", ""), "user");
    assert_int_equal(answer_number(mine, "left_out"), 1);
    assert_true(json_get_bool(json_first(json_get(mine, "entries")), "left_out", false));
    assert_int_equal(answer_number(a, "left_out"), 1);
    KILN_AUTO(json) struct json *stats = test_caller_ask(&f->ann, MESSAGE_tuning_stats, "{}");
    assert_int_equal(answer_number(stats, "ignored"), 1);
}

/* The first record must be the one with which a look-up would answer: here, that of a near
 * problem. */
TEST_F(users, show_lists_the_nearest_record_before_ignored_ones)
{
    struct put stale = find_put("Stale", 0.03), other = find_put("Other", 0.04);
    tuning_put(f, &f->ann, &stale);
    other.m.problem = problem_of_batch(2);
    other.m.driver = bytes_of_text("driver 2");
    tuning_put(f, &f->ann, &other);
    f->engine.options.tuning_stale = TUNING_IGNORE;
    users_reopen(f);

    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_show,
                                     "{\"problem\":\"" KEY "\",\"database_id\":\"" ID
                                     "\",\"driver\":\"driver 2\",\"nearest\":true}");

    const struct json *near = first_records(a, "find"), *mine = json_next(near);
    assert_true(json_get_bool(near, "near", false));
    assert_string_equal(json_get_text(near, "key", ""), KEY_OF_TWO);
    assert_non_null(mine);
    assert_string_equal(json_get_text(mine, "key", ""), KEY);
    assert_int_equal(answer_number(mine, "left_out"), 1);
    assert_null(json_next(mine));
}

TEST_F(users, show_lists_usable_entries_of_a_record_first)
{
    struct put stale = find_put("Stale", 0.03), fresh = find_put("Fresh", 0.04);
    fresh.m.driver = bytes_of_text("driver 2");
    tuning_put(f, &f->ann, &stale);
    tuning_put(f, &f->ann, &fresh);
    KILN_AUTO(json)
    struct json *warned = test_caller_ask(&f->ann, MESSAGE_tuning_show, SHOW_TO_DRIVER_2);
    const struct json *entry = json_first(json_get(first_records(warned, "find"), "entries"));
    assert_string_equal(json_get_text(entry, "solver", ""), "Stale");
    assert_null(json_get(warned, "left_out"));
    f->engine.options.tuning_stale = TUNING_IGNORE;
    users_reopen(f);

    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_show, SHOW_TO_DRIVER_2);

    entry = json_first(json_get(first_records(a, "find"), "entries"));
    assert_string_equal(json_get_text(entry, "solver", ""), "Fresh");
    assert_null(json_get(entry, "left_out"));
    assert_string_equal(json_get_text(json_next(entry), "solver", ""), "Stale");
    assert_true(json_get_bool(json_next(entry), "left_out", false));
    assert_int_equal(answer_number(a, "left_out"), 1);
}

TEST_F(users, an_unrecorded_problem_is_answered_with_its_keys)
{
    KILN_AUTO(json) struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_show, SHOW(DRIVER));
    const struct json *problem = json_first(json_get(a, "problems"));
    assert_string_equal(json_get_text(problem, "find_key", ""), KEY);
    assert_string_equal(json_get_text(problem, "perf_key", ""),
                        "2x64x56x56x1x1x1x1x64x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF");
    assert_int_equal(json_count(json_get(problem, "find")), 0);
}

/* Stores a record without checking its key, as an older kiln or a damaged file may have done. */
static void put_key(struct users *f, enum tuning_kind kind, const char *key)
{
    struct tuning *tuning = tuning_databases(f->engine.engine);
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    const struct tuning_row row = {
        .place = { .tier = TUNING_TIER_USER,
                   .uid = 1000,
                   .kind = kind,
                   .database_id = ID,
                   .backend = "",
                   .key = bytes_of_text(key) },
        .id = bytes_of_text("Mine"),
        .values = bytes_of_text(kind == TUNING_FIND ? "1,0,miopenConvolutionFwdAlgoGEMM" : "1,2"),
        .measured = { .uid = 1000 },
    };
    must(tuning_job_put(tuning, &row, 1, &job, &f->engine.err), f->engine.err);
    must(tuning_job_work(job, NULL, &f->engine.err), f->engine.err);
    assert_true(tuning_job_take(tuning, job));
}

TEST_F(users, a_verbatim_record_is_shown_by_its_key)
{
    put_key(f, TUNING_FIND, "hello world");
    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_show, SHOW("hello world"));
    const struct json *problem = json_first(json_get(a, "problems"));
    assert_string_equal(json_get_text(problem, "find_key", ""), "hello world");
    assert_int_equal(json_count(json_get(problem, "find")), 1);
    test_caller_refused(&f->bob, MESSAGE_tuning_show, SHOW("hello world"), KILN_INVALID,
                        "'hello world'");
    test_caller_refused(&f->ann, MESSAGE_tuning_show, SHOW("hello"), KILN_INVALID, "MIOpenDriver");
}

TEST_F(users, records_of_miopens_other_parts_are_shown_by_key_and_backend)
{
    static const struct {
        const char *name, *line, *question, *kind, *solver;
    } cases[] = {
        { ID ".HIP.3_2_0_36bb7fd4a.fusion.ufdb.txt", "64, 56FP32c1=ConvBiasActivAsm1x1U:0.2,0,f\n",
          "{\"problem\":\"64, 56FP32c1\",\"database_id\":\"" ID "\",\"backend\":\"HIP.fusion\"}",
          "find", "ConvBiasActivAsm1x1U" },
        { "batchnorm_" ID ".HIP.3_2_0_36bb7fd4a.udb.txt", "2x64xNCHWx1=BnFwdInference:1,0\n",
          "{\"problem\":\"2x64xNCHWx1\",\"database_id\":\"" ID "\",\"backend\":\"batchnorm\"}",
          "perf", "BnFwdInference" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_destroy(tuning_import(f, &f->ann, "{}", cases[i].name, cases[i].line));
        KILN_AUTO(json)
        struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_show, cases[i].question);
        const struct json *record = first_records(a, cases[i].kind);
        assert_string_equal(json_get_text(json_first(json_get(record, "entries")), "solver", ""),
                            cases[i].solver);
    }
}

TEST_F(users, a_verbatim_record_is_removed_by_its_key)
{
    put_key(f, TUNING_FIND, "hello world");
    test_caller_refused(&f->ann, MESSAGE_tuning_remove, "{\"tier\":\"user\",\"problem\":\"hello\"}",
                        KILN_INVALID, "MIOpenDriver");
    /* Bob must not learn that ann has this record. */
    test_caller_refused(&f->bob, MESSAGE_tuning_remove,
                        "{\"tier\":\"user\",\"problem\":\"hello world\"}", KILN_INVALID,
                        "MIOpenDriver");
    KILN_AUTO(json)
    struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_remove,
                                     "{\"tier\":\"user\",\"problem\":\"hello world\"}");
    assert_int_equal(answer_number(a, "removed"), 1);
}

#define MIXED "64-56-56-1x1-64-56-56-1-0x0-1x1-1x1-0-NHWC-NCHW-NCHW-FP32-F"

/* MIXED is a FindDb key, which old text PerfDbs used, too. The layouts of the problem are mixed,
 * and a PerfDb key cannot express that. */
TEST_F(users, a_perf_record_without_a_key_of_its_own_is_shown_under_find_dbs)
{
    put_key(f, TUNING_PERF, MIXED);
    KILN_AUTO(json) struct json *a = test_caller_ask(&f->ann, MESSAGE_tuning_show, SHOW(MIXED));
    assert_string_equal(json_get_text(first_records(a, "perf"), "key", ""), MIXED);
}
