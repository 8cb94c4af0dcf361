/* SPDX-License-Identifier: MIT */
/* Records made-up times as find and tune would. Then a second process plans with the records. */
#include "common/base/clock.h"
#include "libclient/plans/problem.h"
#include "libclient/plans/solutions.h"
#include "tests/support/daemon_client.h"

#include <stdio.h>
#include <string.h>

#define TARGET "gfx90a"
#define DEVICE "gfx90a68"
#define PROBLEM "conv -n 4 -c 64 -H 14 -W 14 -k 64 -y 1 -x 1 -p 0 -q 0 -F 1"
#define NAIVE_SOLVER "ConvDirectNaive"
#define A_MINUTE 60000000000u

struct fixture {
    struct daemon_process daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct kiln_problem problem;
    struct kiln_plan_options options;
};

SET_UP(set_up)
{
    struct kiln_problem problems[3];
    unsigned count = 0;
    must(kiln_problem_from_driver(PROBLEM, problems, &count, &f->err), f->err);
    f->problem = problems[0];
    f->options = (struct kiln_plan_options){
        .size = sizeof(f->options), .target = TARGET, .database_id = DEVICE, .no_objects = 1
    };
    daemon_process_open(&f->daemon, NULL);
    f->client = daemon_client(&f->daemon);
}

TEAR_DOWN(tear_down) { kiln_client_close(f->client); }

FIXTURE(plan_records, set_up, tear_down);

static void reopen_client(struct fixture *f)
{
    kiln_client_close(f->client);
    f->client = daemon_client(&f->daemon);
}

struct seen {
    char solver[64], config[128], toolchain[256];
    int source;
    double expected_ms;
};

static struct seen make_plan(struct fixture *f)
{
    struct kiln_plan *plan = NULL;
    struct seen seen;
    must(kiln_plan_get(f->client, &f->problem, &f->options, &plan, &f->err), f->err);
    snprintf(seen.solver, sizeof(seen.solver), "%s", kiln_plan_solver(plan));
    snprintf(seen.config, sizeof(seen.config), "%s", kiln_plan_config(plan));
    snprintf(seen.toolchain, sizeof(seen.toolchain), "%s", kiln_plan_toolchain_identity(plan));
    seen.source = kiln_plan_source(plan);
    seen.expected_ms = kiln_plan_expected_ms(plan);
    kiln_plan_unref(plan);
    return seen;
}

static void assert_plan(const struct seen *seen, const char *solver, int source, double expected_ms)
{
    assert_string_equal(seen->solver, solver);
    assert_int_equal(seen->source, source);
    assert_true(seen->expected_ms == expected_ms);
}

/* Returns the first solver that can be tuned. Its texts are borrowed from |ret_list|, which the
 * caller owns. */
static struct kiln_solution find_tunable(struct fixture *f, struct kiln_solutions **ret_list)
{
    struct kiln_solution s = { .size = sizeof(s) };
    must(kiln_solutions_get(f->client, &f->problem, &f->options, ret_list, &f->err), f->err);
    for (unsigned i = 0; i < kiln_solutions_count(*ret_list); i++) {
        must(kiln_solutions_at(*ret_list, i, &s, &f->err), f->err);
        if (s.candidates > 0)
            return s;
    }
    fail_msg("nothing can be tuned");
    return s;
}

static void put_record(struct fixture *f, bool is_find, const char *solver, const char *text,
                       double ms)
{
    const struct kiln_measurement m = { .size = sizeof(m),
                                        .solver = solver,
                                        .algorithm = is_find ? text : NULL,
                                        .params = is_find ? NULL : text,
                                        .samples = 3,
                                        .median_ms = ms,
                                        .spread_ms = ms / 100 };
    const struct kiln_recording r = { .size = sizeof(r),
                                      .database_id = DEVICE,
                                      .tier = KILN_TUNING_USER,
                                      .measurements = &m,
                                      .measurement_count = 1 };
    must((is_find ? kiln_find_put : kiln_perf_put)(f->client, &f->problem, &r, &f->err), f->err);
}

static void count_candidates(struct fixture *f, const char *solver, uint32_t first, uint32_t count,
                             struct config_list *ret_list)
{
    FAILURE_AUTO struct failure failure = FAILURE_INIT;
    struct problem problem;
    must(problem_from_public(&f->problem, &problem, &failure.err), failure.err);
    const struct configs_question question = { .problem = &problem,
                                               .target = bytes_of_text(TARGET),
                                               .solver = bytes_of_text(solver),
                                               .first = first,
                                               .count = count };
    must(configs_ask(f->client, &question, clock_monotonic_ns() + A_MINUTE, ret_list, &failure),
         failure.err);
}

TEST_F(plan_records, plans_use_the_fastest_recorded_solver)
{
    struct kiln_solutions *list = NULL;
    const struct kiln_solution s = find_tunable(f, &list);
    struct seen seen = make_plan(f);
    assert_int_equal(seen.source, KILN_PLAN_HEURISTIC);

    put_record(f, true, NAIVE_SOLVER, "miopenConvolutionFwdAlgoDirect", 0.5);
    put_record(f, true, s.solver, s.algorithm, 0.75);

    seen = make_plan(f);
    assert_plan(&seen, NAIVE_SOLVER, KILN_PLAN_FIND, 0.5);
    daemon_process_stop(&f->daemon);
    daemon_process_start(&f->daemon);
    reopen_client(f);
    seen = make_plan(f);
    assert_plan(&seen, NAIVE_SOLVER, KILN_PLAN_FIND, 0.5);
    f->options.heuristic = 1;
    seen = make_plan(f);
    assert_int_equal(seen.source, KILN_PLAN_HEURISTIC);
    kiln_solutions_free(list);
}

