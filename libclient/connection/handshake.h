/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The greeting: hello and welcome on a fresh connection (docs/protocol.md).
 *
 * Threading  whoever owns the transport; blocks until the deadline
 */
#include "common/messages.h"
#include "common/transport.h"

struct handshake { /* who answered, and what it allows */
    uint16_t version;
    uint64_t capabilities; /* of both sides */
    uint32_t pid;
    unsigned role;          /* enum role: ours */
    uint32_t max_body;      /* bytes */
    uint32_t max_in_flight; /* at least 1 */
    char software[64];
};

#define HANDSHAKE_REQUEST_ID 1u /* later requests count on from here */

KILN_MUST_CHECK enum kiln_code handshake_say(struct transport *transport, const char *software,
                                             struct kiln_err *err);
/* The answer.  KILN_UNSUPPORTED when the two share no version; the sentence names both.
 * KILN_TIMED_OUT: it has not come yet, and may be asked for again. */
KILN_MUST_CHECK enum kiln_code handshake_hear(struct transport *transport, uint64_t deadline_ns,
                                              struct handshake *ret_handshake,
                                              struct kiln_err *err);
