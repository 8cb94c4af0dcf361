/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The handshake: hello and welcome on a new connection (docs/protocol.md).
 *
 * Threading  the thread that owns the transport; blocks until the reply or the deadline
 */
#include "common/protocol/messages.h"
#include "common/protocol/transport.h"

struct handshake {
    uint16_t version;
    uint64_t capabilities; /* capabilities that both client and server have */
    uint32_t pid;
    unsigned role; /* enum role, according to the server */
    uint32_t max_body;
    uint32_t max_in_flight;
    char software[64];
};

#define HANDSHAKE_REQUEST_ID 1u

KILN_MUST_CHECK enum kiln_code handshake_send(struct transport *transport, const char *software,
                                              struct kiln_err *err);
/* Returns KILN_UNSUPPORTED if client and server have no protocol version in common.  Returns
 * KILN_TIMED_OUT if no answer came before the deadline; the caller may then call this function
 * again. */
KILN_MUST_CHECK enum kiln_code handshake_receive(struct transport *transport, uint64_t deadline_ns,
                                                 struct handshake *ret_handshake,
                                                 struct kiln_err *err);
