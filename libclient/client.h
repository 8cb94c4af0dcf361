/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The internals of struct kiln_client, for the files that implement its calls.
 *
 * Role       holds the connection multiplexer to kilnd, the in-process cache of answers, and the
 *            defaults
 * Ownership  kiln_client_open / kiln_client_close
 * Threading  immutable, except for multiplexer, cache and soon, which have their own locks
 */
#include "libclient/connection/fallback.h"
#include "libclient/connection/fork_guard.h"
#include "libclient/connection/multiplexer.h"
#include "libclient/kernels/answer_cache.h"
#include "libclient/trace.h"

#include <kiln/client.h>
#include <stdatomic.h>

struct soon;

struct kiln_client {
    struct multiplexer *multiplexer;
    struct fallback *fallback;
    struct answer_cache *cache;
    struct trace *trace; /* NULL unless KILN_TRACE is set */
    /* Looks for better plans in the background; NULL before the first find with KILN_FIND_SOON. */
    _Atomic(struct soon *) soon;
    /* Set before |soon|.  A pointer, so that programs which find no plans, such as libkiln-rtc, do
     * not contain the code of convolutions. */
    void (*destroy_soon)(struct soon *soon, bool is_child);
    struct fork_guard guard;
    int timeout_ms;
    /* set by KILN_DISABLE_CACHE or MIOPEN_DISABLE_CACHE */
    bool no_cache;
    char socket_path[256];
    /* neither the caller nor KILN_SOCKET named the socket, so libkiln chose the path */
    bool socket_is_found;
    char software[128];
};

/* Every public call calls this function first.  Rejects a NULL client, a client that was opened by
 * this process's parent before a fork, and a negative time-out.  Turns the time-out (0 means the
 * client's default) into a deadline. */
KILN_MUST_CHECK enum kiln_code client_enter(const struct kiln_client *client, int timeout_ms,
                                            uint64_t *ret_deadline_ns, struct kiln_err *err);

KILN_MUST_CHECK enum kiln_code client_check_cache(const struct kiln_client *client,
                                                  struct kiln_err *err);

/* Opens a connection for requests that must not share the client's connection.  Connects only to
 * the host's daemon, because these requests are for administrators. */
KILN_MUST_CHECK enum kiln_code client_open_multiplexer(struct kiln_client *client,
                                                       struct multiplexer **ret_multiplexer,
                                                       struct kiln_err *err);

void client_frame_init(struct buffer *frame);
/* Begins a frame in |storage| instead of on the heap.  The caller must not call buffer_done on
 * |frame|. */
void client_frame_init_in(struct buffer *frame, uint8_t *storage, size_t size);
