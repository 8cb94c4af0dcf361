/* SPDX-License-Identifier: MIT */
/* What a worker takes after which job, and what the pool tells of the workers' sandbox. */
#include "tests/unit/daemon/pool_fixture.h"

#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    unsigned count;
    char text[800];
} notices;                     /* about what the sandbox lacks */
static unsigned probes_failed; /* that the log tells of */
static unsigned not_given;     /* likewise */

static unsigned wanted_now; /* prepared; 0: what is told by the sources that came */

unsigned __real_warmup_wanted(struct warmup_need *need, uint64_t now_ns);
unsigned __wrap_warmup_wanted(struct warmup_need *need, uint64_t now_ns);
unsigned __wrap_warmup_wanted(struct warmup_need *need, uint64_t now_ns)
{
    return wanted_now ? wanted_now : __real_warmup_wanted(need, now_ns);
}

void __wrap_log_event(enum log_event event, const struct log_fields *fields, const char *fmt, ...)
    KILN_PRINTF(3, 4);
void __wrap_log_event(enum log_event event, const struct log_fields *fields, const char *fmt, ...)
{
    va_list list;
    (void)fields;
    probes_failed += event == LOG_EVENT_probe_failed;
    not_given += event == LOG_EVENT_job_not_given;
    if (event != LOG_EVENT_compiler_notice)
        return;
    notices.count++;
    va_start(list, fmt);
    vsnprintf(notices.text, sizeof(notices.text), fmt, list);
    va_end(list);
}

/* ---- what a worker takes ---- */

/* The pid of the worker that |job| went to. */
static int worker_of(struct fixture *f, struct job job)
{
    int pid = 0;
    assert_int_equal(run(f, &job)->end, COMPILE_DONE);
    assert_int_equal(sscanf(job.answer, "done %d", &pid), 1);
    return pid;
}

/* How many jobs the worker of a client's source had before it. */
static int jobs_before_a_source(struct fixture *f)
{
    struct job job = source("how many");
    int count = -1;
    assert_int_equal(run(f, &job)->end, COMPILE_DONE);
    assert_int_equal(sscanf(job.answer, "done after %d", &count), 1);
    return count;
}

TEST(pool, a_worker_that_had_a_clients_source_gets_no_other_job)
{
    struct fixture *f = *state;
    start(f);
    int first = worker_of(f, source("who"));
    int second = worker_of(f, source("who"));
    int third = worker_of(f, kernel("who"));
    assert_int_not_equal(first, second);
    assert_int_not_equal(first, third);
    assert_int_not_equal(second, third);
    assert_int_equal(pool_counts(f->pool).worker_starts, 3);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
}

TEST(pool, kilns_own_share_a_worker_and_a_source_may_be_its_last)
{
    struct fixture *f = *state;
    start(f);
    int first = worker_of(f, kernel("who"));
    assert_int_equal(worker_of(f, kernel("who")), first);
    assert_int_equal(worker_of(f, source("who")), first);
    assert_int_not_equal(worker_of(f, kernel("who")), first);
    assert_int_equal(pool_counts(f->pool).worker_starts, 2);
}

TEST(pool, many_sources_on_few_workers_each_get_one_of_their_own)
{
    enum { SOURCES = 24 };
    struct fixture *f = *state;
    struct job jobs[SOURCES];
    f->options.workers = 2;
    start(f);
    for (int i = 0; i < SOURCES; i++) {
        jobs[i] = source("a");
        pool_compile(f->pool, &jobs[i].task);
    }
    for (int i = 0; i < SOURCES; i++) {
        wait_for(f, &jobs[i]);
        assert_int_equal(jobs[i].task.result.end, COMPILE_DONE);
    }
    assert_in_range(pool_counts(f->pool).worker_starts, SOURCES, SOURCES + 2);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
    wait_until_idle(f, 2);
    assert_int_equal(pool_counts(f->pool).worker_starts, SOURCES + 2);
}

