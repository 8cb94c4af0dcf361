/* SPDX-License-Identifier: MIT */
/* Whose jobs a worker takes, and what the pool tells of the workers' sandbox. */
#include "tests/unit/daemon/pool_fixture.h"

#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    unsigned count;
    char text[800];
} notices; /* about what the sandbox lacks */

void __wrap_log_event(enum log_event event, const struct log_fields *fields, const char *fmt, ...)
    KILN_PRINTF(3, 4);
void __wrap_log_event(enum log_event event, const struct log_fields *fields, const char *fmt, ...)
{
    va_list list;
    (void)fields;
    if (event != LOG_EVENT_compiler_notice)
        return;
    notices.count++;
    va_start(list, fmt);
    vsnprintf(notices.text, sizeof(notices.text), fmt, list);
    va_end(list);
}

/* ---- whose jobs a worker takes ---- */

static const struct compile_asker alice = { .kind = ASKER_USER, .uid = 1000 };
static const struct compile_asker bob = { .kind = ASKER_USER, .uid = 1001 };
static const struct compile_asker anybody = { .kind = ASKER_ANYBODY, .uid = 65534 };
static const struct compile_asker kilnd = { .kind = ASKER_KILND };

/* The pid of the worker that a job of |asker| went to. */
static int worker_of(struct fixture *f, const struct compile_asker *asker)
{
    struct job job = kernel("who");
    int pid = 0;
    job.task.asker = *asker;
    assert_int_equal(run(f, &job)->end, COMPILE_DONE);
    assert_int_equal(sscanf(last_answer, "done %d", &pid), 1);
    return pid;
}

static void no_worker_serves_two_users(void **state)
{
    struct fixture *f = *state;
    start(f);
    int first = worker_of(f, &alice);
    assert_int_equal(worker_of(f, &alice), first);
    int second = worker_of(f, &bob);
    assert_int_not_equal(second, first);
    assert_int_equal(worker_of(f, &bob), second);
    assert_int_not_equal(worker_of(f, &alice), first); /* that one is no more */
    assert_int_equal(pool_counts(f->pool).worker_starts, 3);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
}

static void users_keep_their_workers_where_there_are_enough(void **state)
{
    struct fixture *f = *state;
    f->options.workers = 2;
    start(f);
    wait_until_idle(f, 2);
    int first = worker_of(f, &alice), second = worker_of(f, &bob);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(worker_of(f, &alice), first);
        assert_int_equal(worker_of(f, &bob), second);
    }
    assert_int_equal(pool_counts(f->pool).worker_starts, 2);
}

static void whoever_cannot_be_told_from_others_gets_a_worker_for_each_job(void **state)
{
    struct fixture *f = *state;
    int seen[4];
    f->options.workers = 2;
    start(f);
    wait_until_idle(f, 2);
    seen[0] = worker_of(f, &anybody);
    seen[1] = worker_of(f, &anybody);
    seen[2] = worker_of(f, &alice);
    seen[3] = worker_of(f, &anybody);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
    }
}

static void what_kilnd_asks_itself_binds_a_worker_to_nobody_and_goes_to_none_that_is_bound(
    void **state)
{
    struct fixture *f = *state;
    start(f);
    int first = worker_of(f, &kilnd);
    assert_int_equal(worker_of(f, &alice), first);
    assert_int_not_equal(worker_of(f, &kilnd), first);
}

/* One of Alice's is at work, the other makes room for Bob; her next job does not wait for it. */
static void a_job_that_waits_for_a_fresh_worker_holds_up_nobody_elses(void **state)
{
    struct fixture *f = *state;
    struct job hang = kernel("hang"), of_bob = kernel("a");
    f->options.workers = 2;
    start(f);
    wait_until_idle(f, 2);
    pool_compile(f->pool, &hang.task);
    worker_of(f, &alice);
    of_bob.task.asker = bob;
    pool_compile(f->pool, &of_bob.task);
    wait_for(f, &of_bob);
    assert_int_equal(of_bob.task.outcome.end, COMPILE_DONE);
    assert_false(hang.ended);
    assert_int_equal(pool_counts(f->pool).worker_starts, 3);
    pool_stop(f->pool);
    wait_for(f, &hang);
}

static void users_in_turns_on_one_worker_all_get_theirs_in_order(void **state)
{
    struct fixture *f = *state;
    struct job jobs[6];
    start(f);
    for (int i = 0; i < 6; i++) {
        jobs[i] = kernel("a");
        jobs[i].task.asker = i % 2 ? bob : alice;
        pool_compile(f->pool, &jobs[i].task);
    }
    for (int i = 0; i < 6; i++) {
        wait_for(f, &jobs[i]);
        assert_int_equal(jobs[i].task.outcome.end, COMPILE_DONE);
        assert_true(i == 5 || !jobs[i + 1].ended);
    }
    assert_int_equal(pool_counts(f->pool).worker_starts, 6);
}

static void a_job_is_told_when_no_fresh_worker_can_be_had_for_its_user(void **state)
{
    struct fixture *f = *state;
    struct job job = kernel("a");
    start(f);
    worker_of(f, &alice);
    setenv("FAKE_WORKER", "dies", 1);
    job.task.asker = bob;
    assert_int_equal(run(f, &job)->end, COMPILE_UNAVAILABLE);
    assert_says(job.task.outcome.err.text, "before it was ready");
    unsetenv("FAKE_WORKER");
}

