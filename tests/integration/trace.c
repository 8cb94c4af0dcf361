/* SPDX-License-Identifier: MIT */
/* Tests jobs with a trace on a real kilnd, with an empty cache and after prefetches. */
#include "tests/integration/host.h"
#include "tests/integration/steps.h"
#include "tests/support/daemon_client.h"

#include <signal.h>
#include <stdio.h>

#define TARGET "gfx90a"
static const char *const lines[] = {
    "conv -n 2 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -p 0 -q 0 -F 1",
    "conv -n 2 -c 8 -H 8 -W 8 -k 8 -y 3 -x 3 -p 1 -q 1 -F 1",
    "conv -n 2 -c 16 -H 8 -W 8 -k 8 -y 3 -x 3 -p 1 -q 1 -F 4",
};
#define LINES (sizeof(lines) / sizeof(lines[0]))

SET_UP_OF(set_up, struct host)
{
    char path[256];
    daemon_process_open(&f->daemon, NULL);
    snprintf(path, sizeof(path), "%s/cache-home", f->daemon.directory);
    test_setenv("KILN_TRACE", "net");
    test_setenv("XDG_CACHE_HOME", path);
}

FIXTURE_OF(trace, struct host, set_up, NULL);

static void request(struct kiln_client *client, const char *line, const char *target)
{
    const struct kiln_plan_options options = { .size = sizeof(options), .target = target };
    struct kiln_problem problems[3];
    struct kiln_plan *plan = NULL;
    struct kiln_error err = { 0 };
    unsigned count = 0;
    must(kiln_problem_from_driver(line, problems, &count, &err), err);
    must(kiln_plan_get(client, &problems[0], &options, &plan, &err), err);
    kiln_plan_unref(plan);
}

/* Runs a job of one process, which uses the first |count| problems.  Returns the number of
 * kernels that kilnd compiled for it. */
static unsigned long long run_job(struct host *f, size_t count)
{
    unsigned long long before = daemon_stat(&f->daemon, "compiles");
    struct kiln_client *client = daemon_client(&f->daemon);
    for (size_t i = 0; i < count; i++)
        request(client, lines[i], TARGET);
    kiln_client_close(client);
    return daemon_stat(&f->daemon, "compiles") - before;
}

static uint64_t number(const struct host *f, const char *name)
{
    KILN_AUTO(json) struct json *json = printed_json(&f->result);
    return json_get_u64(json, name, UINT64_MAX);
}

static void forget_kernels(struct host *f) { kilnctl_ok(f, "clear", "--all", "--yes"); }

static void prefetch_until_killed(struct host *f)
{
    int output = -1;
    unsigned long long before = daemon_stat(&f->daemon, "compiles");
    pid_t pid = start_program(&f->daemon, &output, "kilnctl", "trace", "prefetch", "net", NULL);
    WAIT_FOR(daemon_stat(&f->daemon, "compiles") > before);
    kill(pid, SIGKILL);
    wait_program(pid);
    close(output);
}

static void expect_report(struct host *f, uint64_t fetched, uint64_t missing)
{
    kilnctl_ok(f, "trace", "prefetch", "net", "--report", "--json");
    assert_int_equal(number(f, "fetched"), fetched);
    assert_int_equal(number(f, "used"), fetched);
    assert_int_equal(number(f, "missing"), missing);
    assert_int_equal(number(f, "missing_compiled"), missing);
    assert_int_equal(number(f, "needed"), fetched + missing);
}

/* The last run in the job's page must have the same numbers. */
static void expect_page(struct host *f, uint64_t fetched, uint64_t missing)
{
    kilnctl_ok(f, "report", "--job", "net", "--json");
    KILN_AUTO(json) struct json *json = printed_json(&f->result);
    const struct json *last = NULL, *job = json_first(json_get(json, "jobs"));
    for (const struct json *j = json_first(json_get(job, "runs")); j; j = json_next(j))
        last = json_get(j, "prefetch");
    assert_int_equal(json_get_u64(last, "used", UINT64_MAX), fetched);
    assert_int_equal(json_get_u64(last, "missing", UINT64_MAX), missing);
}

/* After a prefetch for another GPU and batch size, a job with that GPU and batch size compiles
 * nothing. */
static void check_another_gpu(struct host *f)
{
    test_setenv("KILN_TRACE", "one");
    run_job(f, 1);
    kilnctl_ok(f, "trace", "prefetch", "one", "--target", "gfx908", "--batch", "4", "--json");
    assert_int_equal(number(f, "problems"), 1);
    unsigned long long before = daemon_stat(&f->daemon, "compiles");
    struct kiln_client *client = daemon_client(&f->daemon);
    request(client, "conv -n 4 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -p 0 -q 0 -F 1", "gfx908");
    kiln_client_close(client);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), before);
}

/* This is a single test, because each kilnd and each compile takes seconds with sanitizers. */
TEST_F(trace, a_job_waits_only_for_what_no_prefetch_made_ready)
{
    run_job(f, LINES - 1);
    kilnctl_ok(f, "trace", "show", "net", "--json");
    assert_int_equal(number(f, "plans"), LINES - 1);
    uint64_t kernels = number(f, "kernels");
    assert_true(kernels >= LINES - 1);
    forget_kernels(f);

    /* After a prefetch was killed, the next one does not compile the same kernels again. */
    unsigned long long before = daemon_stat(&f->daemon, "compiles");
    prefetch_until_killed(f);
    kilnctl_ok(f, "trace", "prefetch", "net", "--json");
    assert_int_equal(number(f, "kernels"), kernels);
    assert_int_equal(number(f, "failed"), 0);
    assert_int_equal(daemon_stat(&f->daemon, "compiles") - before, kernels);

    /* A job with a further problem compiles only the kernels that its trace did not have. */
    unsigned long long compiled = run_job(f, LINES);
    assert_true(compiled > 0);
    expect_report(f, kernels, compiled);
    expect_page(f, kernels, compiled);

    /* The next prefetch includes the new kernels, so the same job finds every kernel. */
    kilnctl_ok(f, "trace", "prefetch", "net", "--json");
    assert_int_equal(number(f, "compiles"), 0);
    assert_int_equal(run_job(f, LINES), 0);
    expect_report(f, kernels + compiled, 0);
    check_another_gpu(f);
}