TEST(pool, sources_for_one_worker_run_in_order_and_wait_for_no_warm_up)
{
    struct fixture *f = *state;
    struct job jobs[6];
    start(f);
    for (int i = 0; i < 6; i++) {
        jobs[i] = i % 3 ? source("a") : kernel("a");
        pool_compile(f->pool, &jobs[i].task);
    }
    for (int i = 0; i < 6; i++) {
        wait_for(f, &jobs[i]);
        assert_int_equal(jobs[i].task.result.end, COMPILE_DONE);
        assert_true(i == 5 || !jobs[i + 1].ended);
    }
    assert_in_range(pool_counts(f->pool).worker_starts, 4, 5); /* one for the next */
    assert_int_equal(warmups, 0);
}

TEST(pool, a_source_that_crashes_or_is_too_slow_costs_its_own_worker_alone)
{
    struct fixture *f = *state;
    struct job crash = source("crash"), hang = source("hang");
    f->options.workers = 2;
    start(f);
    wait_until_idle(f, 2);
    assert_int_equal(run(f, &crash)->end, COMPILE_CRASHED);
    pool_set_timeout(f->pool, 50);
    assert_int_equal(run(f, &hang)->end, COMPILE_TIMED_OUT);
    pool_set_timeout(f->pool, 60000);
    worker_of(f, source("who"));
    wait_until_idle(f, 2);
    assert_int_equal(pool_counts(f->pool).worker_starts, 5);
}

TEST(pool, a_worker_that_tried_a_clients_target_gets_no_other_job)
{
    struct fixture *f = *state;
    struct job probe = job_of("who", COMPILE_PROBE);
    int first = 0;
    start(f);
    probe.task.job.origin = COMPILE_OF_CLIENT;
    assert_int_equal(run(f, &probe)->end, COMPILE_DONE);
    assert_int_equal(sscanf(probe.answer, "done %d", &first), 1);
    assert_int_not_equal(worker_of(f, kernel("who")), first);
    wait_until_idle(f, 1);
    assert_int_equal(warmups, 0);
}

TEST(pool, a_source_fails_when_no_fresh_worker_can_be_started)
{
    struct fixture *f = *state;
    struct job job = source("a");
    start(f);
    wait_until_idle(f, 1);
    setenv("FAKE_WORKER", "dies", 1);
    worker_of(f, source("who"));
    assert_int_equal(run(f, &job)->end, COMPILE_UNAVAILABLE);
    assert_says(job.task.result.err.text, "ready");
    unsetenv("FAKE_WORKER");
}

/* ---- what a worker loads ahead of the next source ---- */

static void wait_until_prepared(struct fixture *f, unsigned count)
{
    LOOP_UNTIL(f->loop, warmups >= count && pool_counts(f->pool).idle >= f->options.workers);
}

static void wait_until_one_prepares(struct fixture *f) { LOOP_UNTIL(f->loop, warmups >= 1); }

TEST(pool, the_next_source_finds_a_worker_prepared)
{
    struct fixture *f = *state;
    f->options.workers = 2;
    start(f);
    wait_until_idle(f, 2);
    assert_int_equal(jobs_before_a_source(f), 0);
    for (unsigned i = 1; i < 5; i++) {
        wait_until_prepared(f, i);
        assert_int_equal(warmups, i);
        assert_int_equal(jobs_before_a_source(f), 1);
    }
}

TEST(pool, nothing_is_prepared_before_a_client_sends_a_source)
{
    struct fixture *f = *state;
    f->options.workers = 2;
    start(f);
    wait_until_idle(f, 2);
    worker_of(f, kernel("who"));
    worker_of(f, kernel("who"));
    assert_int_equal(warmups, 0);
    assert_int_equal(pool_counts(f->pool).idle, 2);
}

TEST(pool, jobs_that_come_together_are_all_begun_before_anything_is_prepared)
{
    struct fixture *f = *state;
    struct job first = source("how many"), second = source("how many");
    f->options.workers = 2;
    start(f);
    wait_until_idle(f, 2);
    pool_compile(f->pool, &first.task);
    pool_compile(f->pool, &second.task);
    assert_int_equal(pool_counts(f->pool).busy, 2);
    wait_for(f, &first);
    wait_for(f, &second);
    assert_string_equal(first.answer, "done after 0");
    assert_string_equal(second.answer, "done after 0");
}

