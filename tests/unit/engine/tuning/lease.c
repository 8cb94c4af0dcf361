/* SPDX-License-Identifier: MIT */
#include "engine/tuning/lease.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

/* The addresses of these variables stand for the holders of leases. The lease table never
 * dereferences them. */
static const char first, second, third;

struct reported {
    struct lease_waiter waiter; /* first member */
    unsigned count;
    enum lease_state state;
};

struct fixture {
    struct lease_table *table;
    struct problem problem;
    struct lease_request request;
    struct lease_answer answer;
    struct reported reported[3];
    struct kiln_err err;
};

SET_UP(setup)
{
    f->problem = (struct problem){ .spatial_dims = 2, .n = 64, .c = 3, .k = 64, .groups = 1 };
    f->request = (struct lease_request){ .uid = 1000,
                                         .database_id = "gfx90a68",
                                         .problem = &f->problem,
                                         .solver = "ConvAsm3x3U",
                                         .candidates = 10,
                                         .share = true };
    assert_int_equal(lease_table_create(&f->table, &f->err), 0);
}

TEAR_DOWN(teardown) { lease_table_destroy(f->table); }

FIXTURE(lease, setup, teardown);

static enum lease_state ask_for_lease(struct fixture *f, const void *holder)
{
    must(lease_ask(f->table, holder, &f->request, &f->answer, &f->err), f->err);
    return f->answer.state;
}

static enum kiln_code report_share(struct fixture *f, const void *holder, uint64_t lease,
                                   uint32_t share, const struct lease_best *best)
{
    const struct lease_report report = { .lease = lease, .first = share, .best = *best };
    return lease_report(f->table, holder, &report, &f->answer, &f->err);
}

static enum lease_state report_held_share(struct fixture *f, const void *holder, uint64_t lease,
                                          const char *params, double ms)
{
    struct lease_best best = { .params = params, .median_ms = ms, .spread_ms = 0.1, .samples = 5 };
    ask_for_lease(f, holder);
    must(report_share(f, holder, lease, f->answer.first, &best), f->err);
    return f->answer.state;
}

static void on_reported(struct lease_waiter *waiter, enum lease_state state)
{
    struct reported *reported = (struct reported *)waiter;
    reported->count++;
    reported->state = state;
}

static bool wait_as(struct fixture *f, unsigned who)
{
    bool full = false;
    f->reported[who] = (struct reported){ .waiter.reported = on_reported };
    return lease_wait(f->table, &f->request, &f->reported[who].waiter, &full);
}

TEST_F(lease, the_first_asker_gets_it_and_the_second_the_next_share)
{
    assert_int_equal(ask_for_lease(f, &first), LEASE_GRANTED);
    assert_int_equal(f->answer.first, 0);
    assert_int_equal(f->answer.count, 4);
    uint64_t lease = f->answer.lease;

    assert_int_equal(ask_for_lease(f, &second), LEASE_GRANTED);

    assert_int_equal(f->answer.lease, lease);
    assert_int_equal(f->answer.first, 4);
    assert_int_equal(f->answer.count, 4);
    assert_int_equal(lease_count(f->table), 1);
}

TEST_F(lease, a_lease_holder_that_asks_again_gets_the_share_it_holds)
{
    ask_for_lease(f, &first);

    assert_int_equal(ask_for_lease(f, &first), LEASE_GRANTED);

    assert_int_equal(f->answer.first, 0);
    assert_int_equal(f->answer.count, 4);
}

