/* SPDX-License-Identifier: MIT */
/* One process measures on PoCL, and the next process plans with the records. */
#include "tests/integration/steps.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PoCL runs on the CPU, so the problem is small. Two solvers apply to this 1x1 convolution, and
 * one of them can be tuned. */
#define PROBLEM \
    "conv", "-n", "1", "-c", "8", "-H", "8", "-W", "8", "-k", "8", "-y", "1", "-x", "1", "-F", "1"
#define TUNED "ConvImplicitGemm"

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    struct json *json;
};

SET_UP(setup)
{
    daemon_process_init(&f->daemon);
    test_unsetenv("MIOPEN_FIND_MODE", "MIOPEN_FIND_ENFORCE");
}

TEAR_DOWN(teardown) { json_destroy(f->json); }

FIXTURE(find, setup, teardown);

static void start_kilnd(struct fixture *f)
{
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kiln-driver", "devices", "--json", NULL);
    SKIP_IF(!strstr(f->result.output, "opencl:0"), "no OpenCL device here: %.200s",
            f->result.output);
}

#define driver(f, ...)                                                                       \
    run_program(&(f)->daemon, &(f)->result, "kiln-driver", "--device", "opencl:0", "--json", \
                PROBLEM, __VA_ARGS__, NULL)

static const struct json *result_of(struct fixture *f)
{
    if (f->result.status != 0)
        fail_msg("status %d: %s", f->result.status, f->result.output);
    json_destroy(f->json);
    f->json = printed_json(&f->result);
    const struct json *first = json_first(json_get(f->json, "results"));
    assert_non_null(first);
    /* kiln-driver compared the GPU's result with a computation on the CPU */
    assert_true(json_get_bool(first, "checked", false));
    return first;
}

/* Returns what find or tune reported for the solver |name|, or NULL if neither ran or the solver
 * does not apply. */
static const struct json *solver_of(const struct json *result, const char *name)
{
    const struct json *list = json_get(json_get(result, "find"), "solvers");
    for (const struct json *s = list ? json_first(list) : NULL; s; s = json_next(s)) {
        if (strcmp(json_get_text(s, "solver", ""), name) == 0)
            return s;
    }
    return NULL;
}

static void expect_state(const struct json *result, const char *solver, const char *state)
{
    const struct json *s = solver_of(result, solver);
    assert_non_null(s);
    assert_string_equal(json_get_text(s, "state", ""), state);
}

/* CUT_SHORT also passes: on a busy CPU, find may stop measuring the slower solver early. */
static void expect_measured(const struct json *result, const char *solver)
{
    const struct json *s = solver_of(result, solver);
    const char *state = s ? json_get_text(s, "state", "") : "";
    if (strcmp(state, "TIMED") != 0 && strcmp(state, "CUT_SHORT") != 0)
        fail_msg("%s is '%s'", solver, state);
}

struct choice {
    char solver[64], config[128];
};

static struct choice choice_of(const struct json *result)
{
    struct choice c;
    snprintf(c.solver, sizeof(c.solver), "%s", json_get_text(result, "solver", ""));
    snprintf(c.config, sizeof(c.config), "%s", json_get_text(result, "config", ""));
    return c;
}

static void expect_same(const struct choice *a, const struct choice *b)
{
    assert_string_equal(a->solver, b->solver);
    assert_string_equal(a->config, b->config);
}

/* kilnd opens no tuning database in a directory to which other users may write. */
TEST(find, a_measurement_that_kilnd_cannot_record_is_warned_of)
{
    struct fixture *f = *state;
    shell(f->daemon.directory, "mkdir -p '%s' && chmod 0770 '%s'", f->daemon.state,
          f->daemon.state);
    start_kilnd(f);
    driver(f, "--find-mode", "normal");
    const struct json *r = result_of(f), *find = json_get(r, "find");
    expect_measured(r, "ConvDirectNaive");
    assert_false(json_get_bool(find, "recorded", true));
    assert_says(json_get_text(find, "not_recorded", ""), "chmod");
    run_program(&f->daemon, &f->result, "kiln-driver", "--device", "opencl:0", PROBLEM,
                "--find-mode", "normal", NULL);
    assert_int_equal(f->result.status, 0);
    assert_says(f->result.output, "nothing was recorded");
    assert_says(f->result.output, "Verifies OK");
}

