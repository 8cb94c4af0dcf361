/* SPDX-License-Identifier: MIT */
/* Real compilers behind a real daemon: stampedes, crashes, kill -9, the driver cold and warm. */
#include "tests/support/raw_client.h"

#include <kiln/kiln.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS 8
#define KERNELS 24

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    char opencl[256]; /* this machine's OpenCL target; "" when there is none */
};

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    daemon_process_init(&f.daemon);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    daemon_process_remove(&f->daemon);
    return 0;
}

/* In a child: PoCL loaded into the test would make its sanitizer report PoCL's leaks. */
static void need_opencl(struct fixture *f)
{
    run_program(&f->daemon, &f->result, "kiln-driver", "devices", "--json", NULL);
    if (!strstr(f->result.output, "opencl:0")) {
        print_message("skipped: no OpenCL device here: %.200s\n", f->result.output);
        skip();
    }
    const char *target = strstr(f->result.output, "\"opencl:");
    for (; target; target = strstr(target + 1, "\"opencl:")) {
        sscanf(target, "\"%255[^\"]\"", f->opencl);
        if (strlen(f->opencl) > strlen("opencl:00"))
            return; /* the target, not the device's name */
    }
    fail_msg("no target in '%s'", f->result.output);
}

static struct kiln_client *client_of(const struct fixture *f)
{
    struct kiln_client_options options = { .size = sizeof(options),
                                           .socket_path = f->daemon.socket,
                                           .timeout_ms = 120000 };
    struct kiln_client *client = NULL;
    struct kiln_error err;
    if (kiln_client_open(&options, &client, &err))
        fail_msg("%s", err.text);
    return client;
}

static struct kiln_kernel_source numbered_source(const struct fixture *f, unsigned n,
                                                 char options[64])
{
    snprintf(options, 64, "-DN=%u", n);
    return (struct kiln_kernel_source){
        .size = sizeof(struct kiln_kernel_source),
        .target = f->opencl,
        .program = "scale.cl",
        .options = options,
        .source = "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
                  "void scale(__global float *x) { x[get_global_id(0)] *= N; }\n",
    };
}

/* One rank of a job: every kernel in the same order, as real ranks do. */
static int rank(const struct fixture *f)
{
    struct kiln_client *client = client_of(f);
    int failed = 0;
    for (unsigned n = 0; n < KERNELS && !failed; n++) {
        char options[64];
        struct kiln_kernel_source source = numbered_source(f, n, options);
        struct kiln_kernel *kernel = NULL;
        struct kiln_error err;
        failed = kiln_kernel_fetch_source(client, &source, 120000, &kernel, &err);
        if (failed)
            fprintf(stderr, "rank: %s\n", err.text);
        kiln_kernel_unref(kernel);
    }
    kiln_client_close(client);
    return failed ? 1 : 0;
}

static void start_ranks(const struct fixture *f, pid_t pids[CLIENTS])
{
    for (int i = 0; i < CLIENTS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(rank(f));
    }
}

static void eight_cold_ranks_cost_each_kernel_one_compile(void **state)
{
    struct fixture *f = *state;
    pid_t pids[CLIENTS];
    daemon_process_start(&f->daemon);
    need_opencl(f);
    start_ranks(f, pids);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(wait_program(pids[i]), 0);
    unsigned long long fetches = daemon_stat(&f->daemon, "fetches");
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), KERNELS);
    assert_int_equal(fetches, CLIENTS * KERNELS);
    assert_int_equal(daemon_stat(&f->daemon, "hits.hot") + daemon_stat(&f->daemon, "hits.disk") +
                         daemon_stat(&f->daemon, "misses"),
                     fetches);
}

static void pause_ms(long ms)
{
    struct timespec t = { .tv_sec = 0, .tv_nsec = ms * 1000000 };
    nanosleep(&t, NULL);
}

static void ranks_that_wait_are_served_after_a_kill_and_restart(void **state)
{
    struct fixture *f = *state;
    pid_t pids[CLIENTS];
    daemon_process_start(&f->daemon);
    need_opencl(f);
    start_ranks(f, pids);
    for (int round = 0; round < 4; round++) { /* at four moments of the same job */
        pause_ms(50 + 150 * round);
        daemon_process_kill(&f->daemon);
        daemon_process_start(&f->daemon);
    }
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(wait_program(pids[i]), 0);
    assert_int_equal(daemon_stat(&f->daemon, "quarantined"), 0);
}

