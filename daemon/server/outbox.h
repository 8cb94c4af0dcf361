/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sends replies to a socket and queues the bytes that the socket does not accept.
 *
 * Role       sends at once if possible; copies and queues the rest of a frame otherwise
 * Ownership  a queued frame owns its bytes and holds references to its objects and zero-copy
 *            segments; all are charged to the account
 * Threading  the loop's thread
 *
 * A frame's descriptors are sent with its first byte.  So a frame with descriptors starts a new
 * sendmsg; frames without descriptors are appended to it.
 */
#include "common/base/list.h"
#include "common/protocol/frame.h"
#include "daemon/server/account.h"
#include "engine/service/service.h"

struct outbox {
    struct account *account;
    struct list chunks; /* of struct chunk */
    /* queued bytes; each reference to an object counts as OUTBOX_OBJECT_COST bytes */
    size_t bytes;
    size_t limit;    /* beyond it, the connection is dropped */
    bool starved;    /* too many of kilnd's descriptors are in transit, so retry later */
    bool progressed; /* bytes were sent since the owner last cleared this flag */
};

/* Bytes that are charged for a queued reference: its descriptor and some bookkeeping. */
#define OUTBOX_OBJECT_COST 512

struct outgoing {
    struct frame_header header;
    struct bytes body; /* without its zero-copy segments */
    const struct segment *segments;
    size_t segment_count;
    struct object *const *objects;
    size_t object_count;
};

void outbox_init(struct outbox *outbox, struct account *account, size_t limit);
void outbox_done(struct outbox *outbox);
/* Sends a frame, or queues what the socket does not accept.  If |hold| is true, a small frame waits
 * for outbox_flush, so that one system call sends several frames.  Returns KILN_FULL if too much is
 * queued for this connection or user, and KILN_UNAVAILABLE if the peer is gone. */
KILN_MUST_CHECK enum kiln_code outbox_send(struct outbox *outbox, int fd,
                                           const struct outgoing *frame, bool hold,
                                           struct kiln_err *err);
/* Returns KILN_UNAVAILABLE if the peer is gone. */
KILN_MUST_CHECK enum kiln_code outbox_flush(struct outbox *outbox, int fd, struct kiln_err *err);
bool outbox_is_empty(const struct outbox *outbox);
