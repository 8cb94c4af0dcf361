/* SPDX-License-Identifier: MIT */
/* The order in which tasks run without threads. */
#include "tests/support/test.h"

#include "engine/embed/direct_executor.h"

#include <string.h>

#define EVENTS_MAX 32

struct named_task {
    struct task task;                    /* first member */
    char work, done;                     /* what is noted; 0: nothing is done */
    struct task *next_task, *next_later; /* handed over by its done */
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
        f.executor.base.ops->run(&f.executor.base, LANE_READ, t->next_task);
    if (t->next_later)
        f.executor.base.ops->later(&f.executor.base, t->next_later);
}

static struct named_task make_task(char work, char done)
{
    return (struct named_task){ .task = { .work = note_work, .done = note_done },
                                .work = work,
                                .done = done };
}

static void run_task(struct named_task *t, enum lane lane)
{
    f.executor.base.ops->run(&f.executor.base, lane, &t->task);
}

static void run_all(void)
{
    while (direct_executor_step(&f.executor)) {
    }
}

static int set_up(void **state)
{
    (void)state;
    memset(&f, 0, sizeof(f));
    direct_executor_init(&f.executor, NULL);
    return 0;
}

static void nothing_runs_within_the_call(void **state)
{
    (void)state;
    struct named_task a = make_task('a', 'A');
    run_task(&a, LANE_READ);
    assert_string_equal(f.events, "");
    run_all();
    assert_string_equal(f.events, "aA");
}

static void each_done_follows_its_work_in_order_across_lanes(void **state)
{
    (void)state;
    struct named_task a = make_task('a', 'A'), b = make_task('b', 'B'), c = make_task('c', 'C');
    run_task(&a, LANE_WRITE);
    run_task(&b, LANE_READ);
    run_task(&c, LANE_TUNING);
    run_all();
    assert_string_equal(f.events, "aAbBcC");
}

static void a_step_runs_one_task(void **state)
{
    (void)state;
    struct named_task a = make_task('a', 'A'), b = make_task('b', 'B');
    run_task(&a, LANE_READ);
    run_task(&b, LANE_READ);
    assert_true(direct_executor_step(&f.executor));
    assert_string_equal(f.events, "aA");
    assert_true(direct_executor_step(&f.executor));
    assert_false(direct_executor_step(&f.executor));
}

static void later_comes_after_the_tasks_that_were_due(void **state)
{
    (void)state;
    struct named_task a = make_task('a', 'A'), b = make_task('b', 'B'), l = make_task('l', 'L');
    f.executor.base.ops->later(&f.executor.base, &l.task);
    run_task(&a, LANE_READ);
    run_task(&b, LANE_READ);
    run_all();
    assert_string_equal(f.events, "aAbBL");
}

/* A task that always leads to the next one, as the check of what is built in, holds nothing up. */
static void tasks_that_others_lead_to_do_not_hold_up_later(void **state)
{
    (void)state;
    struct named_task a = make_task('a', 'A'), b = make_task('b', 'B'), l = make_task('l', 'L');
    a.next_task = &b.task;
    run_task(&a, LANE_READ);
    f.executor.base.ops->later(&f.executor.base, &l.task);
    run_all();
    assert_string_equal(f.events, "aALbB");
}

static void what_later_puts_off_again_waits_for_the_next_iteration(void **state)
{
    (void)state;
    struct named_task a = make_task('a', 'A'), l = make_task('l', 'L'), m = make_task('m', 'M');
    l.next_later = &m.task;
    l.next_task = &a.task;
    f.executor.base.ops->later(&f.executor.base, &l.task);
    run_all();
    assert_string_equal(f.events, "LaAM");
}

static void nothing_is_compiled_without_a_compiler(void **state)
{
    (void)state;
    assert_int_equal(f.executor.base.ops->compile_slots(&f.executor.base), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_runs_within_the_call, set_up),
        cmocka_unit_test_setup(each_done_follows_its_work_in_order_across_lanes, set_up),
        cmocka_unit_test_setup(a_step_runs_one_task, set_up),
        cmocka_unit_test_setup(later_comes_after_the_tasks_that_were_due, set_up),
        cmocka_unit_test_setup(tasks_that_others_lead_to_do_not_hold_up_later, set_up),
        cmocka_unit_test_setup(what_later_puts_off_again_waits_for_the_next_iteration, set_up),
        cmocka_unit_test_setup(nothing_is_compiled_without_a_compiler, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