TEST_F(lease, a_lease_holder_that_asks_for_more_holds_several_shares)
{
    ask_for_lease(f, &first);
    uint64_t lease = f->answer.lease;
    f->request.more = true;
    assert_int_equal(ask_for_lease(f, &first), LEASE_GRANTED);
    assert_int_equal(f->answer.first, 4);
    assert_int_equal(ask_for_lease(f, &first), LEASE_GRANTED);
    assert_int_equal(f->answer.first, 8);
    assert_int_equal(ask_for_lease(f, &first), LEASE_TAKEN);

    /* A report identifies a share of the candidates by the share's first candidate. */
    const struct lease_best best = { .params = "" };
    must(report_share(f, &first, lease, 4, &best), f->err);
    assert_int_equal(f->answer.state, LEASE_TAKEN);
    must(report_share(f, &first, lease, 0, &best), f->err);
    assert_int_equal(f->answer.state, LEASE_TAKEN);
    must(report_share(f, &first, lease, 8, &best), f->err);
    assert_int_equal(f->answer.state, LEASE_DONE);
}

TEST_F(lease, all_shares_of_a_leaving_holder_become_free)
{
    f->request.more = true;
    ask_for_lease(f, &first);
    ask_for_lease(f, &first);
    ask_for_lease(f, &second);
    assert_int_equal(f->answer.first, 8);
    lease_leave(f->table, &first);

    assert_int_equal(ask_for_lease(f, &second), LEASE_GRANTED);
    assert_in_range(f->answer.first, 0, 4);
    assert_int_equal(ask_for_lease(f, &second), LEASE_GRANTED);
    assert_in_range(f->answer.first, 0, 4);
    assert_int_equal(ask_for_lease(f, &second), LEASE_TAKEN);
}

TEST_F(lease, a_second_request_for_an_unshared_lease_gets_taken)
{
    f->request.share = false;
    assert_int_equal(ask_for_lease(f, &first), LEASE_GRANTED);
    assert_int_equal(ask_for_lease(f, &second), LEASE_TAKEN);
    assert_int_equal(f->answer.lease, 0);
}

TEST_F(lease, a_lease_with_no_candidates_has_one_holder)
{
    f->request.candidates = 0;
    assert_int_equal(ask_for_lease(f, &first), LEASE_GRANTED);
    uint64_t lease = f->answer.lease;
    assert_int_equal(ask_for_lease(f, &second), LEASE_TAKEN);

    assert_int_equal(report_held_share(f, &first, lease, "1,2", 3.0), LEASE_DONE);

    assert_string_equal(f->answer.best.params, "1,2");
}

TEST_F(lease, another_uid_problem_solver_or_device_is_another_lease)
{
    struct problem other = f->problem;
    other.n = 32;
    ask_for_lease(f, &first);
    f->request.uid = 1001;
    assert_int_equal(ask_for_lease(f, &second), LEASE_GRANTED);
    f->request.problem = &other;
    assert_int_equal(ask_for_lease(f, &second), LEASE_GRANTED);
    f->request.solver = "ConvAsm1x1U";
    assert_int_equal(ask_for_lease(f, &second), LEASE_GRANTED);
    f->request.database_id = "gfx906_60";
    assert_int_equal(ask_for_lease(f, &second), LEASE_GRANTED);
    assert_int_equal(f->answer.first, 0);
    assert_int_equal(lease_count(f->table), 5);
}

TEST_F(lease, every_candidate_is_measured_once_and_the_best_of_all_counts)
{
    ask_for_lease(f, &first);
    uint64_t lease = f->answer.lease;
    ask_for_lease(f, &second);
    assert_int_equal(report_held_share(f, &second, lease, "b", 2.0), LEASE_GRANTED);
    assert_int_equal(f->answer.first, 8);
    assert_int_equal(f->answer.count, 2);
    assert_string_equal(f->answer.best.params, "b");
    assert_int_equal(report_held_share(f, &first, lease, "a", 3.0), LEASE_TAKEN);

    assert_int_equal(report_held_share(f, &second, lease, "", 0), LEASE_DONE);

    assert_string_equal(f->answer.best.params, "b");
    assert_true(f->answer.best.median_ms == 2.0);
    assert_int_equal(f->answer.best.samples, 5);
    struct lease_request shown;
    assert_true(lease_show(f->table, lease, &shown));
    assert_string_equal(shown.solver, "ConvAsm3x3U");
    lease_finish(f->table, lease);
    assert_int_equal(lease_count(f->table), 0);
    assert_false(lease_show(f->table, lease, &shown));
}

