/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The event loop.  Only this directory uses libuv.
 *
 * Role       runs callbacks on one thread: timers, descriptors, signals, processes. work_queues.h
 *            runs blocking work on other threads
 * Ownership  a handle (struct loop_timer, loop_watch, ...) is embedded in its owner.  Closing is
 *            asynchronous: the owner's |gone| runs after its last handle reports closed, and only
 *            then may the owner be freed
 * Threading  one thread makes every call and runs every callback; no callback runs from within a
 *            call
 */
#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct loop;

struct loop_owner {
    unsigned open;                          /* handles that have not reported closed */
    void (*gone)(struct loop_owner *owner); /* may free the owner; NULL for one that stays */
};

/* Storage large enough for any libuv handle, so that uv.h stays in this directory (checked at
 * build time). */
#define LOOP_HANDLE_SIZE 192

struct loop_handle {
    struct loop_owner *owner; /* borrowed; NULL once closing, or never opened */
    struct loop_owner *count; /* borrowed; counts this handle until it is closed */
    _Alignas(16) unsigned char uv[LOOP_HANDLE_SIZE];
};

KILN_MUST_CHECK enum kiln_code loop_create(struct loop **ret_loop, struct kiln_err *err);
/* Every handle must have reported closed.  Accepts NULL. */
void loop_destroy(struct loop *loop);

/* Runs callbacks until no handle is open. */
void loop_run(struct loop *loop);
/* Waits for at least one event and runs its callbacks; false when nothing is open. */
bool loop_iteration(struct loop *loop);
/* The monotonic clock in milliseconds, as of this loop iteration: no system call. */
uint64_t loop_now_ms(const struct loop *loop);

/* True between init and close. */
bool loop_handle_is_open(const struct loop_handle *handle);

#define LOOP_OWNER_OF(type, member, pointer) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
