/* SPDX-License-Identifier: MIT */
#include "daemon/workers/choose.h"

#include "tests/support/test.h"

#include <stdio.h>

static const struct compile_asker alice = { .kind = ASKER_USER, .uid = 1000 };
static const struct compile_asker bob = { .kind = ASKER_USER, .uid = 1001 };
static const struct compile_asker anybody = { .kind = ASKER_ANYBODY, .uid = 1000 };
static const struct compile_asker kilnd = { .kind = ASKER_KILND };

static struct worker idle(const struct compile_asker *bound_to, const char *toolchain)
{
    struct worker w = { .state = WORKER_IDLE, .is_bound = bound_to != NULL };
    if (bound_to)
        w.bound_to = *bound_to;
    snprintf(w.toolchain, sizeof(w.toolchain), "%s", toolchain);
    return w;
}

static struct compile_task task_of(const struct compile_asker *asker)
{
    return (struct compile_task){ .asker = *asker, .job.toolchain = bytes_of_text("hiprtc") };
}

static void chain(struct worker *workers, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++)
        workers[i].next = &workers[i + 1];
}

static void one_that_served_nobody_may_serve_anybody(void **state)
{
    (void)state;
    struct worker w = idle(NULL, "");
    assert_true(worker_may_serve(&w, &alice));
    assert_true(worker_may_serve(&w, &anybody));
    assert_true(worker_may_serve(&w, &kilnd));
}

static void one_that_served_a_user_may_serve_that_user_alone(void **state)
{
    (void)state;
    struct worker w = idle(&alice, "hiprtc");
    assert_true(worker_may_serve(&w, &alice));
    assert_false(worker_may_serve(&w, &bob));
    assert_false(worker_may_serve(&w, &anybody)); /* though the number is the same */
    assert_false(worker_may_serve(&w, &kilnd));
}

static void one_that_served_who_cannot_be_told_from_others_may_serve_nobody(void **state)
{
    (void)state;
    struct worker w = idle(&anybody, "hiprtc");
    assert_false(worker_may_serve(&w, &anybody));
    assert_false(worker_may_serve(&w, &alice));
    assert_false(worker_may_serve(&w, &kilnd));
}

/* Best first, each taken away in turn. */
static void the_toolchain_comes_first_and_ones_own_before_a_fresh_one(void **state)
{
    (void)state;
    struct worker workers[] = { idle(&bob, "hiprtc"),  idle(NULL, "clang"), idle(&alice, "clang"),
                                idle(NULL, ""),        idle(&alice, ""),    idle(NULL, "hiprtc"),
                                idle(&alice, "hiprtc") };
    static const size_t best[] = { 6, 5, 4, 3, 2, 1 };
    const struct compile_task task = task_of(&alice);
    chain(workers, 7);
    for (size_t i = 0; i < 6; i++) {
        assert_ptr_equal(worker_choose(workers, &task), &workers[best[i]]);
        workers[best[i]].state = WORKER_BUSY;
    }
    assert_null(worker_choose(workers, &task)); /* Bob's is left */
}

static void one_that_hung_up_or_is_not_idle_gets_nothing(void **state)
{
    (void)state;
    struct worker workers[] = { idle(NULL, ""), idle(NULL, ""), idle(NULL, "") };
    const struct compile_task task = task_of(&alice);
    chain(workers, 3);
    workers[0].hung_up = true;
    workers[1].state = WORKER_KILLED;
    workers[2].state = WORKER_STARTING;
    assert_null(worker_choose(workers, &task));
    assert_null(worker_idle_longest(workers));
}

static void the_one_idle_longest_is_done_without(void **state)
{
    (void)state;
    struct worker workers[] = { idle(&alice, ""), idle(&bob, ""), idle(&alice, "") };
    chain(workers, 3);
    workers[0].idle_since_ns = 30;
    workers[1].idle_since_ns = 10;
    workers[2].idle_since_ns = 20;
    assert_ptr_equal(worker_idle_longest(workers), &workers[1]);
    workers[1].state = WORKER_BUSY;
    assert_ptr_equal(worker_idle_longest(workers), &workers[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_served_nobody_may_serve_anybody),
        cmocka_unit_test(one_that_served_a_user_may_serve_that_user_alone),
        cmocka_unit_test(one_that_served_who_cannot_be_told_from_others_may_serve_nobody),
        cmocka_unit_test(the_toolchain_comes_first_and_ones_own_before_a_fresh_one),
        cmocka_unit_test(one_that_hung_up_or_is_not_idle_gets_nothing),
        cmocka_unit_test(the_one_idle_longest_is_done_without),
    };
    return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
