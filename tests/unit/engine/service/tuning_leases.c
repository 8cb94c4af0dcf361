/* SPDX-License-Identifier: MIT */
#include "tests/support/stepped_clock.h"
#include "tests/unit/engine/service/tuning_fixture.h"

#include "engine/service/internal.h"
#include "engine/service/tuning/tuning_service.h"

#include <math.h>
#include <string.h>

#define ANSWERED_TOO 9

static const struct message_tuning_lease wanted = { .candidates = 8,
                                                    .flags = LEASE_SHARE,
                                                    .wait_ms = 60000 };

/* Without LEASE_SHARE, one process gets all candidates, and the others wait. */
static const struct message_tuning_lease exclusive = { .candidates = 4,
                                                       .flags = LEASE_WAIT,
                                                       .wait_ms = 60000 };

static void send_lease(struct test_caller *c, const struct message_tuning_lease *lease)
{
    struct message_tuning_lease m = *lease;
    if (m.problem.n == 0)
        m.problem = problem_of_batch(1);
    if (m.database_id.size == 0)
        m.database_id = bytes_of_text(ID);
    if (m.solver.size == 0)
        m.solver = bytes_of_text("ConvAsm1x1U");
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, tuning_lease, ANSWERED_TOO, &m);
}

static struct message_leased last_leased(const struct test_caller *c)
{
    assert_true(c->reply_count > 0);
    assert_int_equal(c->replies[c->reply_count - 1].type, MESSAGE_leased);
    struct reader r = reader_of(c->replies[c->reply_count - 1].body);
    struct message_leased m = message_leased_read(&r);
    assert_false(r.failed);
    return m;
}

static struct message_leased ask_lease(struct test_caller *c)
{
    send_lease(c, &wanted);
    return last_leased(c);
}

struct measured {
    const char *params;
    double median_ms;
    const char *driver;
};

static void send_report_from(struct test_caller *c, const struct message_leased *share,
                             const struct measured *x)
{
    const struct message_tuning_report m = { .lease = share->lease,
                                             .first = share->first,
                                             .params = bytes_of_text(x->params),
                                             .median_ms = double_bits(x->median_ms),
                                             .spread_ms = double_bits(0.001),
                                             .samples = 3,
                                             .driver = bytes_of_text(x->driver),
                                             .library = bytes_of_text("test") };
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, tuning_report, 10, &m);
}

static void send_report(struct test_caller *c, const struct message_leased *share,
                        const char *params, double median_ms)
{
    send_report_from(c, share, &(struct measured){ params, median_ms, "driver 2" });
}

static struct message_leased report_share(struct users *f, struct test_caller *c,
                                          const struct message_leased *share, const char *params,
                                          double median_ms)
{
    send_report(c, share, params, median_ms);
    fake_executor_run_tasks(&f->engine.executor);
    return last_leased(c);
}

static void join_ann_again(struct users *f, struct test_caller *c)
{
    test_caller_connect(c, &f->engine, 1000, ROLE_USE);
}

TEST(users, the_best_result_of_all_shares_is_recorded)
{
    struct users *f = *state;
    struct message_leased first = ask_lease(&f->ann);
    assert_int_equal(first.state, LEASE_RESULT_GRANTED);
    assert_int_equal(first.count, 4);
    struct message_leased second = report_share(f, &f->ann, &first, "1,2", 0.5);
    assert_int_equal(second.state, LEASE_RESULT_GRANTED);
    assert_int_equal(second.first, 4);
    assert_true(second.best_ms == double_bits(0.5));
    struct message_leased last = report_share(f, &f->ann, &second, "3,4", 0.7);
    assert_int_equal(last.state, LEASE_RESULT_DONE);
    assert_true(bytes_equal_text(last.best_params, "1,2"));
    struct message_tuning_answer answer = tuning_ask(f, &f->ann, 1, TUNING_MEASUREMENTS, 1);
    assert_true(bytes_equal_text(answer.value, "ConvAsm1x1U:1,2"));
    assert_int_equal(answer.tier, 3);
    assert_int_equal(answer.measurement_count, 1);
    assert_int_equal(lease_count(tuning_leases(f->engine.engine)), 0);
}

TEST(users, a_tuned_record_names_the_driver_of_the_best_result)
{
    struct users *f = *state;
    struct message_leased first = ask_lease(&f->ann);
    send_report_from(&f->ann, &first, &(struct measured){ "1,2", 0.5, "driver 1" });
    struct message_leased second = last_leased(&f->ann);
    send_report_from(&f->ann, &second, &(struct measured){ "3,4", 0.7, "driver 2" });
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(last_leased(&f->ann).state, LEASE_RESULT_DONE);

    struct message_tuning_answer answer = tuning_ask(f, &f->ann, 1, TUNING_MEASUREMENTS, 1);

    struct reader r = reader_of(answer.measurements);
    struct message_tuning_measurement m = message_tuning_measurement_read(&r);
    assert_true(bytes_equal_text(m.driver, "driver 1"));
    assert_true(m.median_ms == double_bits(0.5));
    assert_int_equal(m.uid, 1000);
}

