/* SPDX-License-Identifier: MIT */
#include "daemon/loop/timer.h"

#include "common/base/clock.h"
#include "daemon/loop/uv_handle.h"
#include "daemon/loop/watch.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/daemon/loop_fixture.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NEVER_MS 3600000u

struct probe {
    struct loop_timer timer;
    unsigned fired;
    unsigned place; /* position of the probe's first call among all calls */
    /* What the timer's callback does: */
    struct probe *stops, *closes;
    bool starts_again;
};

struct fixture {
    struct loop *loop;
    struct loop_owner owner;
    struct kiln_err err;
    struct probe a, b, c;
    struct loop_watch watch;
};

static unsigned fired_together;

static void on_fire(struct loop_timer *timer)
{
    struct probe *probe = LOOP_OWNER_OF(struct probe, timer, timer);
    if (probe->fired++ == 0)
        probe->place = fired_together;
    fired_together++;
    if (probe->starts_again)
        loop_timer_start(timer, 1, 0);
    if (probe->stops)
        loop_timer_stop(&probe->stops->timer);
    if (probe->closes)
        loop_timer_close(&probe->closes->timer);
}

SET_UP(set_up)
{
    fired_together = 0;
    f->loop = open_loop();
    loop_timer_init(f->loop, &f->a.timer, &f->owner, on_fire);
    loop_timer_init(f->loop, &f->b.timer, &f->owner, on_fire);
    loop_timer_init(f->loop, &f->c.timer, &f->owner, on_fire);
}

TEAR_DOWN(tear_down)
{
    loop_timer_close(&f->a.timer);
    loop_timer_close(&f->b.timer);
    loop_timer_close(&f->c.timer);
    LOOP_TO_END(f->loop, "the timers to be closed");
    assert_int_equal(f->owner.open, 0);
}

FIXTURE(timers, set_up, tear_down);

static void run_until_fired(struct fixture *f, const struct probe *probe, unsigned times)
{
    LOOP_UNTIL(f->loop, probe->fired >= times);
}

static void let_pass_ms(unsigned ms)
{
    uint64_t end = clock_monotonic_ns() + ms * UINT64_C(1000000);
    WAIT_FOR(clock_monotonic_ns() >= end);
}

TEST_F(timers, timers_fire_in_the_order_of_their_times)
{
    /* The times are far enough apart even if the process is preempted between two starts. */
    loop_timer_start(&f->a.timer, 300, 0);
    loop_timer_start(&f->b.timer, 1, 0);
    loop_timer_start(&f->c.timer, 150, 0);

    LOOP_TO_END(f->loop, "the timers to stop");

    assert_int_equal(f->b.place, 0);
    assert_int_equal(f->c.place, 1);
    assert_int_equal(f->a.place, 2);
    assert_int_equal(fired_together, 3);
    assert_false(loop_timer_is_running(&f->a.timer));
}

TEST_F(timers, a_repeating_timer_fires_until_it_is_stopped)
{
    loop_timer_start(&f->a.timer, 1, 1);
    run_until_fired(f, &f->a, 3);
    assert_true(loop_timer_is_running(&f->a.timer));

    loop_timer_stop(&f->a.timer);
    LOOP_TO_END(f->loop, "the timers to stop");

    assert_int_equal(f->a.fired, 3);
    assert_false(loop_timer_is_running(&f->a.timer));
}

TEST_F(timers, a_timer_that_stops_itself_does_not_repeat)
{
    f->a.stops = &f->a;
    loop_timer_start(&f->a.timer, 0, 1);

    LOOP_TO_END(f->loop, "the timers to stop");

    assert_int_equal(f->a.fired, 1);
}

TEST_F(timers, a_timer_of_zero_fires_in_the_next_iteration_and_at_its_intervals)
{
    loop_timer_start(&f->a.timer, 0, 1);
    assert_int_equal(f->a.fired, 0); /* a callback never runs before loop_timer_start returns */
    assert_true(loop_timer_is_running(&f->a.timer));

    run_until_fired(f, &f->a, 3);
}