TEST_F(lease, the_share_of_a_leaving_holder_goes_to_the_next_request)
{
    ask_for_lease(f, &first);
    ask_for_lease(f, &second);

    lease_leave(f->table, &first);

    assert_int_equal(ask_for_lease(f, &third), LEASE_GRANTED);
    assert_int_equal(f->answer.first, 0);
    assert_int_equal(f->answer.count, 4);
}

TEST_F(lease, a_lease_ends_with_its_last_holder)
{
    ask_for_lease(f, &first);
    lease_leave(f->table, &second);
    assert_int_equal(lease_count(f->table), 1);

    lease_leave(f->table, &first);

    assert_int_equal(lease_count(f->table), 0);
}

TEST(lease, lease_waiters_are_notified_once_when_tuning_ends)
{
    struct fixture *f = *state;
    f->request.candidates = 4;
    ask_for_lease(f, &first);
    uint64_t lease = f->answer.lease;
    assert_true(wait_as(f, 0));
    assert_true(wait_as(f, 1));
    assert_true(wait_as(f, 2));
    lease_unwait(&f->reported[1].waiter);
    assert_int_equal(report_held_share(f, &first, lease, "a", 1.0), LEASE_DONE);
    assert_int_equal(f->reported[0].count, 0);

    lease_finish(f->table, lease);

    assert_int_equal(f->reported[0].count, 1);
    assert_int_equal(f->reported[0].state, LEASE_DONE);
    assert_int_equal(f->reported[1].count, 0);
    assert_int_equal(f->reported[2].count, 1);
    lease_unwait(&f->reported[0].waiter);
}

TEST(lease, the_first_waiter_continues_with_the_findings_of_a_leaving_holder)
{
    struct fixture *f = *state;
    ask_for_lease(f, &first);
    uint64_t lease = f->answer.lease;
    report_held_share(f, &first, lease, "a", 1.0);
    wait_as(f, 0);
    wait_as(f, 1);

    lease_leave(f->table, &first);

    assert_int_equal(f->reported[0].count, 1);
    assert_int_equal(f->reported[0].state, LEASE_TAKEN);
    assert_int_equal(f->reported[1].count, 0);
    assert_int_equal(ask_for_lease(f, &second), LEASE_GRANTED);
    assert_int_equal(f->answer.first, 4);
    assert_string_equal(f->answer.best.params, "a");
}

TEST_F(lease, nobody_waits_for_a_lease_that_is_not_there)
{
    assert_false(wait_as(f, 0));
    lease_unwait(&f->reported[0].waiter);
}

TEST_F(lease, a_report_for_a_lease_not_held_is_refused)
{
    struct lease_best best = { .params = "x", .median_ms = 1 };
    ask_for_lease(f, &first);
    uint64_t lease = f->answer.lease;
    assert_int_equal(report_share(f, &second, lease, 0, &best), KILN_NOT_FOUND);
    assert_int_equal(report_share(f, &first, lease + 1, 0, &best), KILN_NOT_FOUND);
    assert_says(f->err.text, "no share");
}

