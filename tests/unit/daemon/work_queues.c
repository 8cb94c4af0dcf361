/* SPDX-License-Identifier: MIT */
#include "daemon/executor_uv.h"

#include "common/base/clock.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/daemon/loop_fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define TASKS 20
#define READERS 3
#define LONG_READERS (READERS - 1)

struct fixture {
    struct loop *loop;
    struct work_queues *work_queues;
    struct executor_uv executor;
    struct kiln_err err;
};

struct counted {
    struct task task;
    unsigned started; /* position in the order in which tasks start */
    unsigned ended;   /* position in the order of done callbacks */
    int niceness;     /* nice value of the thread that ran the task */
    pthread_t thread;
    bool done;
};

static struct {
    atomic_uint started, running, max_running;
    unsigned done;
    pthread_t loop_thread;
    pthread_barrier_t together;
} seen;

static void note_start(struct counted *c)
{
    c->started = atomic_fetch_add(&seen.started, 1);
    c->thread = pthread_self();
    c->niceness = getpriority(PRIO_PROCESS, 0);
    unsigned now = atomic_fetch_add(&seen.running, 1) + 1;
    unsigned max = atomic_load(&seen.max_running);
    while (now > max && !atomic_compare_exchange_weak(&seen.max_running, &max, now)) {
    }
}

static void work_alone(struct task *task)
{
    note_start((struct counted *)(void *)task);
    atomic_fetch_sub(&seen.running, 1);
}

/* Waits until enough tasks for the barrier run at the same time. */
static void work_with_another(struct task *task)
{
    note_start((struct counted *)(void *)task);
    pthread_barrier_wait(&seen.together);
    atomic_fetch_sub(&seen.running, 1);
}

static void note_done(struct task *task)
{
    assert_true(pthread_equal(pthread_self(), seen.loop_thread));
    struct counted *c = (struct counted *)(void *)task;
    assert_false(c->done);
    c->done = true;
    c->ended = seen.done++;
}

SET_UP(set_up)
{
    memset(&seen, 0, sizeof(seen));
    seen.loop_thread = pthread_self();
    f->loop = open_loop();
    f->work_queues = open_work_queues(f->loop, READERS);
    const struct executor_uv_parts parts = { .loop = f->loop, .work_queues = f->work_queues };
    executor_uv_init(&f->executor, &parts);
}

TEAR_DOWN(tear_down) { LOOP_TO_END(f->loop, "the executor to end"); }

FIXTURE(work_queues, set_up, tear_down);

static void run_task(struct fixture *f, enum work_queue work_queue, struct counted *c,
                     struct task task)
{
    struct executor *executor = &f->executor.base;
    *c = (struct counted){ .task = task };
    if (!c->task.done)
        c->task.done = note_done;
    executor->ops->run(executor, work_queue, &c->task);
    assert_false(c->done);
}

/* Tasks with work_with_another wait until |count| of them run at the same time. */
static void expect_together(unsigned count) { pthread_barrier_init(&seen.together, NULL, count); }

static void finish_tasks(struct fixture *f, unsigned count)
{
    LOOP_TO_END(f->loop, "every task to be done");
    pthread_barrier_destroy(&seen.together);
    assert_int_equal(seen.done, count);
}

static void run_in_order(struct fixture *f, enum work_queue work_queue)
{
    struct counted tasks[TASKS];
    expect_together(1);
    for (int i = 0; i < TASKS; i++)
        run_task(f, work_queue, &tasks[i], (struct task){ .work = work_alone });

    finish_tasks(f, TASKS);

    assert_int_equal(atomic_load(&seen.max_running), 1);
    for (unsigned i = 0; i < TASKS; i++)
        assert_int_equal(tasks[i].started, i);
}

TEST(work_queues, writes_run_one_at_a_time_and_in_order) { run_in_order(*state, WORK_QUEUE_WRITE); }

TEST(work_queues, changes_of_tuning_records_run_one_at_a_time_and_in_order)
{
    run_in_order(*state, WORK_QUEUE_TUNING);
}

TEST_F(work_queues, long_reads_run_in_parallel_and_leave_one_thread)
{
    struct counted tasks[TASKS];
    expect_together(LONG_READERS);
    for (int i = 0; i < TASKS; i++)
        run_task(f, WORK_QUEUE_READ, &tasks[i], (struct task){ .work = work_with_another });

    finish_tasks(f, TASKS);

    assert_int_equal(atomic_load(&seen.max_running), LONG_READERS);
}