TEST(pool, as_many_are_kept_prepared_as_were_under_way_at_once)
{
    struct fixture *f = *state;
    struct job first = source("a"), second = source("a");
    f->options.workers = 6;
    start(f);
    wait_until_idle(f, 6);
    pool_compile(f->pool, &first.task);
    pool_compile(f->pool, &second.task);
    wait_for(f, &first);
    wait_for(f, &second);
    wait_until_prepared(f, 2);
    assert_int_equal(warmups, 2);
    assert_int_equal(jobs_before_a_source(f), 1);
    wait_until_prepared(f, 3);
    assert_int_equal(warmups, 3);
}

TEST(pool, a_library_loaded_for_a_job_of_kilnd_is_not_loaded_again)
{
    struct fixture *f = *state;
    f->options.workers = 3;
    start(f);
    wait_until_idle(f, 3);
    struct job hang = kernel("hang");
    pool_compile(f->pool, &hang.task); /* so that another has it loaded, too */
    worker_of(f, kernel("who"));
    assert_int_equal(jobs_before_a_source(f), 1);
    assert_int_equal(warmups, 0);
    pool_stop(f->pool);
    wait_for(f, &hang);
}

/* In as many processes as came sources at once, and again for each. */
TEST(pool, a_failed_warm_up_is_not_retried_soon)
{
    enum { AT_ONCE = 3, WORKERS = 2 * AT_ONCE };
    struct fixture *f = *state;
    probes_failed = 0;
    f->options.workers = WORKERS;
    start(f);
    wait_until_idle(f, WORKERS);
    for (unsigned round = 1; round <= 2; round++) {
        struct job jobs[AT_ONCE];
        for (unsigned i = 0; i < AT_ONCE; i++) {
            jobs[i] = source("a");
            jobs[i].task.job.toolchain = bytes_of_text("breaks");
            pool_compile(f->pool, &jobs[i].task);
        }
        for (unsigned i = 0; i < AT_ONCE; i++)
            wait_for(f, &jobs[i]);
        LOOP_UNTIL(f->loop, probes_failed >= 1);
        wait_until_idle(f, WORKERS);
        assert_int_equal(warmups, 1);
        assert_int_equal(pool_counts(f->pool).worker_starts, WORKERS + round * AT_ONCE + 1);
    }
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
    assert_int_equal(pool_counts(f->pool).probe_crashes, 0);
}

TEST(pool, the_first_to_prepare_does_so_alone)
{
    struct fixture *f = *state;
    struct job jobs[2];
    f->options.workers = 4;
    start(f);
    wait_until_idle(f, 4);
    for (int i = 0; i < 2; i++) {
        jobs[i] = source("a");
        jobs[i].task.job.toolchain = bytes_of_text("hangs");
        pool_compile(f->pool, &jobs[i].task);
    }
    wait_until_one_prepares(f);
    assert_int_equal(warmups, 1);
    wait_for(f, &jobs[0]);
    wait_for(f, &jobs[1]);
    wait_until_idle(f, 3); /* all but that */
    assert_int_equal(warmups, 1);
    pool_stop(f->pool);
}

/* Nor is a worker killed that it cannot be given to. */
TEST(pool, a_warm_up_that_cannot_be_handed_over_waits_for_the_next_source)
{
    struct fixture *f = *state;
    struct job first = source("a"), next = source("a");
    not_given = 0;
    f->options.workers = 3;
    start(f);
    wait_until_idle(f, 3);
    pool_compile(f->pool, &first.task);
    refusal = EMFILE;
    wait_for(f, &first);
    wait_until_idle(f, 3);
    refusal = 0;
    assert_int_equal(not_given, 1);
    assert_int_equal(warmups, 0);
    assert_int_equal(pool_counts(f->pool).worker_starts, 3 + 1); /* for the one that is spent */
    assert_int_equal(run(f, &next)->end, COMPILE_DONE);
    wait_until_idle(f, 3);
    assert_int_equal(warmups, 1);
}

