/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Replies on their way into a socket.
 *
 * Role       sends at once where the socket takes it; copies and queues a frame that it does not
 *            take whole
 * Ownership  a queued frame owns its bytes and holds references to its objects and inlays; all are
 *            charged to the account
 * Threading  the loop's thread
 *
 * A frame's descriptors go with its first byte, so a frame that has some starts a sendmsg of its
 * own; frames without are gathered behind it.
 */
#include "common/frame.h"
#include "daemon/server/account.h"
#include "engine/service/service.h"

struct outbox {
    struct account *account; /* borrowed */
    struct chunk *first;     /* owned queue */
    struct chunk *last;
    size_t bytes;    /* queued, references counted as OUTBOX_OBJECT_COST each */
    size_t limit;    /* of bytes: beyond it the peer is given up */
    bool starved;    /* the kernel has too many descriptors of ours on their way: try later */
    bool progressed; /* something was sent since the owner last cleared this */
};

/* What a queued reference is worth: its descriptor and its share of bookkeeping. */
#define OUTBOX_OBJECT_COST 512

struct outgoing { /* one frame; everything borrowed */
    struct frame_header header;
    struct bytes body; /* without its inlays */
    const struct segment *segments;
    size_t segment_count;
    struct object *const *objects;
    size_t object_count;
};

void outbox_init(struct outbox *outbox, struct account *account, size_t limit);
/* Accepts a zeroed outbox. */
void outbox_done(struct outbox *outbox);
/* With |hold| a small frame waits for outbox_flush, so that several go in one call.
 *   KILN_OK           sent or queued
 *   KILN_FULL         too much is queued, for this connection or for this user
 *   KILN_UNAVAILABLE  the peer is gone */
KILN_MUST_CHECK enum kiln_code outbox_send(struct outbox *outbox, int fd,
                                           const struct outgoing *frame, bool hold,
                                           struct kiln_err *err);
/* Sends what is queued until the socket takes no more; KILN_UNAVAILABLE when the peer is gone. */
KILN_MUST_CHECK enum kiln_code outbox_flush(struct outbox *outbox, int fd, struct kiln_err *err);
bool outbox_is_empty(const struct outbox *outbox);