TEST_F(timers, a_restart_replaces_the_time_of_a_timer)
{
    loop_timer_start(&f->a.timer, 1, 1);
    loop_timer_start(&f->c.timer, 0, 0);
    loop_timer_start(&f->a.timer, NEVER_MS, 0);
    loop_timer_start(&f->c.timer, NEVER_MS, 0);
    loop_timer_start(&f->b.timer, 5, 0);

    run_until_fired(f, &f->b, 1);

    assert_int_equal(fired_together, 1);
    assert_true(loop_timer_is_running(&f->a.timer));
    loop_timer_start(&f->a.timer, 1, 0);
    run_until_fired(f, &f->a, 1);
}

TEST_F(timers, a_timer_that_another_one_stops_or_closes_does_not_fire)
{
    f->a.stops = &f->b;
    f->a.closes = &f->c;
    loop_timer_start(&f->a.timer, 1, 0);
    loop_timer_start(&f->b.timer, 1, 1);
    loop_timer_start(&f->c.timer, 1, 1);

    LOOP_TO_END(f->loop, "the timers to stop");

    assert_int_equal(fired_together, 1);
    assert_false(loop_timer_is_running(&f->c.timer));
}

static void on_readable(struct loop_watch *watch, unsigned events)
{
    (void)events;
    struct fixture *f = LOOP_OWNER_OF(struct fixture, watch, watch);
    loop_timer_start(&f->a.timer, NEVER_MS, 0);
    loop_watch_set(watch, 0);
}

/* Linux may report the event and the timer in any order, but the loop handles the event
 * first. */
TEST_F(timers, an_event_of_the_same_iteration_precedes_a_timer_and_can_postpone_it)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    f->watch.ready = on_readable;
    must(loop_watch_init(f->loop, &f->watch, &f->owner, ends[0], &f->err), f->err);
    loop_watch_set(&f->watch, WATCH_READ);
    loop_timer_start(&f->a.timer, 1, 0);
    loop_timer_start(&f->b.timer, 2, 0);
    let_pass_ms(5);
    assert_int_equal(write(ends[1], "", 1), 1);

    run_until_fired(f, &f->b, 1);

    assert_int_equal(f->a.fired, 0);
    loop_watch_close(&f->watch);
    close(ends[0]);
    close(ends[1]);
}

static void on_readable_slowly(struct loop_watch *watch, unsigned events)
{
    (void)events;
    loop_watch_set(watch, 0);
    let_pass_ms(20);
}

/* The loop's clock stands still during an iteration, however long that takes. */
TEST_F(timers, a_timer_that_restarts_itself_does_not_block_a_long_iteration)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    f->watch.ready = on_readable_slowly;
    must(loop_watch_init(f->loop, &f->watch, &f->owner, ends[0], &f->err), f->err);
    loop_watch_set(&f->watch, WATCH_READ);
    f->a.starts_again = true;
    loop_timer_start(&f->a.timer, 1, 0);
    let_pass_ms(5);
    assert_int_equal(write(ends[1], "", 1), 1);

    run_until_fired(f, &f->a, 3);

    loop_watch_close(&f->watch);
    close(ends[0]);
    close(ends[1]);
}

/* If epoll_wait(2) got a time-out, Linux would arm and cancel a timer for every request. */
TEST_F(timers, a_waiting_timer_gives_epoll_no_time_out)
{
    loop_timer_start(&f->a.timer, 1, 1);
    run_until_fired(f, &f->a, 1);

    assert_int_equal(uv_backend_timeout(&f->loop->uv), -1);
}

static int no_timerfd, no_watch;

WRAP(int, timerfd_create, int clock, int flags)
{
    errno = EMFILE;
    return no_timerfd ? -1 : __real_timerfd_create(clock, flags);
}

WRAP(int, uv_poll_init, uv_loop_t *loop, uv_poll_t *handle, int fd)
{
    return no_watch ? UV_ENOMEM : __real_uv_poll_init(loop, handle, fd);
}

TEST_F(timers, a_loop_without_timers_is_not_created)
{
    struct loop *loop = NULL;
    no_timerfd = 1;
    assert_int_not_equal(loop_create(&loop, &f->err), KILN_OK);
    assert_says(f->err.text, "make");
    no_timerfd = 0;
    no_watch = 1;
    assert_int_not_equal(loop_create(&loop, &f->err), KILN_OK);
    assert_says(f->err.text, "watch");
    no_watch = 0;
    assert_null(loop);
}
