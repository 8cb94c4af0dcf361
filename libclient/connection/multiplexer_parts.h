/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The internals of the multiplexer, private to the multiplexer*.c files.
 *
 * Threading  the caller of each function holds the mutex; the comment of a function says if it
 *            releases the mutex temporarily
 */
#include "libclient/connection/multiplexer.h"

struct multiplexer {
    pthread_mutex_t mutex;
    struct multiplexer_options options;
    char software[128];

    struct transport *transport; /* only the leader replaces it */
    unsigned long generation;
    bool broken;
    bool stopping; /* the daemon is exiting and reads no more requests */
    bool leading;
    bool reached;
    struct list sleepers; /* sleeping struct waiter; one of them becomes the next leader */

    /* unanswered struct request, in the order in which they were submitted */
    struct list requests;
    unsigned sent; /* how many of |requests| were sent to the current daemon */
    unsigned unsent;
    uint64_t next_id;
    struct multiplexer_status status;
};

static inline uint64_t multiplexer_connection(unsigned long generation)
{
    return generation + 1ull;
}

void multiplexer_link(struct multiplexer *x, struct request *rq);
void multiplexer_unlink(struct multiplexer *x, struct request *rq);
struct request *multiplexer_find(const struct multiplexer *x, uint64_t id);
void multiplexer_wake(struct waiter *w);
/* Ends |rq|.  The caller must not use |rq| afterwards: its owner may read |ended| without the mutex
 * and free the request at once. */
void multiplexer_end_request(struct multiplexer *x, struct request *rq, enum kiln_code code);
void multiplexer_end_with(struct multiplexer *x, struct request *rq, const struct kiln_err *why);
void multiplexer_fail_everyone(struct multiplexer *x, const struct kiln_err *why);
/* Decides whether |rq| may be sent again after |why|.  Ends |rq| if its |once| or |connection| is
 * set, or if |rq| was sent too often already.  Otherwise keeps |rq| for the next connection. */
void multiplexer_keep_for_next(struct multiplexer *x, struct request *rq, const char *why);

/* Stops the transport, so that the leader's read fails and the leader reconnects. */
void multiplexer_stop_transport(struct multiplexer *x);
void multiplexer_send_waiting(struct multiplexer *x);
void multiplexer_send_cancel(struct multiplexer *x, uint64_t id);

/* If the frame that |me| read is for |me|, accepts the frame; otherwise stores it for its owner.
 * This function and multiplexer_accept_stored release the mutex while they accept a frame. */
void multiplexer_deliver(struct multiplexer *x, struct waiter *me, struct transport_frame *frame);
/* Accepts a frame for |w| that another thread has read.  Returns false if there is no such frame.
 */
bool multiplexer_accept_stored(struct multiplexer *x, struct waiter *w);
/* Drops the frames of |rq| that another thread has read.  Returns whether there were any. */
bool multiplexer_drop_stored(struct waiter *w, const struct request *rq);
