/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The internals of the multiplexer, private to the multiplexer*.c files.
 *
 * Threading  the caller of each function holds the mutex; comments name the functions that release
 *            it temporarily
 */
#include "libclient/connection/multiplexer.h"

struct multiplexer {
    pthread_mutex_t mutex; /* protects everything below */
    struct multiplexer_options options;
    char software[128];

    struct transport *transport; /* owned; only the leader replaces it */
    unsigned long generation;    /* number of the connection behind |transport| */
    bool broken;                 /* the transport must be replaced */
    bool stopping;               /* the daemon reads no more requests; send them to the next one */
    bool leading;                /* a thread is reading or connecting */
    bool reached;                /* true if a daemon has ever accepted a connection */
    struct list sleepers;        /* struct waiter; any of them may lead next */

    struct list requests; /* struct request; unanswered, in the order submitted */
    unsigned sent;        /* how many of |requests| were sent to the current daemon */
    unsigned unsent;
    uint64_t next_id;
    struct multiplexer_status status;
};

static inline uint64_t multiplexer_connection(unsigned long generation)
{
    return generation + 1ull;
}

/* ---- multiplexer_requests.c: the list, and how requests end ---- */

void multiplexer_link(struct multiplexer *x, struct request *rq);
void multiplexer_unlink(struct multiplexer *x, struct request *rq);
struct request *multiplexer_find(const struct multiplexer *x, uint64_t id);
void multiplexer_wake(struct waiter *w);
/* Ends the request.  Do not use |rq| afterwards: its owner may read |ended| without the mutex and
 * free the request at once. */
void multiplexer_end_request(struct multiplexer *x, struct request *rq, enum kiln_code code);
void multiplexer_end_with(struct multiplexer *x, struct request *rq, const struct kiln_err *why);
void multiplexer_fail_everyone(struct multiplexer *x, const struct kiln_err *why);
/* Marks |rq| unsent because of |why|.  It is sent again on the next connection, unless it has
 * |once| set or was sent too often already. */
void multiplexer_keep_for_next(struct multiplexer *x, struct request *rq, const char *why);

/* ---- multiplexer_send.c ---- */

/* Stops the transport.  The leader's read then fails, and the leader reconnects. */
void multiplexer_stop_transport(struct multiplexer *x);
/* Sends as many unsent requests as the daemon and the socket accept. */
void multiplexer_send_waiting(struct multiplexer *x);
void multiplexer_send_cancel(struct multiplexer *x, uint64_t id);

/* ---- multiplexer_receive.c: frames to their owners ---- */

/* Handles a frame that |me| read: accepts it if it is for |me|, else stores it for its owner.  This
 * function and the next one release the mutex while they accept a frame. */
void multiplexer_deliver(struct multiplexer *x, struct waiter *me, struct transport_frame *frame);
/* Accepts a frame that another thread read for |w|.  Returns false if there is none. */
bool multiplexer_accept_stored(struct multiplexer *x, struct waiter *w);
void multiplexer_drop_stored(struct waiter *w, const struct request *rq);
