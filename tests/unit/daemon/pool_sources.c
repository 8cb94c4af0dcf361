/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/pool_fixture.h"

#include "common/log/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    unsigned count;
    char text[800];
} notices; /* log messages about missing layers of the sandbox */
static unsigned probes_failed, jobs_not_given; /* numbers of log events */

/* number of warm workers that the pool wants; 0 means as many as recent sources need */
static unsigned wanted_now;

WRAP(unsigned, warmup_wanted, struct warmup_need *need, uint64_t now_ns)
{
    return wanted_now ? wanted_now : __real_warmup_wanted(need, now_ns);
}

KILN_PRINTF(3, 4)
WRAP(void, log_event, enum log_event event, const struct log_fields *fields, const char *fmt, ...)
{
    va_list list;
    (void)fields;
    probes_failed += event == LOG_EVENT_probe_failed;
    jobs_not_given += event == LOG_EVENT_job_not_given;
    if (event != LOG_EVENT_compiler_notice)
        return;
    notices.count++;
    va_start(list, fmt);
    vsnprintf(notices.text, sizeof(notices.text), fmt, list);
    va_end(list);
}

/* Returns the pid of the job's worker. */
static int worker_of(struct fixture *f, struct job job)
{
    int pid = 0;
    assert_int_equal(run_job(f, &job)->end, COMPILE_DONE);
    assert_int_equal(sscanf(job.answer, "done %d", &pid), 1);
    return pid;
}

/* Runs a client's source. Returns how many jobs its worker had run before. */
static int jobs_before_a_source(struct fixture *f)
{
    struct job job = source("count");
    int count = -1;
    assert_int_equal(run_job(f, &job)->end, COMPILE_DONE);
    assert_int_equal(sscanf(job.answer, "done after %d", &count), 1);
    return count;
}

TEST_F(pool, a_worker_that_had_a_clients_source_gets_no_other_job)
{
    start_pool(f);
    int first = worker_of(f, source("pid"));
    int second = worker_of(f, source("pid"));
    int third = worker_of(f, kernel("pid"));
    assert_int_not_equal(first, second);
    assert_int_not_equal(first, third);
    assert_int_not_equal(second, third);
    assert_int_equal(pool_counts(f->pool).worker_starts, 3);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
}

TEST_F(pool, jobs_of_kiln_share_a_worker_whose_last_job_may_be_a_source)
{
    start_pool(f);
    int first = worker_of(f, kernel("pid"));
    assert_int_equal(worker_of(f, kernel("pid")), first);
    assert_int_equal(worker_of(f, source("pid")), first);
    assert_int_not_equal(worker_of(f, kernel("pid")), first);
    assert_int_equal(pool_counts(f->pool).worker_starts, 2);
}

TEST_F(pool, each_of_many_sources_gets_a_private_worker)
{
    enum { SOURCES = 24 };
    struct job jobs[SOURCES];
    f->options.workers = 2;
    start_pool(f);
    for (int i = 0; i < SOURCES; i++) {
        jobs[i] = source("a");
        pool_compile(f->pool, &jobs[i].task);
    }
    wait_for_jobs(f, jobs, SOURCES);
    for (int i = 0; i < SOURCES; i++)
        assert_int_equal(jobs[i].task.result.end, COMPILE_DONE);
    assert_in_range(pool_counts(f->pool).worker_starts, SOURCES, SOURCES + 2);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
    wait_until_idle(f, 2);
    assert_int_equal(pool_counts(f->pool).worker_starts, SOURCES + 2);
}

TEST_F(pool, sources_for_one_worker_run_in_order_without_warm_ups)
{
    struct job jobs[6];
    start_pool(f);
    for (int i = 0; i < 6; i++) {
        jobs[i] = i % 3 ? source("a") : kernel("a");
        pool_compile(f->pool, &jobs[i].task);
    }
    for (int i = 0; i < 6; i++) {
        wait_for_job(f, &jobs[i]);
        assert_int_equal(jobs[i].task.result.end, COMPILE_DONE);
        assert_true(i == 5 || !jobs[i + 1].ended);
    }
    assert_in_range(pool_counts(f->pool).worker_starts, 4, 5);
    assert_int_equal(warmups, 0);
}

