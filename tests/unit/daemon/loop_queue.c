/* SPDX-License-Identifier: MIT */
#include "daemon/loop/loop_queue.h"

#include "common/base/clock.h"
#include "daemon/loop/watch.h"
#include "tests/support/test.h"
#include "tests/support/test_descriptors.h"
#include "tests/support/wait.h"
#include "tests/unit/daemon/loop_fixture.h"

#include <string.h>
#include <unistd.h>

#define US 1000u
#define MS (1000 * US)
#define TASKS 10
#define SOME_OF_SLICE (400 * US) /* three such tasks use up a slice */

struct named_task {
    struct task task; /* first member */
    char name;
    uint64_t cost_ns;  /* processor time */
    uint64_t pause_ns; /* time for which Linux suspends the thread during the task */
};

struct fixture {
    struct loop *loop;
    struct loop_owner owner;
    struct loop_watch watch;
    int ends[2];
    struct named_task tasks[TASKS];
    unsigned count;
    struct kiln_err err;
};

static struct {
    uint64_t now_ns, worked_ns;
    /* names of the tasks in the order of their done callbacks; '!' stands for an event */
    char order[TASKS + 1];
} seen;

uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void) { return seen.now_ns; }

uint64_t __wrap_clock_thread_ns(void);
uint64_t __wrap_clock_thread_ns(void) { return seen.worked_ns; }

static void note(char name) { seen.order[strlen(seen.order)] = name; }

static void note_done(struct task *task)
{
    const struct named_task *t = (struct named_task *)task;
    note(t->name);
    seen.now_ns += t->cost_ns + t->pause_ns;
    seen.worked_ns += t->cost_ns;
}

static void on_readable(struct loop_watch *watch, unsigned events)
{
    (void)events;
    note('!');
    loop_watch_close(watch);
}

SET_UP(set_up)
{
    *f = (struct fixture){ .err = KILN_ERR_INIT, .watch.ready = on_readable };
    memset(&seen, 0, sizeof(seen));
    f->loop = open_loop();
    test_pipe(0, &f->ends[0], &f->ends[1]);
    must(loop_watch_init(f->loop, &f->watch, &f->owner, f->ends[0], &f->err), f->err);
}

TEAR_DOWN(tear_down) { loop_watch_close(&f->watch); }

FIXTURE(loop_queue, set_up, tear_down);

static struct named_task *add_task(struct fixture *f, uid_t uid, char name, uint64_t cost_ns)
{
    struct named_task *t = &f->tasks[f->count++];
    *t = (struct named_task){ .task = { .done = note_done, .uid = uid },
                              .name = name,
                              .cost_ns = cost_ns };
    loop_queue_add(f->loop, &t->task);
    return t;
}

static void run_all(struct fixture *f)
{
    loop_watch_close(&f->watch);
    LOOP_TO_END(f->loop, "every task to be done");
}

TEST_F(loop_queue, no_task_runs_within_the_call)
{
    add_task(f, 1, 'a', 0);
    assert_string_equal(seen.order, "");
    run_all(f);
    assert_string_equal(seen.order, "a");
}

TEST_F(loop_queue, users_are_served_by_the_time_that_their_tasks_took)
{
    for (const char *name = "abc"; *name; name++)
        add_task(f, 1, *name, 3 * MS);
    for (const char *name = "vwxyz"; *name; name++)
        add_task(f, 2, *name, MS);
    run_all(f);
    assert_string_equal(seen.order, "avwxbyzc");
}

TEST_F(loop_queue, a_user_is_not_charged_for_an_interruption)
{
    add_task(f, 1, 'a', 100 * US)->pause_ns = 50 * MS;
    add_task(f, 1, 'b', 100 * US);
    for (const char *name = "xyz"; *name; name++)
        add_task(f, 2, *name, MS);
    run_all(f);
    assert_string_equal(seen.order, "axbyz");
}

TEST_F(loop_queue, a_slice_ends_after_its_time)
{
    for (const char *name = "abcdefg"; *name; name++)
        add_task(f, 1, *name, SOME_OF_SLICE);
    IN_TIME(loop_iteration(f->loop));
    assert_string_equal(seen.order, "abc");
    run_all(f);
    assert_string_equal(seen.order, "abcdefg");
}

TEST_F(loop_queue, events_are_seen_between_two_slices)
{
    for (const char *name = "abcdefg"; *name; name++)
        add_task(f, 1, *name, SOME_OF_SLICE);
    IN_TIME(loop_iteration(f->loop));
    loop_watch_set(&f->watch, WATCH_READ);
    assert_int_equal(write(f->ends[1], "x", 1), 1);
    IN_TIME(loop_iteration(f->loop));
    assert_string_equal(seen.order, "abc!def");
    run_all(f);
}

TEST_F(loop_queue, a_user_who_comes_later_does_not_wait_for_all_tasks_of_another)
{
    for (const char *name = "abcdefg"; *name; name++)
        add_task(f, 1, *name, SOME_OF_SLICE);
    IN_TIME(loop_iteration(f->loop));
    add_task(f, 2, 'z', SOME_OF_SLICE);
    run_all(f);
    assert_string_equal(seen.order, "abczdefg");
}

TEST_F(loop_queue, a_task_that_waits_can_be_cancelled)
{
    add_task(f, 1, 'a', 0);
    struct named_task *b = add_task(f, 1, 'b', 0);
    assert_true(loop_queue_cancel(f->loop, &b->task));
    assert_false(loop_queue_cancel(f->loop, &b->task));
    run_all(f);
    assert_string_equal(seen.order, "a");
}

TEST_F(loop_queue, the_loop_does_not_wait_for_a_cancelled_task)
{
    struct named_task *a = add_task(f, 1, 'a', 0);
    assert_true(loop_queue_cancel(f->loop, &a->task));
    run_all(f);
    assert_string_equal(seen.order, "");
}
