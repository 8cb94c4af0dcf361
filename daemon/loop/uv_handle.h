/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Shared by the files of this directory: the loop's state, and handles as libuv sees them.
 *
 * Ownership  owners embed handles, and may be freed once all their handles have closed
 * Threading  the loop's thread
 */
#include "common/base/list.h"
#include "daemon/loop/loop.h"
#include "engine/jobs/executor.h"

#include <uv.h>

struct loop {
    uv_loop_t uv;
    /* Used by timer.c: */
    uv_poll_t alarm;
    int alarm_fd; /* owned timerfd, which fires when the first of |timers| is due */
    /* Runs due timers, after the events that arrived together with the alarm. */
    uv_check_t after_events;
    struct list timers; /* pending; earliest first */
    /* Used by loop_queue.c: */
    struct fair_queue waiting; /* of struct task, borrowed */
    uid_t own_uid;             /* kilnd's uid */
    /* The thread's processor time when the last slice with several tasks began. */
    uint64_t slice_ns;
    uv_check_t queue_check;
    uv_idle_t queue_idle; /* active while tasks wait */
};

#define LOOP_UV(type, handle) ((type *)(void *)(handle)->uv)
#define LOOP_HANDLE_FITS(type)                                                     \
    _Static_assert(sizeof(type) <= LOOP_HANDLE_SIZE, "LOOP_HANDLE_SIZE too small " \
                                                     "for " #type)

/* Call it right after uv_X_init. */
void loop_handle_opened(struct loop_handle *handle, struct loop_owner *owner, void *self);
/* Accepts a handle that is closed, is closing, or was never opened. */
void loop_handle_close(struct loop_handle *handle);
/* loop_timers_close must be called last. */
KILN_MUST_CHECK enum kiln_code loop_queue_open(struct loop *loop, struct kiln_err *err);
void loop_queue_close(struct loop *loop);
KILN_MUST_CHECK enum kiln_code loop_timers_open(struct loop *loop, struct kiln_err *err);
void loop_timers_close(struct loop *loop);
enum kiln_code loop_fail(struct kiln_err *err, int status, const char *what);