/* Takes leases, and reports made-up times until the search is over. |best| gets the shortest
 * time. */
static void tune_all(struct fixture *f, const struct kiln_solution *s, const char *best)
{
    const struct kiln_lease_request request = { .size = sizeof(request),
                                                .database_id = DEVICE,
                                                .solver = s->solver,
                                                .candidates = s->candidates,
                                                .share = 1 };
    struct kiln_lease lease = { .size = sizeof(lease) };
    must(kiln_lease_take(f->client, &f->problem, &request, &lease, &f->err), f->err);
    while (lease.state == KILN_LEASE_GRANTED) {
        CONFIG_LIST_AUTO struct config_list list = { .count = 0 };
        count_candidates(f, s->solver, lease.first, lease.count, &list);
        struct kiln_measurement m = { .size = sizeof(m), .solver = s->solver, .samples = 1 };
        for (uint32_t i = 0; i < list.count; i++) {
            double ms = strcmp(config_text(&list, i), best) == 0 ? 0.25 : 1;
            if (m.params && ms >= m.median_ms)
                continue;
            m.params = config_text(&list, i);
            m.median_ms = ms;
        }
        const struct kiln_recording r = { .size = sizeof(r),
                                          .database_id = DEVICE,
                                          .tier = KILN_TUNING_USER,
                                          .measurements = &m,
                                          .measurement_count = m.params ? 1 : 0 };
        must(kiln_lease_report(f->client, &lease, &r, &lease, &f->err), f->err);
    }
    assert_int_equal(lease.state, KILN_LEASE_DONE);
}

TEST_F(plan_records, shares_of_a_lease_cover_every_config_and_plans_use_the_best)
{
    struct kiln_solutions *list = NULL;
    const struct kiln_solution s = find_tunable(f, &list);
    CONFIG_LIST_AUTO struct config_list all = { .count = 0 };
    count_candidates(f, s.solver, 0, s.candidates, &all);
    assert_true(all.count > 1);
    if (!s.valid_is_an_estimate)
        assert_int_equal(all.count, s.valid);
    const char *best = config_text(&all, all.count / 2);
    if (strcmp(best, s.config) == 0)
        best = config_text(&all, all.count / 2 + 1);
    f->options.solver = s.solver;
    struct seen seen = make_plan(f);
    assert_plan(&seen, s.solver, KILN_PLAN_HEURISTIC, 0);
    assert_string_equal(seen.config, s.config);

    tune_all(f, &s, best);

    seen = make_plan(f);
    assert_plan(&seen, s.solver, KILN_PLAN_PERF, 0.25);
    assert_string_equal(seen.config, best);
    kiln_solutions_free(list);
}

TEST_F(plan_records, the_order_of_candidates_outlives_the_daemon)
{
    struct kiln_solutions *list = NULL;
    const struct kiln_solution s = find_tunable(f, &list);
    CONFIG_LIST_AUTO struct config_list before = { .count = 0 }, after = { .count = 0 };
    uint32_t count = s.candidates < 5000 ? s.candidates : 5000;
    count_candidates(f, s.solver, 0, count, &before);
    daemon_process_stop(&f->daemon);
    daemon_process_start(&f->daemon);
    reopen_client(f);
    count_candidates(f, s.solver, 0, count, &after);
    assert_int_equal(before.count, after.count);
    for (uint32_t i = 0; i < after.count; i++) {
        assert_int_equal(before.configs[i].candidate, after.configs[i].candidate);
        assert_string_equal(config_text(&before, i), config_text(&after, i));
    }
    kiln_solutions_free(list);
}

TEST_F(plan_records, a_record_of_another_toolchain_than_the_plans_is_reported_stale)
{
    const struct seen seen = make_plan(f);
    struct kiln_tuned *tuned = NULL;
    const struct kiln_measurement m = { .size = sizeof(m),
                                        .solver = NAIVE_SOLVER,
                                        .algorithm = "miopenConvolutionFwdAlgoDirect",
                                        .samples = 1,
                                        .median_ms = 1 };
    const struct kiln_recording r = { .size = sizeof(r),
                                      .database_id = DEVICE,
                                      .tier = KILN_TUNING_USER,
                                      .toolchain = seen.toolchain,
                                      .measurements = &m,
                                      .measurement_count = 1 };
    struct kiln_tuning_options options = { .size = sizeof(options),
                                           .database_id = DEVICE,
                                           .toolchain = seen.toolchain };
    must(kiln_find_put(f->client, &f->problem, &r, &f->err), f->err);
    must(kiln_find_get(f->client, &f->problem, &options, &tuned, &f->err), f->err);
    assert_int_equal(kiln_tuned_is_stale(tuned), 0);
    kiln_tuned_free(tuned);
    options.toolchain = "another compiler";
    must(kiln_find_get(f->client, &f->problem, &options, &tuned, &f->err), f->err);
    assert_int_equal(kiln_tuned_is_stale(tuned), 1);
    kiln_tuned_free(tuned);
}