/* The brief task overtakes the long tasks that still wait. The long tasks that run end only after
 * the brief task has run. */
TEST_F(work_queues, a_brief_read_waits_for_no_long_one)
{
    struct counted tasks[TASKS];
    expect_together(READERS);
    for (int i = 0; i < TASKS; i++)
        run_task(f, WORK_QUEUE_READ, &tasks[i],
                 (struct task){ .work = i < LONG_READERS || i == TASKS - 1 ? work_with_another
                                                                           : work_alone,
                                .is_brief = i == TASKS - 1 });

    finish_tasks(f, TASKS);

    assert_true(tasks[TASKS - 1].started < READERS);
}

/* Each task holds its thread until the last task runs. */
TEST_F(work_queues, no_queue_waits_for_another)
{
    static const enum work_queue order[] = { WORK_QUEUE_READ, WORK_QUEUE_READ, WORK_QUEUE_WRITE,
                                             WORK_QUEUE_TUNING };
    struct counted tasks[LONG_READERS + 2];
    expect_together(LONG_READERS + 2);
    for (int i = 0; i < LONG_READERS + 2; i++)
        run_task(f, order[i], &tasks[i], (struct task){ .work = work_with_another });
    finish_tasks(f, LONG_READERS + 2);
}

TEST_F(work_queues, the_loop_comes_before_each_queues_threads)
{
    const int own = getpriority(PRIO_PROCESS, 0), lower = own + 5 < 19 ? own + 5 : 19;
    struct counted tasks[WORK_QUEUES];
    expect_together(1);
    for (enum work_queue queue = 0; queue < WORK_QUEUES; queue++)
        run_task(f, queue, &tasks[queue], (struct task){ .work = work_alone });

    finish_tasks(f, WORK_QUEUES);

    for (enum work_queue queue = 0; queue < WORK_QUEUES; queue++)
        assert_int_equal(tasks[queue].niceness, lower);
}

/* user whose tasks are queued before those of the late user */
#define EARLY_UID 1000
#define LATE_UID 2000
#define LONG_NS 2000000u /* a hundred times what a brief task is charged */

/* Each thread has a fake clock, on which only work_long takes time. */
static _Thread_local uint64_t now_ns;

uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void) { return now_ns; }

static void work_long(struct task *task)
{
    note_start((struct counted *)(void *)task);
    now_ns += LONG_NS;
    atomic_fetch_sub(&seen.running, 1);
}

/* All threads of the work queue wait until each has a task, and then run these tasks together. A
 * task therefore starts soon after a thread has taken it from the queue. */
static void expect_fair_order(struct fixture *f, enum work_queue work_queue, unsigned threads)
{
    struct counted tasks[TASKS];
    expect_together(threads);
    for (unsigned i = 0; i < TASKS; i++)
        run_task(f, work_queue, &tasks[i],
                 (struct task){ .work = work_with_another,
                                .uid = i < TASKS - 2 ? EARLY_UID : LATE_UID });
    finish_tasks(f, TASKS);
    /* The early user has many tasks, but few of them start before the late user's two tasks. */
    assert_true(tasks[TASKS - 2].started <= 2 * threads);
    assert_true(tasks[TASKS - 1].started <= 3 * threads + 1);
}

TEST_F(work_queues, a_users_many_reads_do_not_delay_those_of_another_user)
{
    expect_fair_order(f, WORK_QUEUE_READ, LONG_READERS);
}

TEST_F(work_queues, a_users_many_writes_do_not_delay_those_of_another_user)
{
    expect_fair_order(f, WORK_QUEUE_WRITE, 1);
}

TEST_F(work_queues, a_users_many_changes_do_not_delay_those_of_another_user)
{
    expect_fair_order(f, WORK_QUEUE_TUNING, 1);
}

/* All brief tasks of the late user together take less time than the first long task. */
TEST_F(work_queues, users_are_charged_for_the_time_of_their_tasks_not_for_their_number)
{
    struct counted tasks[TASKS];
    expect_together(1);
    for (unsigned i = 0; i < TASKS; i++)
        run_task(f, WORK_QUEUE_WRITE, &tasks[i],
                 (struct task){ .work = i < 3 ? work_long : work_alone,
                                .uid = i < 3 ? EARLY_UID : LATE_UID });

    finish_tasks(f, TASKS);

    assert_int_equal(tasks[0].started, 0);
    assert_true(tasks[0].task.worked_ns >= LONG_NS);
    assert_int_equal(tasks[1].started, TASKS - 2);
    assert_int_equal(tasks[2].started, TASKS - 1);
}

