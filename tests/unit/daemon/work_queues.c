/* SPDX-License-Identifier: MIT */
#include "daemon/executor_uv.h"

#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define TASKS 20
#define READERS 2

struct fixture {
    struct loop *loop;
    struct loop_owner owner;
    struct work_queues *work_queues;
    struct executor_uv executor;
    struct kiln_err err;
};

struct counted {
    struct task task;
    unsigned started; /* which one it was to start */
    unsigned ended;   /* which one had its done callback */
    pthread_t thread;
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
    c->thread = pthread_self();
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
    struct counted *c = (struct counted *)(void *)task;
    assert_false(c->done);
    c->done = true;
    c->ended = seen.done++;
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
    must(work_queues_create(f.loop, READERS, &f.work_queues, &f.err), f.err);
    const struct executor_uv_parts parts = { .loop = f.loop,
                                             .owner = &f.owner,
                                             .work_queues = f.work_queues };
    executor_uv_init(&f.executor, &parts);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    executor_uv_close(&f->executor);
    LOOP_TO_END(f->loop, "the executor to close");
    assert_int_equal(work_queues_out(f->work_queues), 0);
    work_queues_destroy(f->work_queues);
    loop_destroy(f->loop);
    return 0;
}

FIXTURE(work_queues, set_up, tear_down);

static void run(struct fixture *f, enum work_queue work_queue, struct counted *c)
{
    struct executor *executor = &f->executor.base;
    executor->ops->run(executor, work_queue, &c->task);
    assert_false(c->done); /* never within the call */
}

static void run_in_order(struct fixture *f, enum work_queue work_queue)
{
    struct counted tasks[TASKS];
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct counted){ .task = { .work = work, .done = done } };
        run(f, work_queue, &tasks[i]);
    }

    LOOP_TO_END(f->loop, "every task to be done");

    assert_int_equal(atomic_load(&seen.most), 1);
    assert_int_equal(seen.done, TASKS);
    for (unsigned i = 0; i < TASKS; i++)
        assert_int_equal(tasks[i].started, i);
}

TEST(work_queues, writes_run_one_at_a_time_and_in_order) { run_in_order(*state, WORK_QUEUE_WRITE); }

TEST(work_queues, changes_of_tuning_records_run_one_at_a_time_and_in_order)
{
    run_in_order(*state, WORK_QUEUE_TUNING);
}

TEST(work_queues, reads_run_in_parallel_up_to_their_number)
{
    struct fixture *f = *state;
    struct counted tasks[TASKS];
    pthread_barrier_init(&seen.together, NULL, READERS);
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct counted){ .task = { .work = work_with_another, .done = done } };
        run(f, WORK_QUEUE_READ, &tasks[i]);
    }

    LOOP_TO_END(f->loop, "every task to be done");

    assert_int_equal(atomic_load(&seen.most), READERS);
    assert_int_equal(seen.done, TASKS);
    pthread_barrier_destroy(&seen.together);
}

/* All hold their threads until the last has come. */
TEST(work_queues, no_queue_waits_for_another)
{
    struct fixture *f = *state;
    static const enum work_queue order[] = { WORK_QUEUE_READ, WORK_QUEUE_READ, WORK_QUEUE_WRITE,
                                             WORK_QUEUE_TUNING };
    struct counted tasks[READERS + 2];
    pthread_barrier_init(&seen.together, NULL, READERS + 2);
    for (int i = 0; i < READERS + 2; i++) {
        tasks[i] = (struct counted){ .task = { .work = work_with_another, .done = done } };
        run(f, order[i], &tasks[i]);
    }

    LOOP_TO_END(f->loop, "every task to be done");

    assert_int_equal(seen.done, READERS + 2);
    pthread_barrier_destroy(&seen.together);
}

/* ---- brief ones ---- */

/* The first hold every thread until all of the others wait. */
static void run_behind_full_threads(struct fixture *f, struct counted *tasks, unsigned brief)
{
    pthread_barrier_init(&seen.together, NULL, READERS);
    for (unsigned i = 0; i < TASKS; i++) {
        bool holds = i < READERS;
        tasks[i] = (struct counted){ .task = { .work = holds ? work_with_another : work,
                                               .done = done,
                                               .is_brief = i < READERS + brief } };
        run(f, WORK_QUEUE_READ, &tasks[i]);
    }
    LOOP_TO_END(f->loop, "every task to be done");
    pthread_barrier_destroy(&seen.together);
    assert_int_equal(seen.done, TASKS);
}