TEST(lease, the_best_keeps_the_origin_it_was_reported_with)
{
    struct fixture *f = *state;
    char driver[] = "driver 1";
    struct lease_best fast = { .params = "a", .median_ms = 1, .measured_at = 1000 };
    struct lease_best slow = { .params = "b", .median_ms = 2, .measured_at = 2000 };
    fast.origin = (struct tuning_origin){ "GPU-1", "gfx90a", driver, "hiprtc", "libkiln", 1700 };
    slow.origin = (struct tuning_origin){ "GPU-2", "gfx90a", "driver 2", "hiprtc", "libkiln", 900 };
    f->request.candidates = 8;
    ask_for_lease(f, &first);
    uint64_t lease = f->answer.lease;
    ask_for_lease(f, &second);
    must(report_share(f, &first, lease, 0, &fast), f->err);
    memset(driver, 'x', sizeof(driver) - 1);

    must(report_share(f, &second, lease, 4, &slow), f->err);

    assert_int_equal(f->answer.state, LEASE_DONE);
    assert_string_equal(f->answer.best.params, "a");
    assert_string_equal(f->answer.best.origin.device_uuid, "GPU-1");
    assert_string_equal(f->answer.best.origin.driver, "driver 1");
    assert_int_equal(f->answer.best.origin.clock_mhz, 1700);
    assert_int_equal(f->answer.best.measured_at, 1000);
}

/* Two threads of one client count as one holder, so both may report the same share. */
TEST(lease, a_report_of_a_share_that_was_reported_already_ends_no_other_one)
{
    struct fixture *f = *state;
    struct lease_best slow = { .params = "a", .median_ms = 2, .samples = 3 };
    struct lease_best fast = { .params = "b", .median_ms = 1, .samples = 3 };
    ask_for_lease(f, &first);
    uint64_t lease = f->answer.lease;
    must(report_share(f, &first, lease, 0, &slow), f->err);
    assert_int_equal(f->answer.first, 4);

    must(report_share(f, &first, lease, 0, &fast), f->err);

    assert_int_equal(f->answer.state, LEASE_GRANTED);
    assert_int_equal(f->answer.lease, lease);
    assert_int_equal(f->answer.first, 4);
    assert_int_equal(f->answer.count, 4);
    assert_string_equal(f->answer.best.params, "a");
    must(report_share(f, &first, lease, 4, &slow), f->err);
    assert_int_equal(f->answer.first, 8);
    must(report_share(f, &first, lease, 8, &slow), f->err);
    assert_int_equal(f->answer.state, LEASE_DONE);
}

TEST_F(lease, another_number_of_candidates_is_refused)
{
    ask_for_lease(f, &first);
    f->request.candidates = 11;
    assert_int_equal(lease_ask(f->table, &second, &f->request, &f->answer, &f->err), KILN_INVALID);
    assert_non_null(strstr(f->err.text, "10 candidates, not 11"));
}

TEST_F(lease, one_user_cannot_hold_all_leases)
{
    enum kiln_code rc = KILN_OK;
    unsigned n = 0;
    for (; !rc && n < LEASES_MAX_UID + 1; n++) {
        f->problem.n = n + 1;
        rc = lease_ask(f->table, &first, &f->request, &f->answer, &f->err);
    }
    assert_int_equal(rc, KILN_BUSY);
    assert_int_equal(n, LEASES_MAX_UID + 1);
    f->request.uid = 1001;
    assert_int_equal(ask_for_lease(f, &second), LEASE_GRANTED);
}

TEST_F(lease, a_lease_that_no_waiter_came_back_for_is_dropped)
{
    ask_for_lease(f, &first);
    wait_as(f, 0);
    lease_leave(f->table, &first);
    assert_int_equal(lease_count(f->table), 1);
    f->problem.n = 7;

    ask_for_lease(f, &second);

    assert_int_equal(lease_count(f->table), 1);
}

TEST_F(lease, texts_that_are_too_long_are_refused)
{
    char text[LEASE_PARAMS_MAX + 2];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct lease_best best = { .params = text, .median_ms = 1 };
    ask_for_lease(f, &first);
    assert_int_equal(report_share(f, &first, f->answer.lease, 0, &best), KILN_INVALID);
    f->request.solver = text;
    assert_int_equal(lease_ask(f->table, &first, &f->request, &f->answer, &f->err), KILN_INVALID);
    f->request.solver = "s";
    f->request.candidates = LEASE_CANDIDATES_MAX + 1;
    assert_int_equal(lease_ask(f->table, &first, &f->request, &f->answer, &f->err), KILN_INVALID);
}
