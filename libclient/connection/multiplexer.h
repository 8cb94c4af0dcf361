/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The connection multiplexer: one connection that all threads of a client share.
 *
 * Role       Sends requests and passes each reply to the thread that waits for the reply.  When the
 *            connection is lost, the multiplexer reconnects and sends unanswered requests again
 * Ownership  Callers own requests and waiters, and must keep a request until it has ended or was
 *            abandoned.  The multiplexer owns the transport
 * Threading  Any number of threads.  One of the waiting threads is the leader.  Only the leader
 *            connects and reads from the transport; it passes frames for other threads to them.
 *            When the leader's own request is done, another waiting thread becomes leader. accept()
 *            always runs on the waiter's own thread
 */
#include "common/base/list.h"
#include "common/protocol/messages.h"
#include "common/protocol/transport.h"
#include "libclient/connection/handshake.h"
#include "libclient/failure.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct multiplexer;
struct request;

struct reply { /* one received frame, passed to the owner of its request */
    const struct frame_header *header;
    struct bytes body;
    /* To take a descriptor, accept() replaces it by -1.  The remaining descriptors are closed
     * afterwards. */
    int *descriptors;
    size_t descriptor_count;
    uint64_t capabilities;
    uint64_t connection; /* number of the connection that carried the frame, never 0 */
    /* Borrowed memory for the kernels of this reply.  NULL if each kernel is allocated
     * separately. */
    struct kernel_block *block;
};

/* Returns whether an exiting kilnd rejected the request before processing it.  |code| is the
 * reply's code. */
static inline bool reply_puts_off(const struct reply *reply, enum kiln_code code)
{
    return code == KILN_UNAVAILABLE && (reply->header->flags & FRAME_STOPPING);
}

/* A thread that waits for one or several requests; see waiter_init. */
struct waiter {
    pthread_cond_t cond;
    /* |cond| is initialised when the thread first sleeps */
    bool has_cond;
    struct list_link sleeping;
    /* Struct stored_frame, owned: frames for this waiter that other threads read. */
    struct list frames;
    unsigned long event_count; /* frames accepted and requests ended so far */
    unsigned long events_seen;
};

struct request {
    /* The caller sets these members: */
    uint16_t type;
    /* the body, after FRAME_HEADER_SIZE bytes of free space for the header */
    struct buffer *frame;
    struct waiter *waiter;
    const int *files;
    size_t file_count;
    /* If the connection is lost, the request fails instead of being sent again. */
    bool once;
    /* The only connection that may carry the request; 0 if any may.  If this connection is gone,
     * the request fails with KILN_NOT_FOUND. */
    uint64_t connection;
    /* Called for each frame of the answer, except an error frame.  If accept returns a failure, the
     * request ends.  KILN_CORRUPT also closes the connection, because a peer that sends invalid
     * data may send more.  If the frame is the last one and reply_puts_off() is true, the request
     * does not end: the multiplexer sends the request to the next daemon. */
    enum kiln_code (*accept)(struct request *request, const struct reply *reply,
                             struct failure *failure);
    void *context;

    /* Set by the multiplexer; valid once |ended| is true: */
    atomic_bool ended;
    enum kiln_code code;

    /* Private to the multiplexer; the caller sets these members to zero: */
    uint64_t id;
    atomic_uint sends; /* how often the request was sent; accept may read it */
    struct list_link link;
    bool sent;

    /* Valid once |ended| is true.  The caller calls failure_done: */
    struct failure failure;
};

/* Zeroes everything except the text of the failure.  The text is long, and zeroing it would slow
 * down callers that make many requests. */
static inline void request_init(struct request *request)
{
    memset(request, 0, offsetof(struct request, failure));
    failure_init(&request->failure);
}

struct multiplexer_options {
    enum kiln_code (*connect)(void *context, uint64_t deadline_ns, struct transport **ret_transport,
                              struct kiln_err *err);
    /* Returns whether |connect| would lead to a better server than the current one.  Called when a
     * request begins and no other request is in flight.  NULL means always false. */
    bool (*may_leave)(void *context);
    bool (*on_handshake)(void *context, enum kiln_code rc, const struct kiln_err *err);
    uint64_t grace_ns;
    void *context;
    const char *software;
};

struct multiplexer_status {
    bool answered; /* the last wait ended because an answer came */
    /* result of the last connection's handshake; zero before the first one */
    struct handshake handshake;
    char reason[512]; /* why there is no connection; "" if there is one */
    uint64_t requests, reconnects;
};

KILN_MUST_CHECK enum kiln_code multiplexer_create(const struct multiplexer_options *options,
                                                  struct multiplexer **ret_multiplexer,
                                                  struct kiln_err *err);
/* Call it when no thread is in a call of the multiplexer.  Sends nothing, so a forked child may
 * call this function. */
void multiplexer_destroy(struct multiplexer *multiplexer);
KILN_DEFINE_AUTO(multiplexer)

/* Writes the frame's header and sends |request| if there is a connection.  Does not block.  Fails
 * only if the body is too large or |request->connection| is gone. */
KILN_MUST_CHECK enum kiln_code multiplexer_submit(struct multiplexer *multiplexer,
                                                  struct request *request, struct kiln_err *err);
/* Waits until |waiter| has at least one accepted frame or ended request.  The wait fails if there
 * is no daemon or the deadline has passed.  No more replies come then, and the caller must abandon
 * the requests that have not ended. */
KILN_MUST_CHECK enum kiln_code multiplexer_wait(struct multiplexer *multiplexer,
                                                struct waiter *waiter, uint64_t deadline_ns,
                                                struct kiln_err *err);
/* Takes |request| back, so that the caller may reuse it.  Later replies to |request| are dropped,
 * and the daemon cancels it.  May be called at any time, even after the request has ended. */
void multiplexer_abandon(struct multiplexer *multiplexer, struct request *request);
/* Submits |request| and waits until it has ended.  After a failure, abandons it. */
KILN_MUST_CHECK enum kiln_code multiplexer_call(struct multiplexer *multiplexer,
                                                struct request *request, uint64_t deadline_ns);

/* Lets multiplexer_call and multiplexer_wait_or_stop return KILN_TIMED_OUT to this thread soon
 * after |stop| became true. */
void multiplexer_stop_with(const atomic_bool *stop);
/* Like multiplexer_wait, but may be stopped (multiplexer_stop_with). */
KILN_MUST_CHECK enum kiln_code multiplexer_wait_or_stop(struct multiplexer *multiplexer,
                                                        struct waiter *waiter, uint64_t deadline_ns,
                                                        struct kiln_err *err);

void waiter_init(struct waiter *waiter);
/* All requests of |waiter| must have ended or been abandoned. */
void waiter_done(struct waiter *waiter);
#define WAITER_AUTO __attribute__((cleanup(waiter_done)))

/* Closes the connection. kilnd then ends the leases and rights to compile that belong to this
 * connection.  Unanswered requests of other threads are sent again on the next connection. */
void multiplexer_disconnect(struct multiplexer *multiplexer);

void multiplexer_status(struct multiplexer *multiplexer, struct multiplexer_status *ret_status);
