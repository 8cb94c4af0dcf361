/* SPDX-License-Identifier: MIT */
#include "common/target/target.h"
#include "engine/compile/code_object.h"
#include "tests/support/daemon_client.h"
#include "tests/support/raw_client.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS 8
#define KERNELS_MAX 24

struct job {
    unsigned kernels;
    atomic_uint joined;
    atomic_uint served; /* correct objects received */
    /* hash of each kernel's object; 0 until a rank has received it */
    atomic_uint_least64_t h[KERNELS_MAX];
};

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    char target[256];
    struct job *job;
};

SET_UP(setup)
{
    daemon_process_init(&f->daemon);
    f->job = test_shared_memory(sizeof(*f->job));
}

FIXTURE(work, setup, NULL);

/* Skips the test without an OpenCL device. kiln-driver lists the devices: if the test itself loaded
 * PoCL, a sanitizer would report PoCL's leaks. */
static void need_opencl(struct fixture *f)
{
    run_program(&f->daemon, &f->result, "kiln-driver", "devices", "--json", NULL);
    SKIP_IF(!strstr(f->result.output, "opencl:0"), "no OpenCL device here: %.200s",
            f->result.output);
    const char *target = strstr(f->result.output, "\"opencl:");
    for (; target; target = strstr(target + 1, "\"opencl:")) {
        sscanf(target, "\"%255[^\"]\"", f->target);
        if (strlen(f->target) > strlen("opencl:00"))
            /* a longer name is a target; short ones, such as "opencl:0", are names of devices */
            return;
    }
    fail_msg("no target in '%s'", f->result.output);
}

static struct kiln_kernel_source numbered_source(const struct fixture *f, unsigned n,
                                                 char options[64])
{
    bool opencl = strncmp(f->target, "opencl:", 7) == 0;
    snprintf(options, 64, "-DN=%u", n);
    return (struct kiln_kernel_source){
        .size = sizeof(struct kiln_kernel_source),
        .target = f->target,
        .toolchain = opencl ? "opencl" : "clang",
        .program = opencl ? "scale.cl" : "scale.hip",
        .options = options,
        .source = opencl ? "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
                           "void scale(__global float *x) { x[get_global_id(0)] *= N; }\n"
                         : "extern \"C\" __attribute__((global))\n"
                           "void scale(float *x) { x[__builtin_amdgcn_workitem_id_x()] *= N; }\n",
    };
}

static bool has_expected_bytes(struct fixture *f, unsigned n, struct kiln_kernel *kernel)
{
    static const char pocl[] = "poclbin";
    struct kiln_err err = KILN_ERR_INIT;
    struct target target;
    struct bytes object = bytes_of(kiln_kernel_data(kernel), kiln_kernel_size(kernel));
    if (target_parse(bytes_of_text(f->target), &target, &err) ||
        code_object_check(object, &target, &err)) {
        fprintf(stderr, "kernel %u: %s\n", n, err.text);
        return false;
    }
    bool is_pocl = strstr(f->target, "Portable-Computing-Language") != NULL;
    if (is_pocl &&
        (object.size < sizeof(pocl) || !bytes_equal_text(bytes_of(object.data, 7), pocl))) {
        fprintf(stderr, "kernel %u: no binary of PoCL\n", n);
        return false;
    }
    uint_least64_t hash = bytes_hash(object, 1) | 1, first = 0;
    if (atomic_compare_exchange_strong(&f->job->h[n], &first, hash) || first == hash)
        return true;
    fprintf(stderr, "kernel %u: not the bytes that another rank has\n", n);
    return false;
}

static bool all_joined(void *context)
{
    struct job *job = context;
    return atomic_load(&job->joined) == CLIENTS;
}

