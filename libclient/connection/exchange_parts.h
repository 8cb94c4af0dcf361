/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The exchange's inside, shared by the exchange*.c files alone.
 *
 * Threading  the mutex is held by whoever calls any of these; what lets go of it meanwhile says so
 */
#include "libclient/connection/exchange.h"

struct exchange {
    pthread_mutex_t mutex; /* of everything below */
    struct exchange_options options;
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
    struct exchange_status status;
};

static inline uint64_t exchange_connection(unsigned long generation) { return generation + 1ull; }

/* ---- exchange_requests.c: the list, and how a request ends ---- */

void exchange_link(struct exchange *x, struct request *rq);
void exchange_unlink(struct exchange *x, struct request *rq);
struct request *exchange_find(const struct exchange *x, uint64_t id);
void exchange_wake(struct waiter *w);
/* Its owner may look at |ended| without the mutex and be gone at once. */
void exchange_end_request(struct exchange *x, struct request *rq, enum kiln_code code);
void exchange_end_with(struct exchange *x, struct request *rq, const struct kiln_err *why);
void exchange_fail_everyone(struct exchange *x, const struct kiln_err *why);
/* |rq| is unsent, for |why|: it is sent again unless that is not wanted or has been often. */
void exchange_keep_for_next(struct exchange *x, struct request *rq, const char *why);

/* ---- exchange_send.c ---- */

/* The reader will see it, and connect again. */
void exchange_stop_transport(struct exchange *x);
/* What has not gone out yet, as far as the daemon and the socket take it. */
void exchange_send_waiting(struct exchange *x);
void exchange_send_cancel(struct exchange *x, uint64_t id);

/* ---- exchange_receive.c: frames to their owners ---- */

/* A frame that |me| read: accepted when it is his, else put where its owner finds it.  Lets go of
 * the mutex while a frame is accepted, as the next one does. */
void exchange_deliver(struct exchange *x, struct waiter *me, struct transport_frame *frame);
/* Accepts a frame that another thread read for |w|; false when there is none. */
bool exchange_open_parcel(struct exchange *x, struct waiter *w);
void exchange_drop_parcels(struct waiter *w, const struct request *rq);
