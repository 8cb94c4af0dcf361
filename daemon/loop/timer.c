/* SPDX-License-Identifier: MIT */
#include "daemon/loop/timer.h"

#include "daemon/loop/uv_handle.h"

LOOP_HANDLE_FITS(uv_timer_t);

static void on_timer(uv_timer_t *uv)
{
    struct loop_timer *timer = uv_handle_get_data((uv_handle_t *)uv);
    timer->fire(timer);
}

void loop_timer_init(struct loop *loop, struct loop_timer *timer, struct loop_owner *owner,
                     void (*fire)(struct loop_timer *timer))
{
    uv_timer_init(&loop->uv, LOOP_UV(uv_timer_t, &timer->handle));
    timer->fire = fire;
    loop_handle_opened(&timer->handle, owner, timer);
}

void loop_timer_start(struct loop_timer *timer, uint64_t after_ms, uint64_t repeat_ms)
{
    if (loop_handle_is_open(&timer->handle))
        uv_timer_start(LOOP_UV(uv_timer_t, &timer->handle), on_timer, after_ms, repeat_ms);
}

void loop_timer_stop(struct loop_timer *timer)
{
    if (loop_handle_is_open(&timer->handle))
        uv_timer_stop(LOOP_UV(uv_timer_t, &timer->handle));
}

bool loop_timer_is_running(const struct loop_timer *timer)
{
    return loop_handle_is_open(&timer->handle) &&
           uv_is_active(LOOP_UV(const uv_handle_t, &timer->handle));
}

void loop_timer_close(struct loop_timer *timer) { loop_handle_close(&timer->handle); }