/* ---- what confines workers ---- */

static void what_confines_workers_is_known_once_one_has_said(void **state)
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
    greeting.has &= ~(1u << LAYER_network);
    strcpy(greeting.why, "network: Operation not permitted");
}

static void a_worker_that_lacks_a_layer_is_used_where_that_is_allowed(void **state)
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

static void a_worker_that_lacks_a_required_layer_is_given_nothing(void **state)
{
    struct fixture *f = *state;
    struct job job = kernel("a"), later = kernel("b");
    lack_network();
    f->options.require_sandbox = true;
    start(f);

    assert_int_equal(run(f, &job)->end, COMPILE_UNAVAILABLE);
    assert_int_equal(run(f, &later)->end, COMPILE_UNAVAILABLE);

    const char *text = job.task.outcome.err.text;
    assert_int_equal(job.task.outcome.err.code, KILN_UNAVAILABLE);
    assert_says(text, "missing: network");
    assert_says(text, "CAP_SYS_ADMIN");
    assert_says(text, "set sandbox to 'warn'");
    assert_true(pool_confinement(f->pool).known); /* for who asks what is wrong */
    assert_true(pool_confinement(f->pool).required);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
}

static void a_worker_that_has_every_required_layer_is_used(void **state)
{
    struct fixture *f = *state;
    struct job job = kernel("a");
    f->options.require_sandbox = true;
    start(f);
    assert_int_equal(run(f, &job)->end, COMPILE_DONE);
}

/* Alice's work goes to the one that came last, Bob's to the other: where that crashes, a new one
 * comes in its place. */
static void replace_one(struct fixture *f)
{
    struct job crash = kernel("crash");
    worker_of(f, &alice);
    crash.task.asker = bob;
    assert_int_equal(run(f, &crash)->end, COMPILE_CRASHED);
    wait_until_idle(f, 2);
}

static void the_worst_of_the_workers_there_are_is_told(void **state)
{
    struct fixture *f = *state;
    struct pool_confinement confinement;
    f->options.workers = 2;
    lack_network();
    start(f);
    wait_until_idle(f, 2);
    greeting = (struct sandbox_report){ .has = LAYERS_ALL & ~(1u << LAYER_landlock),
                                        .landlock = 0,
                                        .why = "landlock: none" };
    replace_one(f);
    confinement = pool_confinement(f->pool);
    assert_int_equal(LAYERS_ALL & ~confinement.sandbox.has,
                     1u << LAYER_network | 1u << LAYER_landlock);
    assert_int_equal(confinement.sandbox.landlock, 0);
    assert_says(confinement.sandbox.why, "network: Operation not permitted");
    assert_says(confinement.sandbox.why, "landlock: none");

    greeting = (struct sandbox_report){ .has = LAYERS_ALL, .landlock = 7 };
    replace_one(f); /* the one that had no network */
    confinement = pool_confinement(f->pool);
    assert_true(report_has(&confinement.sandbox, LAYER_network) ||
                report_has(&confinement.sandbox, LAYER_landlock));
}

static void what_is_missing_is_said_once_and_what_comes_to_lack_later_as_well(void **state)
{
    struct fixture *f = *state;
    struct job crash = kernel("crash");
    notices.count = 0;
    f->options.workers = 3;
    lack_network();
    start(f);
    wait_until_idle(f, 3);
    assert_int_equal(notices.count, 1);
    assert_says(notices.text, "their sandbox: network;");

    greeting.has &= ~(1u << LAYER_ipc);
    run(f, &crash);
    wait_until_idle(f, 3);
    assert_int_equal(notices.count, 2);
    assert_says(notices.text, "network, ipc");
    crash.ended = false;
    run(f, &crash);
    wait_until_idle(f, 3);
    assert_int_equal(notices.count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        POOL_TEST(what_confines_workers_is_known_once_one_has_said),
        POOL_TEST(a_worker_that_lacks_a_layer_is_used_where_that_is_allowed),
        POOL_TEST(a_worker_that_lacks_a_required_layer_is_given_nothing),
        POOL_TEST(a_worker_that_has_every_required_layer_is_used),
        POOL_TEST(no_worker_serves_two_users),
        POOL_TEST(users_keep_their_workers_where_there_are_enough),
        POOL_TEST(whoever_cannot_be_told_from_others_gets_a_worker_for_each_job),
        POOL_TEST(what_kilnd_asks_itself_binds_a_worker_to_nobody_and_goes_to_none_that_is_bound),
        POOL_TEST(a_job_that_waits_for_a_fresh_worker_holds_up_nobody_elses),
        POOL_TEST(users_in_turns_on_one_worker_all_get_theirs_in_order),
        POOL_TEST(a_job_is_told_when_no_fresh_worker_can_be_had_for_its_user),
        POOL_TEST(the_worst_of_the_workers_there_are_is_told),
        POOL_TEST(what_is_missing_is_said_once_and_what_comes_to_lack_later_as_well),
    };
    return cmocka_run_group_tests_name("pool users", tests, NULL, NULL);
}
