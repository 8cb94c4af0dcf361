/* SPDX-License-Identifier: MIT */
/* Jobs on PoCL begin with provisional plans, and take better ones while they run. */
#include "tests/integration/steps.h"

#include <signal.h>
#include <string.h>

/* PoCL runs on the CPU, so the problem is small. */
#define PROBLEM \
    "conv", "-n", "1", "-c", "8", "-H", "8", "-W", "8", "-k", "8", "-y", "1", "-x", "1", "-F", "1"
#define SOON "--find-mode", "soon", "--improve", "10m"

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    struct json *json;
};

SET_UP(set_up)
{
    daemon_process_init(&f->daemon);
    test_unsetenv("MIOPEN_FIND_MODE", "MIOPEN_FIND_ENFORCE", "KILN_PLANS");
    test_setenv("KILN_SOON_BUDGET", "1000"); /* without rests, because tests must be short */
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kiln-driver", "devices", "--json", NULL);
    SKIP_IF(!strstr(f->result.output, "opencl:0"), "no OpenCL device here: %.200s",
            f->result.output);
}

TEAR_DOWN(tear_down) { json_destroy(f->json); }

FIXTURE(soon, set_up, tear_down);

#define DRIVER "kiln-driver", "--device", "opencl:0", "--json", PROBLEM
#define driver(f, ...) run_program(&(f)->daemon, &(f)->result, DRIVER, __VA_ARGS__, NULL)

/* Returns the result of the convolution, which kiln-driver compared with the CPU's. */
static const struct json *result_of(struct fixture *f)
{
    expect_status(&f->result, 0, "");
    json_destroy(f->json);
    f->json = printed_json(&f->result);
    const struct json *first = json_first(json_get(f->json, "results"));
    assert_non_null(first);
    assert_true(json_get_bool(first, "checked", false));
    return first;
}

static bool has_tried(void *context)
{
    struct fixture *f = context;
    KILN_AUTO(mem)
    char *text =
        shell_text(f->daemon.directory, "cat state-home/kiln/tune/*.tune 2>/dev/null || true");
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, "\n<\t")); at++)
        count++;
    return count >= 4;
}

/* Kills a job while it tunes. The second job goes on; the third is frozen. Which plan is the
 * fastest depends on the machine, so it is not compared. */
TEST_F(soon, a_job_that_is_killed_while_it_tunes_harms_no_later_job)
{
    int out;
    pid_t pid = start_program(&f->daemon, &out, DRIVER, SOON, "--budget", "10m", NULL);
    /* waits twice, because the compiles may take longer than one wait allows */
    if (!holds_in_time(has_tried, f))
        wait_until("four configs in the journals", has_tried, f);
    kill(pid, SIGKILL);
    wait_program(pid);
    close(out);

    driver(f, SOON, "--budget", "1ms");
    const struct json *r = result_of(f);
    assert_true(json_get_bool(json_get(r, "provisional"), "tuned", false));
    assert_true(daemon_stat(&f->daemon, "tuning_leases") >= 2);

    test_setenv("KILN_PLANS", "frozen");
    driver(f, SOON);
    r = result_of(f);
    assert_null(json_get(r, "provisional"));
    assert_string_not_equal(json_get_text(r, "solver", ""), "");
}