TEST(users, a_second_report_of_one_share_is_answered_with_the_next_share)
{
    struct users *f = *state;
    struct message_leased one = ask_lease(&f->ann), other = ask_lease(&f->ann);
    assert_int_equal(other.first, one.first);
    struct message_leased next = report_share(f, &f->ann, &one, "1,2", 0.5);
    assert_int_equal(next.first, 4);
    struct message_leased again = report_share(f, &f->ann, &other, "7,7", 0.1);
    assert_int_equal(again.state, LEASE_RESULT_GRANTED);
    assert_int_equal(again.first, 4);
    assert_true(bytes_equal_text(again.best_params, "1,2"));
    assert_int_equal(tuning_ask(f, &f->ann, 1, 0, 1).code, KILN_NOT_FOUND);
    assert_int_equal(report_share(f, &f->ann, &next, "3,4", 0.7).state, LEASE_RESULT_DONE);
}

TEST(users, a_third_process_gets_taken)
{
    struct users *f = *state;
    struct test_caller rank, third;
    join_ann_again(f, &rank);
    join_ann_again(f, &third);
    struct message_leased a = ask_lease(&f->ann), b = ask_lease(&rank), c = ask_lease(&third);
    assert_int_equal(a.first, 0);
    assert_int_equal(b.state, LEASE_RESULT_GRANTED);
    assert_int_equal(b.first, 4);
    assert_int_equal(b.lease, a.lease);
    assert_int_equal(c.state, LEASE_RESULT_TAKEN);
    assert_int_equal(c.lease, 0);
    test_caller_leave(&rank);
    test_caller_leave(&third);
}

TEST(users, leases_of_users_are_separate)
{
    struct users *f = *state;
    struct message_leased a = ask_lease(&f->ann), b = ask_lease(&f->bob);
    assert_int_equal(b.state, LEASE_RESULT_GRANTED);
    assert_int_equal(b.first, 0);
    assert_true(a.lease != b.lease);
    send_report(&f->bob, &a, "9,9", 0.001);
    assert_reply_refuses(&f->bob, 0, KILN_NOT_FOUND, "lease");
    assert_int_equal(tuning_ask(f, &f->ann, 1, 0, 1).code, KILN_NOT_FOUND);
}

TEST(users, a_lease_waiter_is_answered_once_the_record_is_there)
{
    struct users *f = *state;
    struct test_caller rank;
    join_ann_again(f, &rank);
    const struct message_tuning_lease whole = { .candidates = 0 };
    const struct message_tuning_lease waits = { .flags = LEASE_WAIT, .wait_ms = 60000 };
    send_lease(&f->ann, &whole);
    struct message_leased mine = last_leased(&f->ann);
    send_lease(&rank, &waits);
    assert_int_equal(rank.reply_count, 0);
    send_report(&f->ann, &mine, "1,2", 0.5);
    assert_int_equal(rank.reply_count, 0);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(last_leased(&rank).state, LEASE_RESULT_DONE);
    assert_int_equal(tuning_ask(f, &rank, 1, 0, 1).code, KILN_OK);
    test_caller_leave(&rank);
}

TEST(users, a_lease_request_while_the_best_is_written_starts_no_new_tuning)
{
    struct users *f = *state;
    struct test_caller rank;
    join_ann_again(f, &rank);
    const struct message_tuning_lease whole = { .candidates = 0 };
    const struct message_tuning_lease waits = { .flags = LEASE_WAIT, .wait_ms = 60000 };
    send_lease(&f->ann, &whole);
    struct message_leased mine = last_leased(&f->ann);
    send_report(&f->ann, &mine, "1,2", 0.5);
    send_lease(&rank, &waits);
    assert_int_equal(rank.reply_count, 0);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(last_leased(&rank).state, LEASE_RESULT_DONE);
    test_caller_leave(&rank);
}

TEST(users, a_dead_processs_share_goes_to_a_waiting_one)
{
    struct users *f = *state;
    struct test_caller first, second;
    join_ann_again(f, &first);
    join_ann_again(f, &second);
    const struct message_tuning_lease waits = { .candidates = 4,
                                                .flags = LEASE_SHARE | LEASE_WAIT,
                                                .wait_ms = 60000 };
    send_lease(&first, &waits);
    struct message_leased held = last_leased(&first);
    send_lease(&second, &waits);
    assert_int_equal(second.reply_count, 0);
    test_caller_leave(&first);
    struct message_leased got = last_leased(&second);
    assert_int_equal(got.state, LEASE_RESULT_GRANTED);
    assert_int_equal(got.first, held.first);
    assert_int_equal(got.count, held.count);
    test_caller_leave(&second);
    assert_int_equal(lease_count(tuning_leases(f->engine.engine)), 0);
}

