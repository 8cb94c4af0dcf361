/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/embed/direct_executor.h"

#include <string.h>

#define EVENTS_MAX 32

struct named_task {
    struct task task;                    /* first member */
    char work, done;                     /* letters to record; 0: no such callback */
    struct task *next_task, *next_later; /* started by the done callback */
};

static struct {
    struct direct_executor executor;
    char events[EVENTS_MAX];
    size_t count;
} f;

static void note_event(char event) { f.events[f.count++] = event; }

static void note_work(struct task *task) { note_event(((struct named_task *)task)->work); }

static void note_done(struct task *task)
{
    const struct named_task *t = (struct named_task *)task;
    note_event(t->done);
    if (t->next_task)
        f.executor.base.ops->run(&f.executor.base, WORK_QUEUE_READ, t->next_task);
    if (t->next_later)
        f.executor.base.ops->later(&f.executor.base, t->next_later);
}

static struct named_task make_task(char work, char done)
{
    return (struct named_task){ .task = { .work = note_work, .done = note_done },
                                .work = work,
                                .done = done };
}

static void run_task(struct named_task *t, enum work_queue work_queue)
{
    f.executor.base.ops->run(&f.executor.base, work_queue, &t->task);
}

static void run_all(void)
{
    while (direct_executor_step(&f.executor)) {
    }
}

SET_UP_STATIC(set_up)
{
    memset(&f, 0, sizeof(f));
    direct_executor_init(&f.executor, NULL);
}

FIXTURE(direct_executor, set_up, NULL);

TEST(direct_executor, a_task_never_runs_within_the_call)
{
    struct named_task a = make_task('a', 'A');
    run_task(&a, WORK_QUEUE_READ);
    assert_string_equal(f.events, "");
    run_all();
    assert_string_equal(f.events, "aA");
}

TEST(direct_executor, each_done_follows_its_work_in_order_across_work_queues)
{
    struct named_task a = make_task('a', 'A'), b = make_task('b', 'B'), c = make_task('c', 'C');
    run_task(&a, WORK_QUEUE_WRITE);
    run_task(&b, WORK_QUEUE_READ);
    run_task(&c, WORK_QUEUE_TUNING);
    run_all();
    assert_string_equal(f.events, "aAbBcC");
}

TEST(direct_executor, a_step_runs_one_task)
{
    struct named_task a = make_task('a', 'A'), b = make_task('b', 'B');
    run_task(&a, WORK_QUEUE_READ);
    run_task(&b, WORK_QUEUE_READ);
    assert_true(direct_executor_step(&f.executor));
    assert_string_equal(f.events, "aA");
    assert_true(direct_executor_step(&f.executor));
    assert_false(direct_executor_step(&f.executor));
}

TEST(direct_executor, later_tasks_run_after_due_tasks)
{
    struct named_task a = make_task('a', 'A'), b = make_task('b', 'B'), l = make_task('l', 'L');
    f.executor.base.ops->later(&f.executor.base, &l.task);
    run_task(&a, WORK_QUEUE_READ);
    run_task(&b, WORK_QUEUE_READ);
    run_all();
    assert_string_equal(f.events, "aAbBL");
}

/* A task may start another one when it is done, as the check of built-in data always does. */
TEST(direct_executor, new_tasks_do_not_delay_later_tasks)
{
    struct named_task a = make_task('a', 'A'), b = make_task('b', 'B'), l = make_task('l', 'L');
    a.next_task = &b.task;
    run_task(&a, WORK_QUEUE_READ);
    f.executor.base.ops->later(&f.executor.base, &l.task);
    run_all();
    assert_string_equal(f.events, "aALbB");
}

TEST(direct_executor, a_task_deferred_by_a_deferred_task_waits_for_the_next_iteration)
{
    struct named_task a = make_task('a', 'A'), l = make_task('l', 'L'), m = make_task('m', 'M');
    l.next_later = &m.task;
    l.next_task = &a.task;
    f.executor.base.ops->later(&f.executor.base, &l.task);
    run_all();
    assert_string_equal(f.events, "LaAM");
}

TEST(direct_executor, without_a_compiler_there_are_no_compile_slots)
{
    assert_int_equal(f.executor.base.ops->compile_slots(&f.executor.base), 0);
}