/* As where a worker has no descriptor left to look at its compiler with. */
TEST(pool, a_warm_up_that_lacks_something_waits_for_the_next_source)
{
    struct fixture *f = *state;
    f->options.workers = 3;
    start(f);
    wait_until_idle(f, 3);
    prepared_as = COMPILE_UNAVAILABLE;
    worker_of(f, source("who"));
    wait_until_idle(f, 3);
    assert_int_equal(warmups, 1);
    prepared_as = COMPILE_DONE;
    worker_of(f, source("who"));
    wait_until_idle(f, 3);
    assert_int_equal(warmups, 2);
    assert_int_equal(jobs_before_a_source(f), 1);
}

/* As each would crash. */
TEST(pool, nothing_is_prepared_for_a_target_that_no_probe_was_made_for)
{
    struct fixture *f = *state;
    struct job job = source("who");
    f->options.workers = 6;
    job.task.job.target_works = false;
    start(f);
    wait_until_idle(f, 6);
    worker_of(f, job);
    wait_until_idle(f, 6);
    assert_int_equal(warmups, 0);
    assert_int_equal(pool_counts(f->pool).worker_starts, 7);

    worker_of(f, source("who"));
    worker_of(f, job); /* does not make it forget what the one before needs */
    wait_until_prepared(f, 1);
    assert_int_equal(jobs_before_a_source(f), 1);
}

static void sources_of_two(struct fixture *f)
{
    struct job first = source("a"), second = source("a");
    pool_compile(f->pool, &first.task);
    pool_compile(f->pool, &second.task);
    wait_for(f, &first);
    wait_for(f, &second);
}

TEST(pool, an_old_burst_of_sources_keeps_no_workers_warm)
{
    struct fixture *f = *state;
    f->options.workers = 6;
    f->options.window_ms = 1;
    wanted_now = 2;
    start(f);
    wait_until_idle(f, 6);
    sources_of_two(f);
    wait_until_prepared(f, 2);
    assert_int_equal(warmups, 2);
    assert_int_equal(pool_counts(f->pool).worker_starts, 6 + 2);

    wanted_now = 1;
    LOOP_UNTIL(f->loop,
               pool_counts(f->pool).worker_starts >= 6 + 3); /* in the place of one of the two */
    wait_until_idle(f, 6);
    assert_int_equal(warmups, 2);
    assert_int_equal(jobs_before_a_source(f), 1); /* the other is still there */
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
    wanted_now = 0;
}

static struct job of_toolchain(struct job job, uint8_t id)
{
    job.task.job.toolchain_id.bytes[0] = id;
    return job;
}

TEST(pool, a_worker_warmed_up_for_a_compiler_before_its_upgrade_is_replaced)
{
    struct fixture *f = *state;
    f->options.workers = 4;
    start(f);
    wait_until_idle(f, 4);
    sources_of_two(f);
    wait_until_prepared(f, 2);
    assert_int_equal(prepared_for, TOOLCHAIN_ID);
    uint64_t starts = pool_counts(f->pool).worker_starts;

    struct job upgraded = of_toolchain(source("how many"), 7);
    assert_int_equal(run(f, &upgraded)->end, COMPILE_DONE);
    assert_string_equal(upgraded.answer, "done after 0");

    wait_until_prepared(f, 4);
    assert_int_equal(prepared_for, 7);
    LOOP_UNTIL(f->loop,
               pool_counts(f->pool).worker_starts >= starts + 3); /* its own, and the two */
    upgraded = of_toolchain(source("how many"), 7);
    assert_int_equal(run(f, &upgraded)->end, COMPILE_DONE);
    assert_string_equal(upgraded.answer, "done after 1");
}

TEST(pool, one_that_prepares_is_not_busy_and_stops_with_the_pool)
{
    struct fixture *f = *state;
    struct job job = source("a");
    job.task.job.toolchain = bytes_of_text("hangs");
    f->options.workers = 2;
    start(f);
    wait_until_idle(f, 2);
    assert_int_equal(run(f, &job)->end, COMPILE_DONE);
    wait_until_one_prepares(f);
    wait_until_idle(f, 1); /* in the place of the one that is spent */
    assert_int_equal(warmups, 1);
    assert_int_equal(pool_counts(f->pool).busy, 0);
    assert_int_equal(pool_counts(f->pool).starting, 1);
    assert_int_equal(pool_out(f->pool), 0);
    worker_of(f, kernel("who")); /* does not wait for it */
    pool_stop(f->pool);
}