TEST(users, a_lease_waiter_gets_the_state_at_its_timeout)
{
    struct users *f = *state;
    struct test_caller rank;
    join_ann_again(f, &rank);
    const struct message_tuning_lease waits = { .candidates = 4,
                                                .flags = LEASE_SHARE | LEASE_WAIT,
                                                .wait_ms = 1 };
    send_lease(&f->ann, &waits);
    send_lease(&rank, &waits);
    engine_tick(f->engine.engine);
    assert_int_equal(rank.reply_count, 0);
    step_clock(1000000);
    engine_tick(f->engine.engine);
    step_clock(1);
    assert_int_equal(last_leased(&rank).state, LEASE_RESULT_TAKEN);
    test_caller_leave(&rank);
}

TEST_F(users, a_waiting_lease_request_can_be_cancelled)
{
    struct test_caller rank;
    join_ann_again(f, &rank);
    send_lease(&f->ann, &exclusive);
    send_lease(&rank, &exclusive);
    test_caller_cancel(&rank, ANSWERED_TOO);
    assert_int_equal(reply_error(&rank, 0).code, KILN_CANCELLED);
    send_lease(&rank, &exclusive);
    test_caller_leave(&rank);
    assert_true(
        list_is_empty(&requests_group(f->engine.engine->requests, GROUP_LEASE_WAITS)->members));
}

TEST_F(users, the_best_result_is_recorded_if_its_last_reporter_leaves)
{
    struct test_caller rank;
    join_ann_again(f, &rank);
    const struct message_tuning_lease whole = { .candidates = 0 };
    send_lease(&rank, &whole);
    struct message_leased mine = last_leased(&rank);
    struct put put = find_put("Mine", 1);
    /* Bob's put is queued first, so the report is still queued when its client leaves. */
    tuning_send_put(f, &f->bob, &put, false);
    send_report(&rank, &mine, "1,2", 0.5);
    test_caller_leave(&rank);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(tuning_ask(f, &f->ann, 1, 0, 1).code, KILN_OK);
}

TEST(users, nothing_is_recorded_if_no_candidate_ran)
{
    struct users *f = *state;
    const struct message_tuning_lease whole = { .candidates = 0 };
    send_lease(&f->ann, &whole);
    struct message_leased mine = last_leased(&f->ann);
    struct message_leased last = report_share(f, &f->ann, &mine, "", 0);
    assert_int_equal(last.state, LEASE_RESULT_DONE);
    assert_true(last.best_ms == 0 && last.best_params.size == 0);
    assert_int_equal(tuning_ask(f, &f->ann, 1, 0, 1).code, KILN_NOT_FOUND);
}

TEST(users, impossible_tuning_reports_are_refused_and_may_be_repeated)
{
    struct users *f = *state;
    const struct message_tuning_lease whole = { .candidates = 0 };
    send_lease(&f->ann, &whole);
    struct message_leased mine = last_leased(&f->ann);
    static const double bad[] = { -1, NAN, INFINITY, 1.1e9 };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        send_report(&f->ann, &mine, "1,2", bad[i]);
        assert_reply_refuses(&f->ann, 0, KILN_INVALID, "median");
    }
    send_report(&f->ann, &mine, "1;2", 1);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "parameters");
    assert_int_equal(report_share(f, &f->ann, &mine, "1,2", 1).state, LEASE_RESULT_DONE);
}

TEST_F(users, leases_for_unrecordable_solvers_are_refused)
{
    struct message_tuning_lease bad[] = { wanted, wanted, wanted, wanted, wanted };
    bad[0].problem = problem_of_batch(1);
    bad[0].problem.y_layout = LAYOUT_CHANNELS_LAST;
    bad[1].solver = bytes_of_text("a;b");
    bad[2].database_id = bytes_of_text("x/y");
    bad[3].candidates = UINT32_MAX;
    bad[4].solver = bytes_of_text("Conv A");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        send_lease(&f->ann, &bad[i]);
        assert_reply_refuses(&f->ann, 0, i == 0 ? KILN_UNSUPPORTED : KILN_INVALID, "");
    }
    assert_int_equal(lease_count(tuning_leases(f->engine.engine)), 0);
}

TEST_F(users, a_stopping_daemon_rejects_lease_waiters)
{
    struct test_caller rank;
    join_ann_again(f, &rank);
    send_lease(&f->ann, &exclusive);
    send_lease(&rank, &exclusive);
    engine_drain(f->engine.engine);
    assert_reply_refuses(&rank, 0, KILN_UNAVAILABLE, "stopping");
    test_caller_leave(&rank);
}
