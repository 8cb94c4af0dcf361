/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Packets between kilnd and its transfer processes: one JSON object, with descriptors
 * (SOCK_SEQPACKET).
 *
 * Ownership  the receiver owns the JSON and the descriptors
 * Threading  plain values
 */
#include "common/base/err.h"
#include "common/base/json.h"

struct packet { /* borrowed */
    const struct json *json;
    const int *fds;
    size_t fd_count;
    int flags;
};

/* Sends a packet. Returns KILN_BUSY if processes of this user have sent too many descriptors that
 * were not received yet. With MSG_DONTWAIT, also returns KILN_BUSY if the socket is full. */
KILN_MUST_CHECK enum kiln_code packet_send(int socket, const struct packet *packet,
                                           struct kiln_err *err);
/* Receives a packet. |fds| receives at most two descriptors, and -1 for each missing one; |fds| may
 * be NULL. Returns KILN_BUSY if no packet has arrived, and KILN_UNAVAILABLE if no further packet
 * will arrive, both without a message. */
KILN_MUST_CHECK enum kiln_code packet_receive(int socket, int flags, struct json **ret_json,
                                              int fds[2], struct kiln_err *err);
