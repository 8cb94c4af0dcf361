/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The handshake: hello and welcome on a new connection (docs/protocol.md).
 *
 * Threading  the thread that owns the transport; blocks until the reply or the deadline
 */
#include "common/protocol/messages.h"
#include "common/protocol/transport.h"

struct handshake { /* the server's identity, and its limits */
    uint16_t version;
    uint64_t capabilities; /* those that both sides have */
    uint32_t pid;
    unsigned role;          /* enum role: the client's */
    uint32_t max_body;      /* bytes */
    uint32_t max_in_flight; /* at least 1 */
    char software[64];
};

#define HANDSHAKE_REQUEST_ID 1u /* later requests use the numbers after it */

KILN_MUST_CHECK enum kiln_code handshake_send(struct transport *transport, const char *software,
                                              struct kiln_err *err);
/* Receives the answer.  KILN_UNSUPPORTED if the two sides share no version; the message names both.
 * KILN_TIMED_OUT: no answer yet; the caller may call again. */
KILN_MUST_CHECK enum kiln_code handshake_receive(struct transport *transport, uint64_t deadline_ns,
                                                 struct handshake *ret_handshake,
                                                 struct kiln_err *err);
