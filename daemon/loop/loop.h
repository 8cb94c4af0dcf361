/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The event loop.  Only this directory uses libuv.
 *
 * Role       runs callbacks on one thread: timers, descriptors, signals, processes. work_queues.h
 *            runs blocking work on other threads
 * Ownership  a handle (struct loop_timer, loop_watch, ...) is embedded in its owner.  Closing is
 *            asynchronous: the owner's |gone| runs when the last of its handles has closed, and
 *            only then may the owner be freed
 * Threading  one thread makes every call and runs every callback; no call runs a callback itself
 */
#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct loop;

struct loop_owner {
    unsigned open;
    /* May free the owner; may be NULL. */
    void (*gone)(struct loop_owner *owner);
};

/* Bytes of a handle, at least the size of any libuv handle (checked at build time).  With this
 * size, other directories can embed handles without uv.h. */
#define LOOP_HANDLE_SIZE 192

struct loop_handle {
    struct loop_owner *owner; /* borrowed; NULL if the handle is closing, or was never opened */
    struct loop_owner *count; /* borrowed; counts this handle until it is closed */
    _Alignas(16) unsigned char uv[LOOP_HANDLE_SIZE];
};

KILN_MUST_CHECK enum kiln_code loop_create(struct loop **ret_loop, struct kiln_err *err);
void loop_destroy(struct loop *loop);

void loop_run(struct loop *loop);
bool loop_iteration(struct loop *loop);
/* Returns the monotonic time at which this iteration began, without a system call. */
uint64_t loop_now_ms(const struct loop *loop);

/* Returns true between init and close. */
bool loop_handle_is_open(const struct loop_handle *handle);

#define LOOP_OWNER_OF(type, member, pointer) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
