/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The exchange: one connection that all threads of a client share.
 *
 * Role       sends requests, hands each reply to the thread that waits for it, connects again when
 *            the connection dies and sends what is unanswered once more
 * Ownership  requests and waiters live with their callers until they ended or were abandoned;
 *            the exchange owns the transport
 * Threading  any number of threads.  One of those that wait leads: it alone reads from the
 *            transport (and connects), and hands other threads' frames to them; when its own
 *            request is done the next one leads.  accept() always runs on the waiter's own thread.
 */
#include "common/messages.h"
#include "common/transport.h"
#include "libclient/connection/handshake.h"
#include "libclient/failure.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct multiplexer;
struct request;

struct reply { /* one frame, for its owner */
    const struct frame_header *header;
    struct bytes body;
    int *descriptors; /* write -1 to take one; the others are closed after accept */
    size_t descriptor_count;
    uint64_t capabilities;      /* of the connection it came by */
    uint64_t connection;        /* its number, never 0 */
    struct kernel_block *block; /* borrowed: where its kernels go; NULL: each has its own memory */
};

/* kilnd is stopping and did not begin what |code| is the end of. */
static inline bool reply_puts_off(const struct reply *reply, enum kiln_code code)
{
    return code == KILN_UNAVAILABLE && (reply->header->flags & FRAME_STOPPING);
}

/* A thread's place to wait for its requests, several of them if it likes.  Zero it. */
struct waiter {
    pthread_cond_t cond;
    bool ready;                  /* cond is there: it slept once */
    bool asleep;                 /* in the exchange's list */
    struct parcel *first, *last; /* owned: frames that another thread read for us */
    unsigned long news;          /* frames accepted and requests ended so far */
    unsigned long seen;          /* of these, when the last multiplexer_wait returned */
    struct waiter *next, *previous;
};

struct request {
    /* The caller fills: */
    uint16_t type;         /* enum message_type */
    struct buffer *frame;  /* borrowed: FRAME_HEADER_SIZE bytes left free, then the body */
    struct waiter *waiter; /* borrowed */
    const int *files;      /* borrowed: go with it */
    size_t file_count;     /* at most LIMIT_REQUEST_FILES */
    bool once;             /* fails when the connection dies instead of being sent again */
    uint64_t connection;   /* the only one it may go by, else KILN_NOT_FOUND; 0: any */
    /* Reads one frame (an error frame never comes here).  A failure ends the request;
     * KILN_CORRUPT also drops the connection, for one that sends nonsense may send more.  What
     * reply_puts_off(), returned for the last frame, does not end it: the next daemon is asked. */
    enum kiln_code (*accept)(struct request *request, const struct reply *reply,
                             struct failure *failure);
    void *context;

    /* The exchange's answer, valid once |ended|: */
    atomic_bool ended;
    enum kiln_code code;

    /* The exchange's own: zero it. */
    uint64_t id;
    atomic_uint sends; /* how often it went out; accept may look */
    bool linked, sent;
    struct request *next, *previous;

    /* Of the answer, too: */
    struct failure failure; /* owned by the caller: failure_done */
};

/* Zero, but for the text of its failure: what many make one after the other. */
static inline void request_init(struct request *request)
{
    memset(request, 0, offsetof(struct request, failure));
    failure_init(&request->failure);
}

struct multiplexer_options {
    /* Opens a connection; codes as transport_socket_connect(). */
    enum kiln_code (*connect)(void *context, uint64_t deadline_ns, struct transport **ret_transport,
                              struct kiln_err *err);
    /* Whether |connect| would lead to a better place than the connection that there is: asked when
     * a request begins and nothing is unanswered.  NULL: never. */
    bool (*may_leave)(void *context);
    /* As link_wish's. */
    bool (*greeted)(void *context, enum kiln_code rc, const struct kiln_err *err);
    uint64_t grace_ns;
    void *context;
    const char *software; /* for hello; copied */
};

struct multiplexer_status {
    bool answered;              /* the last wait ended in an answer */
    struct handshake handshake; /* of the last connection; zero before the first */
    char reason[512];           /* why there is no connection; "" when there is */
    uint64_t requests, reconnects;
};

KILN_MUST_CHECK enum kiln_code multiplexer_create(const struct multiplexer_options *options,
                                                  struct multiplexer **ret_multiplexer,
                                                  struct kiln_err *err);
/* No thread may be inside.  Says nothing to the other side, so a forked child may call it. */
void multiplexer_destroy(struct multiplexer *multiplexer);
KILN_DEFINE_AUTO(multiplexer)

/* Starts |request|: writes its frame's header, sends it if there is a connection.  Does not wait.
 * Fails only when the body is too large, or its one connection is gone. */
KILN_MUST_CHECK enum kiln_code multiplexer_submit(struct multiplexer *multiplexer,
                                                  struct request *request, struct kiln_err *err);
/* Until at least one frame was accepted, or one request ended, for |waiter|.  A failure (no
 * daemon, time is up) means that nothing more can be had now: abandon what has not ended. */
KILN_MUST_CHECK enum kiln_code multiplexer_wait(struct multiplexer *multiplexer,
                                                struct waiter *waiter, uint64_t deadline_ns,
                                                struct kiln_err *err);
/* Takes |request| back: it is the caller's again, whatever still comes for it is dropped, and the
 * daemon is told.  Legal at any time, also after the end. */
void multiplexer_abandon(struct multiplexer *multiplexer, struct request *request);
/* Submits, waits for the end, takes back; the failure is in request->failure. */
KILN_MUST_CHECK enum kiln_code multiplexer_call(struct multiplexer *multiplexer,
                                                struct request *request, uint64_t deadline_ns);

void waiter_init(struct waiter *waiter);
/* All of its requests must have ended or been abandoned. */
void waiter_done(struct waiter *waiter);
#define WAITER_AUTO __attribute__((cleanup(waiter_done)))

void multiplexer_status(struct multiplexer *multiplexer, struct multiplexer_status *ret_status);
