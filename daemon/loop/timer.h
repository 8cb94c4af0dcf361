/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Timers.  A timer with a delay of zero fires in the next loop iteration, never within
 * loop_timer_start.
 *
 * Ownership  the caller embeds the struct; end with loop_timer_close
 * Threading  the loop's thread
 */
#include "common/base/list.h"
#include "daemon/loop/loop.h"

struct loop_timer {
    struct loop_handle handle;
    struct loop *loop;
    void (*fire)(struct loop_timer *timer);
    uint64_t due_ms, repeat_ms;
    struct list_link link;
};

void loop_timer_init(struct loop *loop, struct loop_timer *timer, struct loop_owner *owner,
                     void (*fire)(struct loop_timer *timer));
/* If |repeat_ms| is 0, the timer fires once.  Replaces the time of a timer that is running
 * already. */
void loop_timer_start(struct loop_timer *timer, uint64_t after_ms, uint64_t repeat_ms);
void loop_timer_stop(struct loop_timer *timer);
bool loop_timer_is_running(const struct loop_timer *timer);
void loop_timer_close(struct loop_timer *timer);