TEST_F(pool, a_source_that_crashes_or_times_out_costs_only_its_own_worker)
{
    start_workers(f, 2);
    expect_end(f, source("crash"), COMPILE_CRASHED, "SIGABRT");
    pool_set_timeout(f->pool, 50);
    expect_end(f, source("hang"), COMPILE_TIMED_OUT, "compile_timeout");
    pool_set_timeout(f->pool, 60000);
    worker_of(f, source("pid"));
    wait_until_idle(f, 2);
    assert_int_equal(pool_counts(f->pool).worker_starts, 5);
}

TEST_F(pool, a_worker_that_probed_for_a_client_gets_no_other_job)
{
    struct job probe = job_of("pid", COMPILE_PROBE);
    int first = 0;
    start_pool(f);
    probe.task.job.origin = COMPILE_OF_CLIENT;
    assert_int_equal(run_job(f, &probe)->end, COMPILE_DONE);
    assert_int_equal(sscanf(probe.answer, "done %d", &first), 1);
    assert_int_not_equal(worker_of(f, kernel("pid")), first);
    wait_until_idle(f, 1);
    assert_int_equal(warmups, 0);
}

TEST_F(pool, a_source_fails_when_no_fresh_worker_can_be_started)
{
    start_workers(f, 1);
    break_workers("dies");
    worker_of(f, source("pid"));
    expect_end(f, source("a"), COMPILE_UNAVAILABLE, "ready");
    unsetenv("FAKE_WORKER");
}

static void wait_until_warm(struct fixture *f, unsigned count)
{
    LOOP_UNTIL(f->loop, warmups >= count && pool_counts(f->pool).idle >= f->options.workers);
}

static void run_two_sources(struct fixture *f)
{
    struct job jobs[] = { source("a"), source("a") };
    pool_compile(f->pool, &jobs[0].task);
    pool_compile(f->pool, &jobs[1].task);
    wait_for_jobs(f, jobs, 2);
}

static void wait_for_a_warm_up(struct fixture *f) { LOOP_UNTIL(f->loop, warmups >= 1); }

TEST_F(pool, the_next_source_finds_a_warm_worker)
{
    start_workers(f, 2);
    assert_int_equal(jobs_before_a_source(f), 0);
    for (unsigned i = 1; i < 5; i++) {
        wait_until_warm(f, i);
        assert_int_equal(warmups, i);
        assert_int_equal(jobs_before_a_source(f), 1);
    }
}

TEST_F(pool, no_worker_is_warmed_up_before_a_client_sends_a_source)
{
    start_workers(f, 2);
    worker_of(f, kernel("pid"));
    worker_of(f, kernel("pid"));
    assert_int_equal(warmups, 0);
    assert_int_equal(pool_counts(f->pool).idle, 2);
}

TEST_F(pool, jobs_that_arrive_together_start_before_any_warm_up)
{
    struct job first = source("count"), second = source("count");
    start_workers(f, 2);
    pool_compile(f->pool, &first.task);
    pool_compile(f->pool, &second.task);
    assert_int_equal(pool_counts(f->pool).busy, 2);
    wait_for_job(f, &first);
    wait_for_job(f, &second);
    assert_string_equal(first.answer, "done after 0");
    assert_string_equal(second.answer, "done after 0");
}

TEST_F(pool, as_many_workers_stay_warm_as_sources_ran_at_once)
{
    start_workers(f, 6);
    run_two_sources(f);
    wait_until_warm(f, 2);
    assert_int_equal(warmups, 2);
    assert_int_equal(jobs_before_a_source(f), 1);
    wait_until_warm(f, 3);
    assert_int_equal(warmups, 3);
}

TEST_F(pool, a_worker_that_ran_a_job_of_kilnd_needs_no_warm_up)
{
    start_workers(f, 3);
    struct job hang = kernel("hang");
    pool_compile(f->pool, &hang.task);
    worker_of(f, kernel("pid"));
    assert_int_equal(jobs_before_a_source(f), 1);
    assert_int_equal(warmups, 0);
    pool_stop(f->pool);
    wait_for_job(f, &hang);
}

