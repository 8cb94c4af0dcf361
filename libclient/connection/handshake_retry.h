/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Opens a connection and completes its handshake, with retries where they make sense.
 *
 * Role       connect, hello, and the pauses between attempts
 * Ownership  the caller owns the transport of the result
 * Threading  blocks the calling thread, at most until the deadline
 */
#include "libclient/connection/handshake.h"

struct handshake_options {
    /* Opens a connection; codes as transport_socket_connect(). */
    enum kiln_code (*connect)(void *context, uint64_t deadline_ns, struct transport **ret_transport,
                              struct kiln_err *err);
    void *context;
    const char *software; /* for hello */
    bool reached_before;  /* a daemon was reachable once: wait for it to return */
    /* Called after each handshake with its result; KILN_TIMED_OUT means no answer for |grace_ns|.
     * Returns true if |connect| now leads to another server and shall be called at once.  NULL: it
     * never does. */
    bool (*on_handshake)(void *context, enum kiln_code rc, const struct kiln_err *err);
    uint64_t grace_ns; /* 0: until the deadline */
};

struct handshake_result {
    struct transport *transport; /* owned by the caller; NULL on failure */
    struct handshake handshake;  /* valid with |transport| */
    bool reached;                /* an attempt connected; set on failure, too */
};

/* Tries until one attempt succeeds.  Does not wait for a daemon that was never reachable
 * (KILN_UNAVAILABLE).  Waits for one that was reachable before, that exits during the handshake, or
 * that is busy (at the deadline, KILN_TIMED_OUT).  A rejection is final. */
KILN_MUST_CHECK enum kiln_code handshake_open(const struct handshake_options *options,
                                              uint64_t deadline_ns,
                                              struct handshake_result *ret_result,
                                              struct kiln_err *err);
