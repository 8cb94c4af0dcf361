/* SPDX-License-Identifier: MIT */
/*
 * A timer of libuv's gives every wait for events a time-out, which the kernel sets and takes back
 * with each request: 0.5 us of a look-up's 13 us.  So those that wait are in a list, and a timerfd,
 * watched as any descriptor, tells when the first of them is due.  libuv's own serve for the next
 * turn alone.
 */
#include "daemon/loop/timer.h"

#include "common/clock.h"
#include "daemon/loop/uv_handle.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MS 1000000u /* nanoseconds */

LOOP_HANDLE_FITS(uv_timer_t);

/* ---- those that wait ---- */

/* An alarm that nobody waits for keeps no loop running. */
static void set_alarm(struct loop *loop)
{
    const struct loop_timer *first = loop->timers;
    struct itimerspec at = { .it_value.tv_sec = 0 }; /* never */
    if (first)
        at.it_value = (struct timespec){ .tv_sec = (time_t)(first->due_ms / 1000),
                                         .tv_nsec = (long)(first->due_ms % 1000 * MS) };
    timerfd_settime(loop->alarm_fd, TFD_TIMER_ABSTIME, &at, NULL);
    if (first)
        uv_ref((uv_handle_t *)&loop->alarm);
    else
        uv_unref((uv_handle_t *)&loop->alarm);
}

/* Behind those that are due at the same time. */
static void link_timer(struct loop_timer *timer, uint64_t due_ms)
{
    struct loop_timer **at = &timer->loop->timers;
    while (*at && (*at)->due_ms <= due_ms)
        at = &(*at)->next;
    timer->due_ms = due_ms;
    timer->next = *at;
    timer->waits = true;
    *at = timer;
}

static void unlink_timer(struct loop_timer *timer)
{
    struct loop_timer **at = &timer->loop->timers;
    while (*at != timer)
        at = &(*at)->next;
    *at = timer->next;
    timer->waits = false;
}

/* Not from the loop's time, which stands still in a turn: what starts itself again in on_level
 * would be due for ever. */
static void begin_to_wait(struct loop_timer *timer, uint64_t after_ms)
{
    uint64_t now_ms = clock_monotonic_ns() / MS;
    link_timer(timer, after_ms < UINT64_MAX - now_ms ? now_ms + after_ms : UINT64_MAX);
    if (timer->loop->timers == timer)
        set_alarm(timer->loop);
}

static void end_to_wait(struct loop_timer *timer)
{
    bool was_first = timer->loop->timers == timer;
    if (!timer->waits)
        return;
    unlink_timer(timer);
    if (was_first)
        set_alarm(timer->loop);
}

/* A callback may start, stop and close any timer. */
static void on_level(uv_check_t *uv)
{
    struct loop *loop = uv_handle_get_data((uv_handle_t *)uv);
    uint64_t now_ms = clock_monotonic_ns() / MS;
    uv_check_stop(uv);
    while (loop->timers && loop->timers->due_ms <= now_ms) {
        struct loop_timer *timer = loop->timers;
        unlink_timer(timer);
        if (timer->repeat_ms)
            link_timer(timer, now_ms + timer->repeat_ms);
        timer->fire(timer);
    }
    set_alarm(loop);
}

/* What has come by now goes first: a deadline may be put off by it. */
static void on_alarm(uv_poll_t *uv, int status, int events)
{
    (void)status;
    (void)events;
    struct loop *loop = uv_handle_get_data((uv_handle_t *)uv);
    uint64_t times;
    (void)!read(loop->alarm_fd, &times, sizeof(times));
    uv_check_start(&loop->level, on_level);
}

enum kiln_code loop_timers_open(struct loop *loop, struct kiln_err *err)
{
    loop->alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (loop->alarm_fd < 0)
        return kiln_fail_errno(err, errno, "cannot make a timer");
    int status = uv_poll_init(&loop->uv, &loop->alarm, loop->alarm_fd);
    if (status) {
        close(loop->alarm_fd);
        return loop_fail(err, status, "cannot watch a timer");
    }
    uv_check_init(&loop->uv, &loop->level);
    uv_handle_set_data((uv_handle_t *)&loop->level, loop);
    uv_handle_set_data((uv_handle_t *)&loop->alarm, loop);
    uv_poll_start(&loop->alarm, UV_READABLE, on_alarm);
    uv_unref((uv_handle_t *)&loop->alarm);
    return KILN_OK;
}

void loop_timers_close(struct loop *loop)
{
    uv_close((uv_handle_t *)&loop->alarm, NULL);
    uv_close((uv_handle_t *)&loop->level, NULL);
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    close(loop->alarm_fd);
}

/* ---- one timer ---- */

static void on_turn(uv_timer_t *uv)
{
    struct loop_timer *timer = uv_handle_get_data((uv_handle_t *)uv);
    if (timer->repeat_ms)
        begin_to_wait(timer, timer->repeat_ms);
    timer->fire(timer);
}

void loop_timer_init(struct loop *loop, struct loop_timer *timer, struct loop_owner *owner,
                     void (*fire)(struct loop_timer *timer))
{
    uv_timer_init(&loop->uv, LOOP_UV(uv_timer_t, &timer->handle));
    timer->loop = loop;
    timer->fire = fire;
    timer->waits = false;
    loop_handle_opened(&timer->handle, owner, timer);
}

void loop_timer_start(struct loop_timer *timer, uint64_t after_ms, uint64_t repeat_ms)
{
    if (!loop_handle_is_open(&timer->handle))
        return;
    loop_timer_stop(timer);
    timer->repeat_ms = repeat_ms;
    if (after_ms > 0)
        begin_to_wait(timer, after_ms);
    else
        uv_timer_start(LOOP_UV(uv_timer_t, &timer->handle), on_turn, 0, 0);
}

void loop_timer_stop(struct loop_timer *timer)
{
    if (!loop_handle_is_open(&timer->handle))
        return;
    uv_timer_stop(LOOP_UV(uv_timer_t, &timer->handle));
    end_to_wait(timer);
}

bool loop_timer_is_running(const struct loop_timer *timer)
{
    return loop_handle_is_open(&timer->handle) &&
           (timer->waits || uv_is_active(LOOP_UV(const uv_handle_t, &timer->handle)));
}

void loop_timer_close(struct loop_timer *timer)
{
    loop_timer_stop(timer);
    loop_handle_close(&timer->handle);
}
