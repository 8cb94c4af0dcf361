/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The client's inside, for the files that implement its calls.
 *
 * Role       one exchange with kilnd, one table of what was answered, the defaults
 * Ownership  kiln_client_open / kiln_client_close
 * Threading  immutable but for exchange and table, which lock for themselves
 */
#include "libclient/connection/fallback.h"
#include "libclient/connection/fork_guard.h"
#include "libclient/connection/multiplexer.h"
#include "libclient/kernels/table.h"

#include <kiln/client.h>

struct kiln_client {
    struct multiplexer *multiplexer; /* owned */
    struct fallback *fallback;       /* owned; of |multiplexer| alone */
    struct table *table;             /* owned */
    struct fork_guard guard;
    int timeout_ms;
    bool no_cache; /* KILN_DISABLE_CACHE, MIOPEN_DISABLE_CACHE: nothing stored is used */
    char socket_path[256];
    char software[128]; /* for hello */
};

/* Every call's beginning.  Refuses a NULL client, a child of the process that opened it and a
 * negative time-out; turns the time-out (0: the client's default) into a deadline. */
KILN_MUST_CHECK enum kiln_code client_enter(const struct kiln_client *client, int timeout_ms,
                                            uint64_t *ret_deadline_ns, struct kiln_err *err);

/* KILN_NOT_FOUND, saying why, where stored kernels are not to be used. */
KILN_MUST_CHECK enum kiln_code client_check_cache(const struct kiln_client *client,
                                                  struct kiln_err *err);

/* A connection of its own to the daemon, for what may not share the client's.  To the daemon and no
 * other: it is for administrators. */
KILN_MUST_CHECK enum kiln_code client_open_multiplexer(struct kiln_client *client,
                                                       struct multiplexer **ret_multiplexer,
                                                       struct kiln_err *err);

/* A frame under construction: room for the header, then what the caller appends. */
void client_frame_init(struct buffer *frame);
/* The same in |room|, never on the heap; do not call buffer_done on it. */
void client_frame_init_in(struct buffer *frame, uint8_t *room, size_t size);