/* As in real jobs, all ranks start together and fetch the same kernels in the same order. */
static bool run_rank(struct fixture *f, struct kiln_client *client, struct kiln_error *err)
{
    if (kiln_client_ping(client, 0, NULL, err))
        return false;
    atomic_fetch_add(&f->job->joined, 1);
    bool good = holds_in_time(all_joined, f->job);
    for (unsigned n = 0; n < f->job->kernels && good; n++) {
        char options[64];
        struct kiln_kernel_source source = numbered_source(f, n, options);
        struct kiln_kernel *kernel = NULL;
        good = !kiln_kernel_fetch_source(client, &source, &kernel, err) &&
               has_expected_bytes(f, n, kernel);
        atomic_fetch_add(&f->job->served, good);
        kiln_kernel_unref(kernel);
    }
    return good;
}

static int run_rank_process(struct fixture *f)
{
    struct kiln_client *client = daemon_client(&f->daemon);
    struct kiln_error err = { 0 };
    bool good = run_rank(f, client, &err);
    if (err.code)
        fprintf(stderr, "rank: %s\n", err.text);
    kiln_client_close(client);
    return good ? 0 : 1;
}

static void start_ranks(struct fixture *f, unsigned kernels, pid_t pids[CLIENTS])
{
    f->job->kernels = kernels;
    atomic_store(&f->job->joined, 0);
    atomic_store(&f->job->served, 0);
    for (int i = 0; i < CLIENTS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(run_rank_process(f));
    }
}

/* Every rank has received every kernel, and no two kernels are equal. */
static void expect_all_served(struct fixture *f, const pid_t pids[CLIENTS])
{
    struct job *job = f->job;
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(wait_program(pids[i]), 0);
    assert_int_equal(atomic_load(&job->served), CLIENTS * job->kernels);
    for (unsigned n = 0; n < job->kernels; n++) {
        for (unsigned other = 0; other < n; other++)
            assert_true(atomic_load(&job->h[n]) != atomic_load(&job->h[other]));
    }
}

TEST_F(work, eight_cold_ranks_cost_each_kernel_one_compile)
{
    pid_t pids[CLIENTS];
    const unsigned kernels = 12;
    daemon_process_start(&f->daemon);
    need_opencl(f);
    start_ranks(f, kernels, pids);
    expect_all_served(f, pids);
    unsigned long long fetches = daemon_stat(&f->daemon, "fetches");
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), kernels);
    assert_int_equal(fetches, CLIENTS * kernels);
    assert_int_equal(daemon_stat(&f->daemon, "hits.hot") + daemon_stat(&f->daemon, "hits.disk") +
                         daemon_stat(&f->daemon, "misses"),
                     fetches);
}

struct moment {
    int fd;
    struct job *job;
    unsigned long long compiles;
    unsigned long long quarantined;
};

static bool job_is_served(const struct job *job)
{
    return atomic_load(&job->served) == CLIENTS * job->kernels;
}

static bool has_come(void *context)
{
    struct moment *m = context;
    KILN_AUTO(json) struct json *stats = raw_ask(m->fd, MESSAGE_stats, "{}");
    m->quarantined = stats_number(stats, "quarantined");
    return job_is_served(m->job) ||
           (stats_number(stats, "compiling") > 0 && stats_number(stats, "compiles") >= m->compiles);
}

/* Kills kilnd after |compiles| compiles. Returns false if the job ended earlier. */
static bool kill_at(struct fixture *f, unsigned long long compiles)
{
    struct moment m = { .fd = raw_greeted(&f->daemon), .job = f->job, .compiles = compiles };
    wait_until("a compile under way", has_come, &m);
    close(m.fd);
    assert_int_equal(m.quarantined, 0);
    if (job_is_served(f->job))
        return false;
    daemon_process_kill(&f->daemon);
    daemon_process_start(&f->daemon);
    return true;
}

/* clang compiles a source to the same bytes each time (PoCL does not). So all ranks must get the
 * same object, even if a kill lost the first object. */
