/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Links: getting a connection that was greeted, patiently where that makes sense.
 *
 * Role       connect, hello, and the pauses between attempts
 * Ownership  the transport returned is the caller's
 * Threading  blocks the calling thread until the deadline at most
 */
#include "libclient/connection/handshake.h"

struct link_wish {
    /* Opens a connection; codes as transport_socket_connect(). */
    enum kiln_code (*connect)(void *context, uint64_t deadline_ns, struct transport **ret_transport,
                              struct kiln_err *err);
    void *context;
    const char *software; /* for hello */
    bool reached_before;  /* a daemon was there once: it is waited for */
    /* How a greeting went; KILN_TIMED_OUT: there is no answer for |grace_ns|.  True: |connect|
     * leads elsewhere now, and is called at once.  NULL: it never does. */
    bool (*greeted)(void *context, enum kiln_code rc, const struct kiln_err *err);
    uint64_t grace_ns; /* 0: as long as there is time */
};

/* Attempts until one succeeds.  A daemon that was never there is not waited for
 * (KILN_UNAVAILABLE); one that was, that dies while it greets us or that is busy, is
 * (KILN_TIMED_OUT in the end).  A refusal is final.  *ret_reached: some connection came about. */
KILN_MUST_CHECK enum kiln_code link_open(const struct link_wish *wish, uint64_t deadline_ns,
                                         struct transport **ret_transport,
                                         struct handshake *ret_handshake, bool *ret_reached,
                                         struct kiln_err *err);