TEST_F(pool, a_failed_warm_up_is_not_retried_soon)
{
    enum { AT_ONCE = 3, WORKERS = 2 * AT_ONCE };
    probes_failed = 0;
    start_workers(f, WORKERS);
    for (unsigned round = 1; round <= 2; round++) {
        struct job jobs[AT_ONCE];
        for (unsigned i = 0; i < AT_ONCE; i++) {
            jobs[i] = source_for("a", "breaks");
            pool_compile(f->pool, &jobs[i].task);
        }
        wait_for_jobs(f, jobs, AT_ONCE);
        LOOP_UNTIL(f->loop, probes_failed >= 1);
        wait_until_idle(f, WORKERS);
        assert_int_equal(warmups, 1);
        assert_int_equal(pool_counts(f->pool).worker_starts, WORKERS + round * AT_ONCE + 1);
    }
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
    assert_int_equal(pool_counts(f->pool).probe_crashes, 0);
}

TEST_F(pool, only_one_worker_runs_the_first_warm_up_of_a_compiler)
{
    struct job jobs[2];
    start_workers(f, 4);
    for (int i = 0; i < 2; i++) {
        jobs[i] = source_for("a", "hangs");
        pool_compile(f->pool, &jobs[i].task);
    }
    wait_for_a_warm_up(f);
    assert_int_equal(warmups, 1);
    wait_for_jobs(f, jobs, 2);
    wait_until_idle(f, 3);
    assert_int_equal(warmups, 1);
    pool_stop(f->pool);
}

/* The worker that could not get the warm-up stays alive. */
TEST_F(pool, a_warm_up_that_cannot_be_sent_waits_for_the_next_source)
{
    struct job first = source("a"), next = source("a");
    jobs_not_given = 0;
    start_workers(f, 3);
    pool_compile(f->pool, &first.task);
    refusal = EMFILE;
    wait_for_job(f, &first);
    wait_until_idle(f, 3);
    refusal = 0;
    assert_int_equal(jobs_not_given, 1);
    assert_int_equal(warmups, 0);
    assert_int_equal(pool_counts(f->pool).worker_starts, 3 + 1);
    assert_int_equal(run_job(f, &next)->end, COMPILE_DONE);
    wait_until_idle(f, 3);
    assert_int_equal(warmups, 1);
}

/* A worker lacks a free descriptor, for example, and so cannot open a file of its compiler. */
TEST_F(pool, a_warm_up_that_lacks_a_resource_waits_for_the_next_source)
{
    start_workers(f, 3);
    warmup_end = COMPILE_UNAVAILABLE;
    worker_of(f, source("pid"));
    wait_until_idle(f, 3);
    assert_int_equal(warmups, 1);
    warmup_end = COMPILE_DONE;
    worker_of(f, source("pid"));
    wait_until_idle(f, 3);
    assert_int_equal(warmups, 2);
    assert_int_equal(jobs_before_a_source(f), 1);
}

/* On a target that was not tried yet, a warm-up could crash the worker. */
TEST_F(pool, no_worker_is_warmed_up_for_a_target_that_was_not_probed)
{
    struct job job = source("pid");
    job.task.job.target_works = false;
    start_workers(f, 6);
    worker_of(f, job);
    wait_until_idle(f, 6);
    assert_int_equal(warmups, 0);
    assert_int_equal(pool_counts(f->pool).worker_starts, 7);

    worker_of(f, source("pid"));
    worker_of(f, job);
    wait_until_warm(f, 1);
    assert_int_equal(jobs_before_a_source(f), 1);
}

TEST_F(pool, an_old_burst_of_sources_keeps_no_workers_warm)
{
    f->options.window_ms = 1;
    wanted_now = 2;
    start_workers(f, 6);
    run_two_sources(f);
    wait_until_warm(f, 2);
    assert_int_equal(warmups, 2);
    assert_int_equal(pool_counts(f->pool).worker_starts, 6 + 2);

    wanted_now = 1;
    LOOP_UNTIL(f->loop, pool_counts(f->pool).worker_starts >= 6 + 3);
    wait_until_idle(f, 6);
    assert_int_equal(warmups, 2);
    assert_int_equal(jobs_before_a_source(f), 1);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
    wanted_now = 0;
}

static struct job of_toolchain(struct job job, uint8_t id)
{
    job.task.job.toolchain_id.bytes[0] = id;
    return job;
}