static void a_compiler_that_aborts_costs_one_request_and_is_remembered(void **state)
{
    struct fixture *f = *state;
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "toolchain", "ls", "--json", NULL);
    assert_int_equal(f->result.status, 0);
    if (!strstr(f->result.output, "\"hiprtc\"")) {
        print_message("skipped: no hiprtc here\n");
        skip();
    }
    const char *file = KILN_SOURCE "/scripts/networks/smoke.txt";
    run_program(&f->daemon, &f->result, "kilnctl", "prefetch", file, "--target", "gfx942",
                "--toolchain", "hiprtc", NULL);
    assert_int_equal(f->result.status, 1);
    unsigned long long crashes = daemon_stat(&f->daemon, "worker_crashes");
    unsigned long long compiles = daemon_stat(&f->daemon, "compiles");
    assert_true(crashes >= 1);
    assert_int_equal(daemon_stat(&f->daemon, "compile_errors"), compiles);

    run_program(&f->daemon, &f->result, "kilnctl", "prefetch", file, "--target", "gfx942",
                "--toolchain", "hiprtc", NULL);
    assert_int_equal(f->result.status, 1);
    assert_says(f->result.output, "kiln-compiler died of SIG"); /* a sanitizer aborts: presets */
    assert_int_equal(daemon_stat(&f->daemon, "worker_crashes"), crashes); /* remembered */
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), compiles);

    run_program(&f->daemon, &f->result, "kilnctl", "prefetch", file, "--target", "gfx90a", NULL);
    assert_int_equal(f->result.status, 0); /* and hiprtc still serves what it can */
}

static void a_job_runs_verified_and_the_next_process_compiles_nothing(void **state)
{
    struct fixture *f = *state;
    const char *file = KILN_SOURCE "/scripts/networks/smoke.txt";
    daemon_process_start(&f->daemon);
    need_opencl(f);
    run_program(&f->daemon, &f->result, "kiln-driver", "run", file, "--device", "opencl:0", NULL);
    if (f->result.status)
        fail_msg("%s", f->result.output);
    unsigned long long cold = daemon_stat(&f->daemon, "compiles");
    assert_true(cold > 0);
    unsigned long long fetches = daemon_stat(&f->daemon, "fetches");
    unsigned long long misses = daemon_stat(&f->daemon, "misses");
    run_program(&f->daemon, &f->result, "kiln-driver", "run", file, "--device", "opencl:0", NULL);
    assert_int_equal(f->result.status, 0);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), cold);
    assert_int_equal(daemon_stat(&f->daemon, "misses"), misses);
    assert_true(daemon_stat(&f->daemon, "fetches") > fetches);

    daemon_process_stop(&f->daemon); /* and from disk, in another daemon */
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kiln-driver", "run", file, "--device", "opencl:0", NULL);
    assert_int_equal(f->result.status, 0);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);
    assert_true(daemon_stat(&f->daemon, "hits.disk") > 0);
}

static void a_target_of_another_machine_is_a_clear_refusal(void **state)
{
    struct fixture *f = *state;
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "prefetch",
                KILN_SOURCE "/scripts/networks/smoke.txt", "--target", "opencl:some-other-cpu",
                NULL);
    assert_int_equal(f->result.status, 1);
    assert_says(f->result.output, "opencl:some-other-cpu");
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);
}

#define WORK_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORK_TEST(eight_cold_ranks_cost_each_kernel_one_compile),
        WORK_TEST(ranks_that_wait_are_served_after_a_kill_and_restart),
        WORK_TEST(a_compiler_that_aborts_costs_one_request_and_is_remembered),
        WORK_TEST(a_job_runs_verified_and_the_next_process_compiles_nothing),
        WORK_TEST(a_target_of_another_machine_is_a_clear_refusal),
    };
    return cmocka_run_group_tests_name("work", tests, NULL, NULL);
}
