/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Transports: carry a request, bring the reply.
 *
 * Role       moves whole frames and their descriptors between a client and an engine; knows
 *            nothing of what is in them.  libclient/connection/transport_socket.c speaks to kilnd,
 *            engine/embed/embed.c calls the engine in the same program, tests bring their own
 * Ownership  transport_destroy() ends the connection; see each call for frames
 * Threading  any number of threads may send; one thread at a time receives, at the same time as
 *            others send; stop may be called by any thread
 */
#include "common/bytes.h"
#include "common/err.h"
#include "common/frame.h"

#include <stddef.h>
#include <stdint.h>

#define TRANSPORT_NO_DEADLINE UINT64_MAX

struct transport;

struct transport_frame { /* as received: nothing in it is trusted yet */
    struct frame_header header;
    struct bytes body; /* borrowed from the transport until the next receive */
    int *descriptors;  /* array borrowed likewise; each member is owned by whoever holds the frame:
                          writing -1 takes it, transport_frame_done() closes the others */
    size_t descriptor_count;
};

struct transport_ops {
    const char *name;
    /* Sends one whole frame (header and body) and never waits: what the other side has no room
     * for yet is copied and sent later, from within receive.  KILN_UNAVAILABLE when the other side
     * is gone. */
    enum kiln_code (*send)(struct transport *transport, struct bytes frame, struct kiln_err *err);
    /* The same with descriptors, borrowed for the call; only when is_sending is false.  KILN_BUSY
     * when the other side has no room for any of it now.  NULL where descriptors cannot be sent. */
    enum kiln_code (*send_files)(struct transport *transport, struct bytes frame, const int *files,
                                 size_t file_count, struct kiln_err *err);
    /* True while an earlier frame is not wholly sent.  Callers hold further ones back then, so
     * that no more than one is ever copied. */
    bool (*is_sending)(struct transport *transport);
    /* The next frame.
     *   KILN_BUSY         no frame, but what was waiting to be sent is sent now
     *   KILN_TIMED_OUT    no sentence: |deadline_ns| (clock_monotonic_ns) passed; ask again at will
     *   KILN_UNAVAILABLE  the other side is gone
     *   KILN_FULL         this process cannot have the descriptors that came
     *   KILN_NO_MEMORY    nor the memory for it
     *   KILN_CORRUPT      what came is no frame, or its descriptors are not as announced
     * After the last four the transport is only good for being destroyed. */
    enum kiln_code (*receive)(struct transport *transport, uint64_t deadline_ns,
                              struct transport_frame *ret_frame, struct kiln_err *err);
    /* Makes a receive in progress, and all later ones, say KILN_UNAVAILABLE. */
    void (*stop)(struct transport *transport);
    void (*destroy)(struct transport *transport);
};

struct transport { /* first member of every implementation */
    const struct transport_ops *ops;
};

static inline void transport_destroy(struct transport *transport)
{
    if (transport)
        transport->ops->destroy(transport);
}
KILN_DEFINE_AUTO(transport)

/* Closes the descriptors that nobody took. */
static inline void transport_frame_done(struct transport_frame *frame)
{
    for (size_t i = 0; i < frame->descriptor_count; i++)
        if (frame->descriptors[i] >= 0)
            close(frame->descriptors[i]);
    frame->descriptor_count = 0;
}