TEST_F(pool, a_worker_warmed_up_for_a_compiler_before_its_upgrade_is_replaced)
{
    start_workers(f, 4);
    run_two_sources(f);
    wait_until_warm(f, 2);
    assert_int_equal(warmup_toolchain, TOOLCHAIN_ID);
    uint64_t starts = pool_counts(f->pool).worker_starts;

    struct job upgraded = of_toolchain(source("count"), 7);
    assert_int_equal(run_job(f, &upgraded)->end, COMPILE_DONE);
    assert_string_equal(upgraded.answer, "done after 0");

    wait_until_warm(f, 4);
    assert_int_equal(warmup_toolchain, 7);
    LOOP_UNTIL(f->loop, pool_counts(f->pool).worker_starts >= starts + 3);
    upgraded = of_toolchain(source("count"), 7);
    assert_int_equal(run_job(f, &upgraded)->end, COMPILE_DONE);
    assert_string_equal(upgraded.answer, "done after 1");
}

TEST_F(pool, a_worker_in_its_warm_up_is_not_busy_and_stops_with_the_pool)
{
    struct job job = source_for("a", "hangs");
    start_workers(f, 2);
    assert_int_equal(run_job(f, &job)->end, COMPILE_DONE);
    wait_for_a_warm_up(f);
    wait_until_idle(f, 1);
    assert_int_equal(warmups, 1);
    assert_int_equal(pool_counts(f->pool).busy, 0);
    assert_int_equal(pool_counts(f->pool).starting, 1);
    assert_int_equal(pool_out(f->pool), 0);
    worker_of(f, kernel("pid"));
    pool_stop(f->pool);
}

TEST_F(pool, a_source_waits_for_the_worker_that_warms_up_for_it)
{
    struct job first = source("a"), second = source("count"), third = source("count");
    start_workers(f, 2);
    pool_compile(f->pool, &first.task);
    wait_for_a_warm_up(f);
    pool_compile(f->pool, &second.task);
    wait_for_job(f, &second);
    assert_string_equal(second.answer, "done after 1");
    wait_for_job(f, &first);
    pool_compile(f->pool, &third.task);
    wait_for_job(f, &third);
    assert_int_equal(third.task.result.end, COMPILE_DONE);
}

TEST_F(pool, a_job_whose_worker_fails_its_warm_up_gets_another_worker)
{
    struct job first = source_for("a", "breaks"), second = source_for("a", "breaks");
    start_workers(f, 2);
    pool_compile(f->pool, &first.task);
    wait_for_a_warm_up(f);
    pool_compile(f->pool, &second.task);
    wait_for_job(f, &first);
    wait_for_job(f, &second);
    assert_int_equal(second.task.result.end, COMPILE_DONE);
}

TEST_F(pool, no_more_sources_wait_for_a_warm_up_than_there_are_warm_ups)
{
    struct job jobs[3];
    start_workers(f, 2);
    for (int i = 0; i < 3; i++) {
        jobs[i] = source_for("a", "hangs");
        pool_compile(f->pool, &jobs[i].task);
        wait_for_a_warm_up(f);
    }
    wait_for_job(f, &jobs[0]);
    wait_for_job(f, &jobs[2]);
    assert_false(jobs[1].ended);
    pool_stop(f->pool);
    wait_for_job(f, &jobs[1]);
    assert_int_equal(jobs[1].task.result.end, COMPILE_UNAVAILABLE);
}

TEST_F(pool, a_source_waits_no_longer_than_a_warm_up_should_take)
{
    struct job jobs[2] = { source_for("a", "hangs"), source_for("a", "hangs") };
    f->options.grace_ms = 1;
    start_workers(f, 3);
    for (int i = 0; i < 2; i++) {
        pool_compile(f->pool, &jobs[i].task);
        wait_for_a_warm_up(f);
    }
    wait_for_job(f, &jobs[0]);
    wait_for_job(f, &jobs[1]); /* a cold worker runs this job, because the warm-up never ends */
    assert_int_equal(jobs[1].task.result.end, COMPILE_DONE);
    pool_stop(f->pool);
}

TEST_F(pool, a_worker_that_may_run_one_job_is_not_warmed_up)
{
    f->options.limits.jobs = 1;
    start_pool(f);
    assert_int_equal(jobs_before_a_source(f), 0);
    wait_until_idle(f, 1);
    assert_int_equal(jobs_before_a_source(f), 0);
    assert_int_equal(warmups, 0);
}

