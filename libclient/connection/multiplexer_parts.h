/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The exchange's inside, shared by the exchange*.c files alone.
 *
 * Threading  the mutex is held by whoever calls any of these; what lets go of it meanwhile says so
 */
#include "libclient/connection/multiplexer.h"

struct multiplexer {
    pthread_mutex_t mutex; /* of everything below */
    struct multiplexer_options options;
    char software[128];

    struct transport *transport; /* owned; replaced by the leader alone */
    unsigned long generation;    /* of the transport */
    bool broken;                 /* the transport must be replaced */
    bool stopping;               /* the daemon reads no more: ask the next one */
    bool leading;                /* a thread reads, or connects */
    bool reached;                /* a daemon took a connection of ours once */
    struct waiter *asleep;       /* first of those who may lead next */

    struct request *first, *last; /* unanswered, in the order submitted */
    unsigned sent;                /* of them, those that the daemon has */
    unsigned unsent;
    uint64_t next_id;
    struct multiplexer_status status;
};

static inline uint64_t multiplexer_connection(unsigned long generation)
{
    return generation + 1ull;
}

/* ---- multiplexer_requests.c: the list, and how a request ends ---- */

void multiplexer_link(struct multiplexer *x, struct request *rq);
void multiplexer_unlink(struct multiplexer *x, struct request *rq);
struct request *multiplexer_find(const struct multiplexer *x, uint64_t id);
void multiplexer_wake(struct waiter *w);
/* Its owner may look at |ended| without the mutex and be gone at once. */
void multiplexer_end_request(struct multiplexer *x, struct request *rq, enum kiln_code code);
void multiplexer_end_with(struct multiplexer *x, struct request *rq, const struct kiln_err *why);
void multiplexer_fail_everyone(struct multiplexer *x, const struct kiln_err *why);
/* |rq| is unsent, for |why|: it is sent again unless that is not wanted or has been often. */
void multiplexer_keep_for_next(struct multiplexer *x, struct request *rq, const char *why);

/* ---- multiplexer_send.c ---- */

/* The reader will see it, and connect again. */
void multiplexer_stop_transport(struct multiplexer *x);
/* What has not gone out yet, as far as the daemon and the socket take it. */
void multiplexer_send_waiting(struct multiplexer *x);
void multiplexer_send_cancel(struct multiplexer *x, uint64_t id);

/* ---- multiplexer_receive.c: frames to their owners ---- */

/* A frame that |me| read: accepted when it is his, else put where its owner finds it.  Lets go of
 * the mutex while a frame is accepted, as the next one does. */
void multiplexer_deliver(struct multiplexer *x, struct waiter *me, struct transport_frame *frame);
/* Accepts a frame that another thread read for |w|; false when there is none. */
bool multiplexer_open_parcel(struct multiplexer *x, struct waiter *w);
void multiplexer_drop_parcels(struct waiter *w, const struct request *rq);