TEST_F(work, ranks_that_wait_are_served_after_kills_and_restarts)
{
    static const unsigned long long moments[] = { 0, 1, 4, 0, 2, 6 };
    unsigned kills = 0;
    pid_t pids[CLIENTS];
    strcpy(f->target, "gfx942");
    daemon_process_start(&f->daemon);
    start_ranks(f, KERNELS_MAX, pids);
    /* A rank that has never reached kilnd would not wait for kilnd's restart. */
    wait_until("all ranks to connect", all_joined, f->job);
    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++)
        kills += kill_at(f, moments[i]);
    expect_all_served(f, pids);
    assert_in_range(kills, 3, 6);
    assert_int_equal(daemon_stat(&f->daemon, "quarantined"), 0);

    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    daemon_process_start(&f->daemon);
    start_ranks(f, KERNELS_MAX, pids);
    expect_all_served(f, pids);
    assert_true(daemon_stat(&f->daemon, "hits.disk") > 0);
    assert_int_equal(daemon_stat(&f->daemon, "quarantined"), 0);
}

TEST_F(work, a_compiler_that_aborts_costs_one_request_and_is_remembered)
{
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "toolchain", "ls", "--json", NULL);
    assert_int_equal(f->result.status, 0);
    SKIP_IF(!strstr(f->result.output, "\"hiprtc\""), "no hiprtc here");
    const char *file = KILN_SOURCE "/scripts/networks/smoke.txt";
    run_program(&f->daemon, &f->result, "kilnctl", "prefetch", file, "--target", "gfx942",
                "--toolchain", "hiprtc", "--solver", "ConvDirectNaive", NULL);
    assert_int_equal(f->result.status, 1);
    unsigned long long crashes = daemon_stat(&f->daemon, "probe_crashes");
    assert_true(crashes >= 1);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);

    run_program(&f->daemon, &f->result, "kilnctl", "prefetch", file, "--target", "gfx942",
                "--toolchain", "hiprtc", "--solver", "ConvDirectNaive", NULL);
    assert_int_equal(f->result.status, 1);
    /* under a sanitizer, the compiler may exit instead of aborting */
    if (!strstr(f->result.output, "SIG"))
        assert_says(f->result.output, "exited with");
    assert_int_equal(daemon_stat(&f->daemon, "probe_crashes"), crashes);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);

    run_program(&f->daemon, &f->result, "kilnctl", "prefetch", file, "--target", "gfx90a", NULL);
    assert_int_equal(f->result.status, 0);
}

static bool compiles_nothing(void *daemon)
{
    return daemon_stat(daemon, "compiling") + daemon_stat(daemon, "queued") == 0;
}

TEST_F(work, a_job_runs_verified_and_the_next_process_compiles_nothing)
{
    const char *file = KILN_SOURCE "/scripts/networks/smoke.txt";
    daemon_process_start(&f->daemon);
    need_opencl(f);
    run_program(&f->daemon, &f->result, "kiln-driver", "run", file, "--device", "opencl:0", NULL);
    if (f->result.status)
        fail_msg("%s", f->result.output);
    wait_until("kilnd to end compiles that find no longer waited for", compiles_nothing,
               &f->daemon);
    unsigned long long cold = daemon_stat(&f->daemon, "compiles");
    assert_true(cold > 0);
    unsigned long long fetches = daemon_stat(&f->daemon, "fetches");
    unsigned long long misses = daemon_stat(&f->daemon, "misses");
    run_program(&f->daemon, &f->result, "kiln-driver", "run", file, "--device", "opencl:0", NULL);
    if (f->result.status)
        fail_msg("%s", f->result.output);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), cold);
    assert_int_equal(daemon_stat(&f->daemon, "misses"), misses);
    assert_true(daemon_stat(&f->daemon, "fetches") > fetches);

    daemon_process_stop(&f->daemon);
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kiln-driver", "run", file, "--device", "opencl:0", NULL);
    if (f->result.status)
        fail_msg("%s", f->result.output);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);
    assert_true(daemon_stat(&f->daemon, "hits.disk") > 0);
}

TEST_F(work, an_unsupported_target_is_refused)
{
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "prefetch",
                KILN_SOURCE "/scripts/networks/smoke.txt", "--target", "opencl:some-other-cpu",
                NULL);
    assert_int_equal(f->result.status, 1);
    assert_says(f->result.output, "opencl:some-other-cpu");
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);
}
