/* SPDX-License-Identifier: MIT */
#pragma once

/* What the files of this directory share: the storage of handles as libuv sees it. */
#include "daemon/loop/loop.h"

#include <uv.h>

struct loop {
    uv_loop_t uv;
    /* timer.c's own: */
    uv_poll_t alarm;           /* of |alarm_fd| */
    int alarm_fd;              /* owned timerfd: when the first of |timers| is due */
    uv_check_t level;          /* runs once what came beside the alarm has been handled */
    struct loop_timer *timers; /* borrowed: those that wait, in the order of their times */
};

#define LOOP_UV(type, handle) ((type *)(void *)(handle)->uv)
#define LOOP_HANDLE_FITS(type)                                                     \
    _Static_assert(sizeof(type) <= LOOP_HANDLE_ROOM, "LOOP_HANDLE_ROOM too small " \
                                                     "for " #type)

/* Right after uv_X_init: from now on the handle counts. */
void loop_handle_opened(struct loop_handle *handle, struct loop_owner *owner, void *self);
/* Accepts a handle that is closed, closing or was never opened. */
void loop_handle_close(struct loop_handle *handle);
/* With the loop's making and end; the latter ends with a turn of the loop. */
KILN_MUST_CHECK enum kiln_code loop_timers_open(struct loop *loop, struct kiln_err *err);
void loop_timers_close(struct loop *loop);
/* The code for a libuv status, which is a negated errno on this platform. */
enum kiln_code loop_fail(struct kiln_err *err, int status, const char *what);