#define BUSY_NS (LONG_NS / 4) /* how long the loop is busy after each task of the late user */

static void note_done_slowly(struct task *task)
{
    now_ns += task->uid == LATE_UID ? BUSY_NS : 0;
    note_done(task);
}

/* The first long task is charged to the early user. The late user's tasks take no time, but after
 * each of them the loop is busy and the thread is idle. */
TEST_F(work_queues, users_are_charged_for_the_time_that_a_busy_loop_leaves_a_thread_idle)
{
    struct counted tasks[TASKS];
    expect_together(1);
    for (unsigned i = 0; i < TASKS; i++)
        run_task(f, WORK_QUEUE_WRITE, &tasks[i],
                 (struct task){ .work = i == 0 ? work_long : work_alone,
                                .done = note_done_slowly,
                                .uid = i < 2 ? EARLY_UID : LATE_UID });

    finish_tasks(f, TASKS);

    assert_int_equal(tasks[0].started, 0);
    assert_in_range(tasks[1].started, 2, 2 + LONG_NS / BUSY_NS);
}

TEST_F(work_queues, brief_tasks_that_share_a_thread_are_taken_in_fair_order)
{
    struct counted tasks[TASKS];
    expect_together(1);
    for (unsigned i = 0; i < TASKS; i++)
        run_task(f, WORK_QUEUE_WRITE, &tasks[i],
                 (struct task){ .work = work_alone,
                                .is_brief = true,
                                .uid = i < TASKS - 2 ? EARLY_UID : LATE_UID });

    finish_tasks(f, TASKS);

    assert_true(tasks[TASKS - 2].started <= 2);
    assert_true(tasks[TASKS - 1].started <= 4);
    assert_true(pthread_equal(tasks[TASKS - 1].thread, tasks[1].thread));
}

TEST_F(work_queues, the_longest_running_task_is_known)
{
    struct counted tasks[3];
    assert_int_equal(work_queues_longest_ns(f->work_queues), 0);
    expect_together(2);
    run_task(f, WORK_QUEUE_WRITE, &tasks[0], (struct task){ .work = work_long });
    run_task(f, WORK_QUEUE_WRITE, &tasks[1], (struct task){ .work = work_with_another });
    LOOP_UNTIL(f->loop, seen.done == 1);

    now_ns = LONG_NS + 7;
    WAIT_FOR(work_queues_longest_ns(f->work_queues) == 7);
    now_ns = 0;

    run_task(f, WORK_QUEUE_TUNING, &tasks[2], (struct task){ .work = work_with_another });
    finish_tasks(f, 3);
    assert_int_equal(work_queues_longest_ns(f->work_queues), 0);
}

TEST_F(work_queues, a_task_that_waits_can_be_cancelled)
{
    struct executor *executor = &f->executor.base;
    static const enum work_queue queues[] = { WORK_QUEUE_READ, WORK_QUEUE_WRITE,
                                              WORK_QUEUE_TUNING };
    for (unsigned q = 0; q < sizeof(queues) / sizeof(queues[0]); q++) {
        unsigned threads = queues[q] == WORK_QUEUE_READ ? LONG_READERS : 1;
        struct counted tasks[LONG_READERS + 2];
        seen.done = 0;
        expect_together(threads);
        for (unsigned i = 0; i < threads + 2; i++)
            run_task(f, queues[q], &tasks[i],
                     (struct task){ .work = i < threads ? work_with_another : work_alone });

        assert_true(executor->ops->cancel(executor, queues[q], &tasks[threads].task));
        assert_false(executor->ops->cancel(executor, queues[q], &tasks[threads].task));
        assert_false(executor->ops->cancel(executor, queues[q], &tasks[0].task));
        finish_tasks(f, threads + 1);

        assert_false(tasks[threads].done);
        assert_true(tasks[threads + 1].done);
    }
}

TEST_F(work_queues, the_loop_does_not_wait_for_a_cancelled_task)
{
    struct counted tasks[2];
    expect_together(1);
    for (unsigned i = 0; i < 2; i++)
        run_task(f, WORK_QUEUE_WRITE, &tasks[i], (struct task){ .work = work_alone });

    assert_true(work_queues_cancel(f->work_queues, WORK_QUEUE_WRITE, &tasks[1].task));

    assert_int_equal(work_queues_out(f->work_queues), 1);
    finish_tasks(f, 1);
}