TEST(pool, a_source_waits_for_the_one_that_prepares_for_it)
{
    struct fixture *f = *state;
    struct job first = source("a"), second = source("how many"), third = source("how many");
    f->options.workers = 2;
    start(f);
    wait_until_idle(f, 2);
    pool_compile(f->pool, &first.task);
    wait_until_one_prepares(f);
    pool_compile(f->pool, &second.task);
    wait_for(f, &second);
    assert_string_equal(second.answer, "done after 1");
    wait_for(f, &first);
    pool_compile(f->pool, &third.task);
    wait_for(f, &third);
    assert_int_equal(third.task.result.end, COMPILE_DONE);
}

TEST(pool, a_job_whose_worker_fails_its_warm_up_gets_another_worker)
{
    struct fixture *f = *state;
    struct job first = source("a"), second = source("a");
    first.task.job.toolchain = second.task.job.toolchain = bytes_of_text("breaks");
    f->options.workers = 2;
    start(f);
    wait_until_idle(f, 2);
    pool_compile(f->pool, &first.task);
    wait_until_one_prepares(f);
    pool_compile(f->pool, &second.task);
    wait_for(f, &first);
    wait_for(f, &second);
    assert_int_equal(second.task.result.end, COMPILE_DONE);
}

TEST(pool, no_more_sources_wait_for_a_warm_up_than_there_are_warm_ups)
{
    struct fixture *f = *state;
    struct job jobs[3];
    f->options.workers = 2;
    start(f);
    wait_until_idle(f, 2);
    for (int i = 0; i < 3; i++) {
        jobs[i] = source("a");
        jobs[i].task.job.toolchain = bytes_of_text("hangs");
        pool_compile(f->pool, &jobs[i].task);
        wait_until_one_prepares(f);
    }
    wait_for(f, &jobs[0]);
    wait_for(f, &jobs[2]); /* by one that has nothing loaded */
    assert_false(jobs[1].ended);
    pool_stop(f->pool);
    wait_for(f, &jobs[1]);
    assert_int_equal(jobs[1].task.result.end, COMPILE_UNAVAILABLE);
}

TEST(pool, a_source_waits_no_longer_than_a_warm_up_should_take)
{
    struct fixture *f = *state;
    struct job jobs[2] = { source("a"), source("a") };
    f->options.workers = 3;
    f->options.grace_ms = 1;
    start(f);
    wait_until_idle(f, 3);
    for (int i = 0; i < 2; i++) {
        jobs[i].task.job.toolchain = bytes_of_text("hangs");
        pool_compile(f->pool, &jobs[i].task);
        wait_until_one_prepares(f);
    }
    wait_for(f, &jobs[0]);
    wait_for(f, &jobs[1]); /* by one that has nothing loaded: the preparation never ends */
    assert_int_equal(jobs[1].task.result.end, COMPILE_DONE);
    pool_stop(f->pool);
}

TEST(pool, a_worker_of_one_job_is_not_prepared)
{
    struct fixture *f = *state;
    f->options.limits.jobs = 1;
    start(f);
    assert_int_equal(jobs_before_a_source(f), 0);
    wait_until_idle(f, 1);
    assert_int_equal(jobs_before_a_source(f), 0);
    assert_int_equal(warmups, 0);
}

/* ---- what confines workers ---- */

TEST(pool, the_confinement_of_workers_is_known_once_one_has_reported_it)
{
    struct fixture *f = *state;
    start(f);
    assert_false(pool_confinement(f->pool).known);
    wait_until_idle(f, 1);
    assert_true(pool_confinement(f->pool).known);
    assert_int_equal(pool_confinement(f->pool).sandbox.has, LAYERS_ALL);
}

