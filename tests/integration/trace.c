/* SPDX-License-Identifier: MIT */
/* A job with a trace, on a real kilnd: once on an empty cache, and once after a prefetch. */
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

static void request(struct kiln_client *client, const char *line)
{
    const struct kiln_plan_options options = { .size = sizeof(options), .target = TARGET };
    struct kiln_problem problems[3];
    struct kiln_plan *plan = NULL;
    struct kiln_error err = { 0 };
    unsigned count = 0;
    must(kiln_problem_from_driver(line, problems, &count, &err), err);
    must(kiln_plan_get(client, &problems[0], &options, &plan, &err), err);
    kiln_plan_unref(plan);
}

/* Runs a job of one process, which uses the first |count| problems. */
static void run_job(struct host *f, size_t count)
{
    struct kiln_client *client = daemon_client(&f->daemon);
    for (size_t i = 0; i < count; i++)
        request(client, lines[i]);
    kiln_client_close(client);
}

static uint64_t number(const struct host *f, const char *name)
{
    KILN_AUTO(json) struct json *json = printed_json(&f->result);
    return json_get_u64(json, name, UINT64_MAX);
}

static void forget_kernels(struct host *f) { kilnctl_ok(f, "clear", "--all", "--yes"); }

TEST_F(trace, a_job_whose_trace_was_prefetched_finds_every_kernel)
{
    run_job(f, LINES);
    kilnctl_ok(f, "trace", "show", "net", "--json");
    assert_int_equal(number(f, "plans"), LINES);
    uint64_t kernels = number(f, "kernels");
    assert_true(kernels >= LINES);
    forget_kernels(f);

    kilnctl_ok(f, "trace", "prefetch", "net", "--json");
    assert_int_equal(number(f, "kernels"), kernels);
    assert_int_equal(number(f, "compiles"), kernels);
    unsigned long long before = daemon_stat(&f->daemon, "compiles");
    run_job(f, LINES);

    assert_int_equal(daemon_stat(&f->daemon, "compiles"), before);
    kilnctl_ok(f, "trace", "prefetch", "net", "--report", "--json");
    assert_int_equal(number(f, "fetched"), kernels);
    assert_int_equal(number(f, "used"), kernels);
    assert_int_equal(number(f, "missing"), 0);
}

TEST_F(trace, a_job_that_grew_compiles_only_what_its_trace_did_not_have)
{
    run_job(f, LINES - 1);
    forget_kernels(f);
    kilnctl_ok(f, "trace", "prefetch", "net", "--json");
    uint64_t fetched = number(f, "kernels");
    unsigned long long before = daemon_stat(&f->daemon, "compiles");
    run_job(f, LINES);
    unsigned long long compiled = daemon_stat(&f->daemon, "compiles") - before;

    kilnctl_ok(f, "trace", "prefetch", "net", "--report", "--json");
    assert_true(compiled > 0);
    assert_int_equal(number(f, "fetched"), fetched);
    assert_int_equal(number(f, "used"), fetched);
    assert_int_equal(number(f, "missing"), compiled);
    assert_int_equal(number(f, "missing_compiled"), compiled);
    assert_int_equal(number(f, "needed"), fetched + compiled);
}

TEST_F(trace, a_prefetch_that_is_killed_goes_on_and_compiles_nothing_twice)
{
    int output = -1;
    run_job(f, LINES);
    kilnctl_ok(f, "trace", "show", "net", "--json");
    uint64_t kernels = number(f, "kernels");
    forget_kernels(f);
    unsigned long long before = daemon_stat(&f->daemon, "compiles");
    pid_t pid = start_program(&f->daemon, &output, "kilnctl", "trace", "prefetch", "net", NULL);
    WAIT_FOR(daemon_stat(&f->daemon, "compiles") > before);
    kill(pid, SIGKILL);
    wait_program(pid);
    close(output);

    kilnctl_ok(f, "trace", "prefetch", "net", "--json");
    assert_int_equal(number(f, "kernels"), kernels);
    assert_int_equal(number(f, "failed"), 0);
    assert_int_equal(daemon_stat(&f->daemon, "compiles") - before, kernels);
    run_job(f, LINES);
    kilnctl_ok(f, "trace", "prefetch", "net", "--report", "--json");
    assert_int_equal(number(f, "missing"), 0);
}
