/* SPDX-License-Identifier: MIT */
#include "daemon/executor_uv.h"

#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>

#define TASKS 20
#define READERS 2

struct fixture {
    struct loop *loop;
    struct lanes *lanes;
    struct executor_uv executor;
    struct kiln_err err;
};

struct counted {
    struct task task;
    unsigned started; /* which one it was to start */
    bool done;
};

static struct {
    atomic_uint started, running, most;
    unsigned done;
    pthread_t loop_thread;
    pthread_barrier_t together;
} seen;

static void enter(struct counted *c)
{
    c->started = atomic_fetch_add(&seen.started, 1);
    unsigned now = atomic_fetch_add(&seen.running, 1) + 1;
    unsigned most = atomic_load(&seen.most);
    while (now > most && !atomic_compare_exchange_weak(&seen.most, &most, now)) {
    }
}

static void work(struct task *task)
{
    enter((struct counted *)(void *)task);
    atomic_fetch_sub(&seen.running, 1);
}

/* Ends only when another one runs at the same time. */
static void work_with_another(struct task *task)
{
    enter((struct counted *)(void *)task);
    pthread_barrier_wait(&seen.together);
    atomic_fetch_sub(&seen.running, 1);
}

static void done(struct task *task)
{
    assert_true(pthread_equal(pthread_self(), seen.loop_thread));
    ((struct counted *)(void *)task)->done = true;
    seen.done++;
}

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .err = KILN_ERR_INIT };
    atomic_store(&seen.started, 0);
    atomic_store(&seen.running, 0);
    atomic_store(&seen.most, 0);
    seen.done = 0;
    seen.loop_thread = pthread_self();
    must(loop_create(&f.loop, &f.err), f.err);
    must(lanes_create(f.loop, READERS, &f.lanes, &f.err), f.err);
    executor_uv_init(&f.executor, f.lanes, NULL, NULL, /* closer= */ NULL);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    loop_run(f->loop);
    assert_int_equal(lanes_out(f->lanes), 0);
    lanes_destroy(f->lanes);
    loop_destroy(f->loop);
    return 0;
}

static void run(struct fixture *f, enum lane lane, struct counted *c)
{
    struct executor *executor = &f->executor.base;
    executor->ops->run(executor, lane, &c->task);
    assert_false(c->done); /* never within the call */
}

static void run_in_order(struct fixture *f, enum lane lane)
{
    struct counted tasks[TASKS];
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct counted){ .task = { .work = work, .done = done } };
        run(f, lane, &tasks[i]);
    }

    loop_run(f->loop);

    assert_int_equal(atomic_load(&seen.most), 1);
    assert_int_equal(seen.done, TASKS);
    for (unsigned i = 0; i < TASKS; i++)
        assert_int_equal(tasks[i].started, i);
}

static void writes_run_one_at_a_time_and_in_order(void **state)
{
    run_in_order(*state, LANE_WRITE);
}

static void changes_of_tuning_records_run_one_at_a_time_and_in_order(void **state)
{
    run_in_order(*state, LANE_TUNING);
}

static void reads_run_beside_each_other_up_to_their_number(void **state)
{
    struct fixture *f = *state;
    struct counted tasks[TASKS];
    pthread_barrier_init(&seen.together, NULL, READERS);
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct counted){ .task = { .work = work_with_another, .done = done } };
        run(f, LANE_READ, &tasks[i]);
    }

    loop_run(f->loop);

    assert_int_equal(atomic_load(&seen.most), READERS);
    assert_int_equal(seen.done, TASKS);
    pthread_barrier_destroy(&seen.together);
}

/* All hold their threads until the last has come. */
static void no_lane_waits_for_another(void **state)
{
    struct fixture *f = *state;
    static const enum lane order[] = { LANE_READ, LANE_READ, LANE_WRITE, LANE_TUNING };
    struct counted tasks[READERS + 2];
    pthread_barrier_init(&seen.together, NULL, READERS + 2);
    for (int i = 0; i < READERS + 2; i++) {
        tasks[i] = (struct counted){ .task = { .work = work_with_another, .done = done } };
        run(f, order[i], &tasks[i]);
    }

    loop_run(f->loop);

    assert_int_equal(seen.done, READERS + 2);
    pthread_barrier_destroy(&seen.together);
}

#define LANES_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LANES_TEST(writes_run_one_at_a_time_and_in_order),
        LANES_TEST(changes_of_tuning_records_run_one_at_a_time_and_in_order),
        LANES_TEST(reads_run_beside_each_other_up_to_their_number),
        LANES_TEST(no_lane_waits_for_another),
    };
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
