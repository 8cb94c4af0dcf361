/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Transports: send requests and receive replies.
 *
 * Role       Moves whole frames and their descriptors between a client and an engine
 *            (libclient/connection/transport_socket.c, engine/embed/embed.c)
 * Ownership  transport_destroy() ends the connection; each call documents who owns a frame
 * Threading  Any number of threads may send.  One thread at a time may receive, while others send.
 *            Any thread may call stop
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "common/protocol/frame.h"

#include <stddef.h>
#include <stdint.h>

#define TRANSPORT_NO_DEADLINE UINT64_MAX

struct transport;

struct transport_frame { /* contents are not trusted */
    struct frame_header header;
    struct bytes body; /* borrowed from the transport until the next receive */
    /* The array is borrowed like |body|.  The descriptors in it belong to the caller of receive.
     * To keep one, the caller writes -1 in its place; transport_frame_done() closes all others in
     * the array. */
    int *descriptors;
    size_t descriptor_count;
};

struct transport_ops {
    const char *name;
    /* Sends one whole frame and never waits.  Bytes that the peer cannot accept yet are copied, and
     * sent during receive.  Returns KILN_UNAVAILABLE if the peer is gone. */
    enum kiln_code (*send)(struct transport *transport, struct bytes frame, struct kiln_err *err);
    /* Also sends descriptors, which are borrowed during the call.  Call it only while is_sending
     * returns false.  Returns KILN_BUSY if the peer cannot accept any byte now.  May be NULL. */
    enum kiln_code (*send_files)(struct transport *transport, struct bytes frame, const int *files,
                                 size_t file_count, struct kiln_err *err);
    /* Returns true while an earlier frame is only partly sent.  Callers then send no further
     * frames. */
    bool (*is_sending)(struct transport *transport);
    /*
     * Receives the next frame.
     *   KILN_BUSY         no frame came, but all pending output has been sent
     *   KILN_TIMED_OUT    no frame came until |deadline_ns| (clock_monotonic_ns): call again
     *   KILN_UNAVAILABLE  the peer is gone
     *   KILN_FULL         this process has too many open files to accept the descriptors
     *   KILN_NO_MEMORY    out of memory
     *   KILN_CORRUPT      not a frame, or its descriptors differ from its header
     * After one of the last four, the transport can only be destroyed.
     */
    enum kiln_code (*receive)(struct transport *transport, uint64_t deadline_ns,
                              struct transport_frame *ret_frame, struct kiln_err *err);
    /* Makes a receive in progress, and all later ones, return KILN_UNAVAILABLE. */
    void (*stop)(struct transport *transport);
    void (*destroy)(struct transport *transport);
};

struct transport {
    const struct transport_ops *ops;
};

static inline void transport_destroy(struct transport *transport)
{
    if (transport)
        transport->ops->destroy(transport);
}
KILN_DEFINE_AUTO(transport)

static inline void transport_frame_done(struct transport_frame *frame)
{
    for (size_t i = 0; i < frame->descriptor_count; i++)
        if (frame->descriptors[i] >= 0)
            close(frame->descriptors[i]);
    frame->descriptor_count = 0;
}