/* The first READERS tasks hold all threads until the other tasks are queued. */
static void run_behind_full_threads(struct fixture *f, struct counted *tasks, unsigned brief)
{
    expect_together(READERS);
    for (unsigned i = 0; i < TASKS; i++)
        run_task(f, WORK_QUEUE_READ, &tasks[i],
                 (struct task){ .work = i < READERS ? work_with_another : work_alone,
                                .is_brief = i < READERS + brief });
    finish_tasks(f, TASKS);
}

/* The tasks that one thread ran in a row get their done callbacks in the same order. */
TEST_F(work_queues, brief_tasks_that_wait_share_a_thread)
{
    struct counted tasks[TASKS];
    run_behind_full_threads(f, tasks, TASKS - READERS);
    /* 17 tasks wait for 3 threads. The first free thread takes 5 tasks at once, and the next ones
     * take 4, 2, 2, 1, ... */
    for (unsigned i = READERS + 1; i < READERS + 5; i++) {
        assert_true(pthread_equal(tasks[i].thread, tasks[READERS].thread));
        assert_int_equal(tasks[i].ended, tasks[READERS].ended + (i - READERS));
    }
}

/* The done callback of a task posts |reported|, and the next task waits for it. If a thread ran
 * both tasks in a row, no callback would run between them, and the second task would wait in
 * vain. */
static sem_t reported;

static void wait_until_reported(struct task *task)
{
    struct timespec deadline;
    note_start((struct counted *)(void *)task);
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += WAIT_MAX_S;
    assert_int_equal(sem_timedwait(&reported, &deadline), 0);
    atomic_fetch_sub(&seen.running, 1);
}

static void note_done_and_report(struct task *task)
{
    note_done(task);
    sem_post(&reported);
}

static void run_pairs(struct fixture *f, bool first_is_brief)
{
    struct counted tasks[TASKS];
    sem_init(&reported, 0, 0);
    expect_together(READERS);
    for (unsigned i = 0; i < TASKS; i++) {
        bool is_first = (i - READERS) % 2 == 0;
        struct task task = { .work = is_first ? work_alone : wait_until_reported,
                             .done = is_first ? note_done_and_report : note_done,
                             .is_brief = is_first == first_is_brief };
        if (i < READERS)
            task = (struct task){ .work = work_with_another, .is_brief = true };
        run_task(f, WORK_QUEUE_READ, &tasks[i], task);
    }
    finish_tasks(f, TASKS);
    sem_destroy(&reported);
}

TEST_F(work_queues, long_tasks_share_no_thread_with_brief_ones)
{
    run_pairs(f, true);
    seen.done = 0;
    run_pairs(f, false);
}

struct later {
    struct task task; /* first member */
    struct executor *executor;
    char name;
    unsigned left;
};

static char order[8];

static void note_and_repeat(struct task *task)
{
    struct later *l = (struct later *)(void *)task;
    order[strlen(order)] = l->name;
    if (--l->left > 0)
        l->executor->ops->later(l->executor, task);
}

TEST_F(work_queues, a_deferred_task_that_a_task_adds_runs_in_the_next_loop_iteration)
{
    struct executor *executor = &f->executor.base;
    struct later twice = { { .done = note_and_repeat }, executor, 'a', 2 };
    struct later once = { { .done = note_and_repeat }, executor, 'b', 1 };
    memset(order, 0, sizeof(order));

    executor->ops->later(executor, &twice.task);
    executor->ops->later(executor, &once.task);
    assert_string_equal(order, "");
    LOOP_TO_END(f->loop, "every task to be done");

    assert_string_equal(order, "aba");
}

static struct later end;

static void note_first_done(struct task *task)
{
    note_done(task);
    end.executor->ops->later(end.executor, &end.task);
    order[strlen(order)] = '1';
}

static void note_second_done(struct task *task)
{
    note_done(task);
    order[strlen(order)] = '2';
}

TEST_F(work_queues, deferred_tasks_run_after_the_due_events_of_an_iteration)
{
    struct counted tasks[3 * READERS];
    end = (struct later){ { .done = note_and_repeat }, &f->executor.base, 'e', 1 };
    memset(order, 0, sizeof(order));
    expect_together(READERS);
    for (unsigned i = 0; i < 3 * READERS; i++) {
        struct task task = { .work = i < READERS ? work_with_another : work_alone,
                             .is_brief = true };
        if (i == READERS)
            task.done = note_first_done;
        if (i == READERS + 1)
            task.done = note_second_done;
        run_task(f, WORK_QUEUE_READ, &tasks[i], task);
    }
    finish_tasks(f, 3 * READERS);

    assert_string_equal(order, "12e");
}
