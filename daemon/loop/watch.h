/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Waits until a descriptor is readable or writable (level-triggered).
 *
 * Ownership  the caller embeds the struct, keeps the descriptor, and closes the descriptor after
 *            loop_watch_close
 * Threading  the loop's thread
 */
#include "daemon/loop/loop.h"

#define WATCH_READ 1u
#define WATCH_WRITE 2u
/* An event that is reported but never requested: the descriptor failed, and no more events will
 * come. */
#define WATCH_BROKEN 4u

struct loop_watch {
    struct loop_handle handle;
    unsigned events;
    void (*ready)(struct loop_watch *watch, unsigned events); /* set by the caller before init */
};

KILN_MUST_CHECK enum kiln_code loop_watch_init(struct loop *loop, struct loop_watch *watch,
                                               struct loop_owner *owner, int fd,
                                               struct kiln_err *err);
/* Waits for WATCH_READ | WATCH_WRITE, or for nothing (0).  An unchanged value costs no system
 * call. */
void loop_watch_set(struct loop_watch *watch, unsigned events);
void loop_watch_close(struct loop_watch *watch);