TEST_F(find, a_process_plans_with_the_find_results_of_an_earlier_one)
{
    start_kilnd(f);
    driver(f, "--find-mode", "normal");
    const struct json *r = result_of(f);
    expect_measured(r, "ConvDirectNaive");
    expect_measured(r, TUNED);
    struct choice found = choice_of(r);
    expect_state(r, found.solver, "TIMED");
    assert_int_equal(json_get_u64(solver_of(r, found.solver), "checked", 0), 8 * 8 * 8);
    assert_true(json_get_u64(solver_of(r, found.solver), "samples", 0) > 1);
    unsigned long long compiles = daemon_stat(&f->daemon, "compiles");

    driver(f, "-t", "0");
    r = result_of(f);
    expect_state(r, "ConvDirectNaive", "RECORDED");
    expect_state(r, TUNED, "RECORDED");
    struct choice planned = choice_of(r);
    expect_same(&found, &planned);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), compiles);
}

TEST_F(find, find_mode_fast_measures_and_records_nothing)
{
    start_kilnd(f);
    driver(f, "--find-mode", "fast");
    assert_null(json_get(result_of(f), "find"));
    driver(f, "--no-record");
    expect_measured(result_of(f), TUNED);
    driver(f, "-t", "0");
    expect_measured(result_of(f), TUNED);
}

TEST_F(find, a_named_solver_runs_without_a_find)
{
    start_kilnd(f);
    driver(f, "-S", "ConvDirectNaive");
    const struct json *r = result_of(f);
    assert_null(json_get(r, "find"));
    assert_string_equal(json_get_text(r, "solver", ""), "ConvDirectNaive");
}

TEST_F(find, find_and_tune_warn_without_a_daemon)
{
    start_kilnd(f);
    daemon_process_stop(&f->daemon);
    driver(f, "--find-mode", "normal");
    assert_int_equal(f->result.status, 3);
    driver(f, "-s", "1");
    assert_int_equal(f->result.status, 3);
}

/* Tunes until every config has been tried. On a slow machine, a search may use up its budget,
 * and the next search then continues it. */
static struct choice tune_to_the_end(struct fixture *f)
{
    const struct json *r = NULL;
    for (int runs = 0; runs < 50; runs++) {
        driver(f, "-s", "1", "-S", TUNED, "--budget", "8s");
        r = result_of(f);
        if (json_get_u64(solver_of(r, TUNED), "tried", 0) == 0)
            return choice_of(r);
    }
    fail_msg("50 searches have not tried every config");
    return choice_of(r);
}

TEST_F(find, a_process_plans_with_the_tuning_results_of_an_earlier_one)
{
    start_kilnd(f);
    /* Compiles all kernels first, so that the search does not spend its budget on compiles. */
    driver(f, "--find-mode", "normal", "--no-record");
    driver(f, "-s", "1", "-S", TUNED, "--budget", "8s");
    const struct json *r = result_of(f);
    expect_state(r, TUNED, "TIMED");
    /* the number depends on the machine's speed */
    assert_true(json_get_u64(solver_of(r, TUNED), "tried", 0) >= 1);
    assert_true(json_count(json_get(json_get(r, "find"), "trials")) > 0);
    struct choice tuned = tune_to_the_end(f);
    assert_string_equal(tuned.solver, TUNED);

    driver(f, "-t", "0", "-S", TUNED);
    struct choice planned = choice_of(result_of(f));
    expect_same(&tuned, &planned);

    driver(f, "-s", "1", "-S", TUNED); /* uses the record instead of measuring again */
    r = result_of(f);
    assert_int_equal(json_get_u64(solver_of(r, TUNED), "tried", 9), 0);
    planned = choice_of(r);
    expect_same(&tuned, &planned);
    assert_int_equal(json_get_u64(json_get(f->json, "summary"), "compiles", 9), 0);

    daemon_process_stop(&f->daemon);
    daemon_process_start(&f->daemon);
    driver(f, "-t", "0", "-S", TUNED);
    planned = choice_of(result_of(f));
    expect_same(&tuned, &planned);
}

