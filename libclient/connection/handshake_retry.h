/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Opens a connection, completes its handshake, and retries after failures that may be temporary.
 *
 * Ownership  the caller owns the transport of the result
 * Threading  blocks the calling thread, at most until the deadline
 */
#include "libclient/connection/handshake.h"

struct handshake_options {
    enum kiln_code (*connect)(void *context, uint64_t deadline_ns, struct transport **ret_transport,
                              struct kiln_err *err);
    void *context;
    const char *software;
    bool reached_before; /* a daemon was reachable before, so wait for it to return */
    /* Called after each handshake with its result.  KILN_TIMED_OUT means that no answer came for
     * |grace_ns|.  Returns true if the next call of |connect| goes to another server;
     * handshake_open then makes this call without a pause.  NULL means always false. */
    bool (*on_handshake)(void *context, enum kiln_code rc, const struct kiln_err *err);
    uint64_t grace_ns; /* how long to wait for the answer to hello; 0: until the deadline */
};

struct handshake_result {
    struct transport *transport;
    struct handshake handshake;
    bool reached; /* set if an attempt has connected, even when the call fails */
};

/* Connects and completes the handshake.  Tries again if the daemon was reachable before, exits
 * during the handshake, or is busy; does not try again after a rejection.  Returns KILN_UNAVAILABLE
 * at once if no daemon was ever reachable, and KILN_TIMED_OUT at the deadline. */
KILN_MUST_CHECK enum kiln_code handshake_open(const struct handshake_options *options,
                                              uint64_t deadline_ns,
                                              struct handshake_result *ret_result,
                                              struct kiln_err *err);
