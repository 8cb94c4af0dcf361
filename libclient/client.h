/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The internals of struct kiln_client, for the files that implement its calls.
 *
 * Role       holds the connection multiplexer to kilnd, the in-process cache of answers, and the
 *            defaults
 * Ownership  kiln_client_open / kiln_client_close
 * Threading  immutable, except for multiplexer and cache, which have their own locks
 */
#include "libclient/connection/fallback.h"
#include "libclient/connection/fork_guard.h"
#include "libclient/connection/multiplexer.h"
#include "libclient/kernels/answer_cache.h"

#include <kiln/client.h>

struct kiln_client {
    struct multiplexer *multiplexer; /* owned */
    struct fallback *fallback;       /* owned; used by |multiplexer| only */
    struct answer_cache *cache;      /* owned; caches answers of kilnd in this process */
    struct fork_guard guard;
    int timeout_ms;
    /* set by KILN_DISABLE_CACHE or MIOPEN_DISABLE_CACHE: stored kernels are not used */
    bool no_cache;
    char socket_path[256];
    /* True if neither the caller nor a variable named the socket, so kiln chose it. */
    bool socket_is_found;
    char software[128]; /* name of the client program, which hello sends */
};

/* Must be called first in every public call.  Rejects a NULL client, a client that was opened by
 * this process's parent before a fork, and a negative time-out.  Turns the time-out (0 means the
 * client's default) into a deadline. */
KILN_MUST_CHECK enum kiln_code client_enter(const struct kiln_client *client, int timeout_ms,
                                            uint64_t *ret_deadline_ns, struct kiln_err *err);

/* Returns KILN_NOT_FOUND, with the reason, if stored kernels must not be used. */
KILN_MUST_CHECK enum kiln_code client_check_cache(const struct kiln_client *client,
                                                  struct kiln_err *err);

/* Opens a separate connection, for requests that must not share the client's connection.  It
 * connects only to the host's daemon, because these requests are for administrators. */
KILN_MUST_CHECK enum kiln_code client_open_multiplexer(struct kiln_client *client,
                                                       struct multiplexer **ret_multiplexer,
                                                       struct kiln_err *err);

/* Begins a frame: reserves the header, after which the caller appends the body. */
void client_frame_init(struct buffer *frame);
/* Like client_frame_init, but in the caller's |storage| instead of on the heap.  Do not call
 * buffer_done on |frame|. */
void client_frame_init_in(struct buffer *frame, uint8_t *storage, size_t size);