TEST_F(find, clean_removes_the_users_config)
{
    start_kilnd(f);
    driver(f, "-s", "1", "-S", TUNED, "--budget", "1s", "--enforce", "search_db_update");
    assert_true(json_get_u64(solver_of(result_of(f), TUNED), "tried", 0) > 0);
    driver(f, "-S", TUNED, "-s", "1", "--enforce", "db_clean");
    assert_int_equal(json_get_u64(solver_of(result_of(f), TUNED), "tried", 9), 0);
    driver(f, "-s", "1", "-S", TUNED, "--budget", "1s");
    assert_true(json_get_u64(solver_of(result_of(f), TUNED), "tried", 0) > 0);
}

static char *tune_journals(const struct fixture *f)
{
    return shell_text(f->daemon.directory, "cat state-home/kiln/tune/*.tune 2>/dev/null || true");
}

static unsigned count_results(const struct fixture *f)
{
    KILN_AUTO(mem) char *text = tune_journals(f);
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, "\n=\t")); at++)
        count++;
    return count;
}

static bool has_a_result(void *context) { return count_results(context) >= 1; }
static bool has_results(void *context) { return count_results(context) >= 2; }

TEST_F(find, a_killed_tune_resumes_where_it_stopped)
{
    start_kilnd(f);
    int out;
    pid_t pid = start_program(&f->daemon, &out, "kiln-driver", "--device", "opencl:0", PROBLEM,
                              "-s", "1", "-S", TUNED, "--budget", "10m", NULL);
    /* waits twice, because two compiles may take longer than one wait allows */
    if (!holds_in_time(has_results, f))
        wait_until("two results in the journals", has_results, f);
    kill(pid, SIGKILL);
    wait_program(pid);
    close(out);
    driver(f, "-s", "1", "-S", TUNED, "--budget", "1s");
    const struct json *r = result_of(f);
    unsigned trials = (unsigned)json_count(json_get(json_get(r, "find"), "trials"));
    assert_true(trials >= 2);
    assert_true(json_get_u64(solver_of(r, TUNED), "tried", 0) >= 2);
}

static bool has_lease(void *context) { return daemon_stat(context, "tuning_leases") >= 1; }

/* The first process is stopped while it has its shares, so that the search of the second process
 * begins before that of the first has ended, and ends without it. */
TEST_F(find, a_process_takes_part_in_the_search_of_another)
{
    start_kilnd(f);
    driver(f, "--find-mode", "normal", "--no-record");
    int out;
    pid_t pid = start_program(&f->daemon, &out, "kiln-driver", "--device", "opencl:0", PROBLEM,
                              "-s", "1", "-S", TUNED, "--budget", "10m", NULL);
    wait_until("the first process to get a lease", has_lease, &f->daemon);
    kill(pid, SIGSTOP);
    unsigned long long leases = daemon_stat(&f->daemon, "tuning_leases");
    driver(f, "-s", "1", "-S", TUNED, "--budget", "8s");
    expect_state(result_of(f), TUNED, "TIMED");
    assert_true(daemon_stat(&f->daemon, "tuning_leases") > leases);
    kill(pid, SIGKILL);
    wait_program(pid);
    close(out);
    driver(f, "-t", "0", "-S", TUNED);
    assert_string_not_equal(choice_of(result_of(f)).config, "");
}

/* The process is stopped while kilnd restarts, so that it does not end before. */
TEST_F(find, a_search_outlives_the_daemon_that_it_began_with)
{
    start_kilnd(f);
    driver(f, "--find-mode", "normal", "--no-record");
    int out;
    pid_t pid = start_program(&f->daemon, &out, "kiln-driver", "--device", "opencl:0", "--json",
                              PROBLEM, "-s", "1", "-S", TUNED, "--budget", "10s", NULL);
    wait_until("a result in the journals", has_a_result, f);
    kill(pid, SIGSTOP);
    daemon_process_stop(&f->daemon);
    daemon_process_start(&f->daemon);
    kill(pid, SIGCONT);
    finish_program(pid, out, "kiln-driver", &f->result);
    const struct json *r = result_of(f);
    expect_state(r, TUNED, "TIMED");
    assert_true(json_get_bool(json_get(r, "find"), "recorded", false));
    struct choice tuned = tune_to_the_end(f);
    driver(f, "-t", "0", "-S", TUNED);
    struct choice planned = choice_of(result_of(f));
    expect_same(&tuned, &planned);
}