static void lack_network(void)
{
    handshake.has &= ~(1u << LAYER_network);
    strcpy(handshake.why, "network: Operation not permitted");
}

TEST(pool, a_worker_that_lacks_a_layer_is_used_where_that_is_allowed)
{
    struct fixture *f = *state;
    struct job job = kernel("a");
    lack_network();
    start(f);
    assert_int_equal(run(f, &job)->end, COMPILE_DONE);
    struct pool_confinement confinement = pool_confinement(f->pool);
    assert_false(report_has(&confinement.sandbox, LAYER_network));
    assert_false(confinement.required);
}

TEST(pool, a_worker_that_lacks_a_required_layer_is_given_nothing)
{
    struct fixture *f = *state;
    struct job job = kernel("a"), later = kernel("b");
    lack_network();
    f->options.require_sandbox = true;
    start(f);

    assert_int_equal(run(f, &job)->end, COMPILE_UNAVAILABLE);
    assert_int_equal(run(f, &later)->end, COMPILE_UNAVAILABLE);

    const char *text = job.task.result.err.text;
    assert_int_equal(job.task.result.err.code, KILN_UNAVAILABLE);
    assert_says(text, "missing: network");
    assert_says(text, "CAP_SYS_ADMIN");
    assert_says(text, "'warn'");
    assert_true(pool_confinement(f->pool).known); /* for who asks what is wrong */
    assert_true(pool_confinement(f->pool).required);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
}

TEST(pool, a_worker_that_has_every_required_layer_is_used)
{
    struct fixture *f = *state;
    struct job job = kernel("a");
    f->options.require_sandbox = true;
    start(f);
    assert_int_equal(run(f, &job)->end, COMPILE_DONE);
}

/* The worker that has |toolchain| loaded, or one that has nothing loaded, crashes: a new one comes
 * in its place. */
static void replace_one(struct fixture *f, const char *toolchain)
{
    struct job crash = kernel("crash");
    crash.task.job.toolchain = bytes_of_text(toolchain);
    assert_int_equal(run(f, &crash)->end, COMPILE_CRASHED);
    wait_until_idle(f, 2);
}

TEST(pool, the_weakest_confinement_among_workers_is_reported)
{
    struct fixture *f = *state;
    struct pool_confinement confinement;
    f->options.workers = 2;
    lack_network();
    start(f);
    wait_until_idle(f, 2);
    handshake = (struct sandbox_report){ .has = LAYERS_ALL & ~(1u << LAYER_landlock),
                                         .landlock = 0,
                                         .why = "landlock: none" };
    worker_of(f, kernel("who")); /* by hiprtc */
    replace_one(f, "clang");
    confinement = pool_confinement(f->pool);
    assert_int_equal(LAYERS_ALL & ~confinement.sandbox.has,
                     1u << LAYER_network | 1u << LAYER_landlock);
    assert_int_equal(confinement.sandbox.landlock, 0);
    assert_says(confinement.sandbox.why, "network: Operation");
    assert_says(confinement.sandbox.why, "landlock: none");

    handshake = (struct sandbox_report){ .has = LAYERS_ALL, .landlock = 7 };
    replace_one(f, "hiprtc"); /* the one that had no network */
    confinement = pool_confinement(f->pool);
    assert_true(report_has(&confinement.sandbox, LAYER_network) ||
                report_has(&confinement.sandbox, LAYER_landlock));
}

TEST(pool, each_set_of_missing_sandbox_layers_is_reported_once)
{
    struct fixture *f = *state;
    struct job crash = kernel("crash");
    notices.count = 0;
    f->options.workers = 3;
    lack_network();
    start(f);
    wait_until_idle(f, 3);
    assert_int_equal(notices.count, 1);
    assert_says(notices.text, "network;");

    handshake.has &= ~(1u << LAYER_ipc);
    run(f, &crash);
    wait_until_idle(f, 3);
    assert_int_equal(notices.count, 2);
    assert_says(notices.text, "network, ipc");
    crash.ended = false;
    run(f, &crash);
    wait_until_idle(f, 3);
    assert_int_equal(notices.count, 2);
}