TEST_F(pool, the_confinement_of_workers_is_known_once_one_has_reported_it)
{
    start_pool(f);
    assert_false(pool_confinement(f->pool).known);
    wait_until_idle(f, 1);
    assert_true(pool_confinement(f->pool).known);
    assert_int_equal(pool_confinement(f->pool).sandbox.has, LAYERS_ALL);
}

static void remove_network_layer(void)
{
    handshake.has &= ~(1u << LAYER_network);
    strcpy(handshake.why, "network: Operation not permitted");
}

TEST_F(pool, a_worker_without_an_optional_layer_is_used)
{
    struct job job = kernel("a");
    remove_network_layer();
    start_pool(f);
    assert_int_equal(run_job(f, &job)->end, COMPILE_DONE);
    struct pool_confinement confinement = pool_confinement(f->pool);
    assert_false(report_has(&confinement.sandbox, LAYER_network));
    assert_false(confinement.required);
}

TEST_F(pool, a_worker_without_a_required_layer_gets_no_job)
{
    struct job job = kernel("a"), later = kernel("b");
    remove_network_layer();
    f->options.require_sandbox = true;
    start_pool(f);

    assert_int_equal(run_job(f, &job)->end, COMPILE_UNAVAILABLE);
    assert_int_equal(run_job(f, &later)->end, COMPILE_UNAVAILABLE);

    const char *text = job.task.result.err.text;
    assert_int_equal(job.task.result.err.code, KILN_UNAVAILABLE);
    assert_says(text, "network");
    assert_says(text, "CAP_SYS_ADMIN");
    assert_says(text, "'warn'");
    assert_true(pool_confinement(f->pool).known);
    assert_true(pool_confinement(f->pool).required);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
}

TEST_F(pool, a_worker_with_every_required_layer_is_used)
{
    struct job job = kernel("a");
    f->options.require_sandbox = true;
    start_pool(f);
    assert_int_equal(run_job(f, &job)->end, COMPILE_DONE);
}

/* Crashes the worker that has loaded |toolchain|, or else a cold one. Waits until another worker
 * has replaced it. */
static void replace_one(struct fixture *f, const char *toolchain)
{
    struct job crash = kernel("crash");
    crash.task.job.toolchain = bytes_of_text(toolchain);
    assert_int_equal(run_job(f, &crash)->end, COMPILE_CRASHED);
    wait_until_idle(f, 2);
}

TEST_F(pool, the_weakest_confinement_among_workers_is_reported)
{
    struct pool_confinement confinement;
    remove_network_layer();
    start_workers(f, 2);
    handshake = (struct sandbox_report){ .has = LAYERS_ALL & ~(1u << LAYER_landlock),
                                         .landlock = 0,
                                         .why = "landlock: none" };
    worker_of(f, kernel("pid"));
    replace_one(f, "clang");
    confinement = pool_confinement(f->pool);
    assert_int_equal(LAYERS_ALL & ~confinement.sandbox.has,
                     1u << LAYER_network | 1u << LAYER_landlock);
    assert_int_equal(confinement.sandbox.landlock, 0);
    assert_says(confinement.sandbox.why, "network: Operation");
    assert_says(confinement.sandbox.why, "landlock: none");

    handshake = (struct sandbox_report){ .has = LAYERS_ALL, .landlock = 7 };
    replace_one(f, "hiprtc");
    confinement = pool_confinement(f->pool);
    assert_true(report_has(&confinement.sandbox, LAYER_network) ||
                report_has(&confinement.sandbox, LAYER_landlock));
}

TEST_F(pool, each_set_of_missing_sandbox_layers_is_reported_once)
{
    struct job crash = kernel("crash");
    notices.count = 0;
    remove_network_layer();
    start_workers(f, 3);
    assert_int_equal(notices.count, 1);
    assert_says(notices.text, "network;");

    handshake.has &= ~(1u << LAYER_ipc);
    run_job(f, &crash);
    wait_until_idle(f, 3);
    assert_int_equal(notices.count, 2);
    assert_says(notices.text, "network, ipc");
    crash.ended = false;
    run_job(f, &crash);
    wait_until_idle(f, 3);
    assert_int_equal(notices.count, 2);
}