/* What one thread did in a row is done in a row, in its order. */
TEST(work_queues, brief_tasks_that_wait_share_a_thread)
{
    struct fixture *f = *state;
    struct counted tasks[TASKS];
    run_behind_full_threads(f, tasks, TASKS - READERS);
    /* 18 wait for 2 threads: 8 go together, the 10 left make 5, then 2, 1, 1 and 1. */
    for (unsigned i = READERS + 1; i < READERS + 8; i++) {
        assert_true(pthread_equal(tasks[i].thread, tasks[READERS].thread));
        assert_int_equal(tasks[i].ended, tasks[READERS].ended + (i - READERS));
    }
}

/* Posted when the task before was told of; a thread that has both would never come so far. */
static sem_t reported;

static void wait_until_reported(struct task *task)
{
    struct timespec deadline;
    enter((struct counted *)(void *)task);
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 60; /* only a failure takes so long */
    assert_int_equal(sem_timedwait(&reported, &deadline), 0);
    atomic_fetch_sub(&seen.running, 1);
}

static void done_and_report(struct task *task)
{
    done(task);
    sem_post(&reported);
}

static void run_pairs(struct fixture *f, bool first_is_brief)
{
    struct counted tasks[TASKS];
    sem_init(&reported, 0, 0);
    pthread_barrier_init(&seen.together, NULL, READERS);
    for (unsigned i = 0; i < TASKS; i++) {
        bool is_first = i % 2 == 0;
        tasks[i] = (struct counted){ .task = { .work = is_first ? work : wait_until_reported,
                                               .done = is_first ? done_and_report : done,
                                               .is_brief = is_first == first_is_brief } };
        if (i < READERS)
            tasks[i].task = (struct task){ .work = work_with_another, .done = done };
        run(f, WORK_QUEUE_READ, &tasks[i]);
    }
    LOOP_TO_END(f->loop, "every task to be done");
    pthread_barrier_destroy(&seen.together);
    sem_destroy(&reported);
    assert_int_equal(seen.done, TASKS);
}

TEST(work_queues, long_tasks_share_no_thread_with_brief_ones)
{
    struct fixture *f = *state;
    run_pairs(f, true);
    seen.done = 0;
    run_pairs(f, false);
}

/* ---- the end of the turn ---- */

struct later {
    struct task task; /* first member */
    struct executor *executor;
    char name;
    unsigned left; /* how often it comes */
};

static char order[8]; /* in which they came */

static void come(struct task *task)
{
    struct later *l = (struct later *)(void *)task;
    order[strlen(order)] = l->name;
    if (--l->left > 0)
        l->executor->ops->later(l->executor, task);
}

TEST(work_queues, a_deferred_task_that_a_task_adds_runs_in_the_next_loop_iteration)
{
    struct fixture *f = *state;
    struct executor *executor = &f->executor.base;
    struct later twice = { { .done = come }, executor, 'a', 2 };
    struct later once = { { .done = come }, executor, 'b', 1 };
    memset(order, 0, sizeof(order));

    executor->ops->later(executor, &twice.task);
    executor->ops->later(executor, &once.task);
    assert_string_equal(order, ""); /* never within the call */
    LOOP_TO_END(f->loop, "every task to be done");

    assert_string_equal(order, "aba");
}

static struct later end;

static void done_of_the_first(struct task *task)
{
    done(task);
    end.executor->ops->later(end.executor, &end.task);
    order[strlen(order)] = '1';
}

static void done_of_the_second(struct task *task)
{
    done(task);
    order[strlen(order)] = '2';
}

TEST(work_queues, deferred_tasks_run_after_the_due_events_of_an_iteration)
{
    struct fixture *f = *state;
    struct counted tasks[3 * READERS];
    end = (struct later){ { .done = come }, &f->executor.base, 'e', 1 };
    memset(order, 0, sizeof(order));
    pthread_barrier_init(&seen.together, NULL, READERS);
    for (unsigned i = 0; i < 3 * READERS; i++) {
        bool holds = i < READERS;
        tasks[i] = (struct counted){
            .task = { .work = holds ? work_with_another : work, .done = done, .is_brief = true }
        };
        if (i == READERS) /* these two go together */
            tasks[i].task.done = done_of_the_first;
        if (i == READERS + 1)
            tasks[i].task.done = done_of_the_second;
        run(f, WORK_QUEUE_READ, &tasks[i]);
    }
    LOOP_TO_END(f->loop, "every task to be done");
    pthread_barrier_destroy(&seen.together);

    assert_string_equal(order, "12e");
}
