/* SPDX-License-Identifier: MIT */
#include "libclient/connection/multiplexer_parts.h"

#include "common/clock.h"
#include "libclient/connection/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- the connection ---- */

/* Leader only: ends the connection; what it left unanswered will be sent again. */
static void drop_connection(struct multiplexer *x, const char *why)
{
    transport_destroy(KILN_TAKE(x->transport));
    x->broken = false;
    x->stopping = false;
    x->generation++;
    snprintf(x->status.reason, sizeof(x->status.reason), "%s", why);
    struct request *next;
    for (struct request *rq = x->first; rq; rq = next) {
        next = rq->next;
        if (rq->sent) {
            x->sent--;
            x->unsent++;
        } else if (!rq->connection) {
            continue;
        }
        rq->sent = false;
        multiplexer_keep_for_next(x, rq, why);
    }
}

static enum kiln_code establish(struct multiplexer *x, uint64_t deadline_ns, struct kiln_err *err)
{
    struct transport *t = NULL;
    struct handshake handshake;
    bool reached = false, before = x->reached, again = x->generation > 0;
    pthread_mutex_unlock(&x->mutex);
    struct link_wish wish = { .connect = x->options.connect,
                              .context = x->options.context,
                              .software = x->software,
                              .reached_before = before,
                              .greeted = x->options.greeted,
                              .grace_ns = x->options.grace_ns };
    enum kiln_code rc = link_open(&wish, deadline_ns, &t, &handshake, &reached, err);
    pthread_mutex_lock(&x->mutex);
    x->reached |= reached;
    if (rc) {
        x->status.answered = false;
        snprintf(x->status.reason, sizeof(x->status.reason), "%s", err->text);
        return rc;
    }
    x->transport = t;
    x->status.handshake = handshake;
    x->status.reason[0] = '\0';
    x->status.reconnects += again;
    return KILN_OK;
}

/* One step of the leader: connect, or read a frame. */
static enum kiln_code lead(struct multiplexer *x, struct waiter *me, uint64_t deadline_ns,
                           struct kiln_err *err)
{
    if (x->broken)
        drop_connection(x, "the connection to kilnd broke");
    if (!x->transport)
        return establish(x, deadline_ns, err);
    multiplexer_send_waiting(x);
    if (me->news != me->seen)
        return KILN_OK; /* one of ours could not be sent, and ended */
    struct transport *t = x->transport;
    struct transport_frame frame;
    pthread_mutex_unlock(&x->mutex);
    enum kiln_code rc = t->ops->receive(t, deadline_ns, &frame, err);
    pthread_mutex_lock(&x->mutex);
    switch (rc) {
    case KILN_OK:
        multiplexer_deliver(x, me, &frame);
        transport_frame_done(&frame);
        if (x->broken)
            drop_connection(x, "kilnd's answers made no sense");
        return KILN_OK;
    case KILN_BUSY: return KILN_OK;
    case KILN_TIMED_OUT: return kiln_fail(err, rc, "kilnd did not answer in time");
    case KILN_UNAVAILABLE: drop_connection(x, err->text); return KILN_OK;
    default:
        multiplexer_fail_everyone(x, err);
        drop_connection(x, err->text);
        return KILN_OK;
    }
}

/* ---- waiting ---- */

static void join_sleepers(struct multiplexer *x, struct waiter *w)
{
    w->asleep = true;
    w->previous = NULL;
    w->next = x->asleep;
    if (x->asleep)
        x->asleep->previous = w;
    x->asleep = w;
}

static void leave_sleepers(struct multiplexer *x, struct waiter *w)
{
    *(w->previous ? &w->previous->next : &x->asleep) = w->next;
    if (w->next)
        w->next->previous = w->previous;
    w->asleep = false;
}

static void make_ready(struct waiter *w)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->cond, &attr);
    pthread_condattr_destroy(&attr);
    w->ready = true;
}

/* False when the deadline passed. */
static bool sleep_until(struct multiplexer *x, struct waiter *w, uint64_t deadline_ns)
{
    struct timespec at = { .tv_sec = (time_t)(deadline_ns / 1000000000u),
                           .tv_nsec = (long)(deadline_ns % 1000000000u) };
    if (!w->ready)
        make_ready(w);
    join_sleepers(x, w);
    int rc = deadline_ns == TRANSPORT_NO_DEADLINE
                 ? pthread_cond_wait(&w->cond, &x->mutex)
                 : pthread_cond_timedwait(&w->cond, &x->mutex, &at);
    leave_sleepers(x, w);
    return rc != ETIMEDOUT;
}

enum kiln_code multiplexer_wait(struct multiplexer *multiplexer, struct waiter *waiter,
                                uint64_t deadline_ns, struct kiln_err *err)
{
    struct multiplexer *x = multiplexer;
    enum kiln_code rc = KILN_OK;
    pthread_mutex_lock(&x->mutex);
    bool in_time = true;
    /* What came since the last wait counts too: the caller has not looked at it yet. */
    while (!rc && waiter->news == waiter->seen && !multiplexer_open_parcel(x, waiter)) {
        if (!in_time) {
            rc = kiln_fail(err, KILN_TIMED_OUT, "kilnd did not answer in time");
        } else if (x->leading) {
            in_time = sleep_until(x, waiter, deadline_ns);
        } else {
            x->leading = true;
            rc = lead(x, waiter, deadline_ns, err);
            x->leading = false;
        }
    }
    waiter->seen = waiter->news;
    if (!x->leading && x->asleep)
        multiplexer_wake(x->asleep);
    pthread_mutex_unlock(&x->mutex);
    return rc;
}

/* The leader of the next wait reconnects; nothing is lost. */
static void leave_for_better(struct multiplexer *x)
{
    bool is_at_rest = x->transport && !x->broken && !x->first && !x->leading;
    if (is_at_rest && x->options.may_leave && x->options.may_leave(x->options.context))
        multiplexer_stop_transport(x);
}

enum kiln_code multiplexer_submit(struct multiplexer *multiplexer, struct request *request,
                                  struct kiln_err *err)
{
    struct buffer *frame = request->frame;
    if (frame->failed)
        return kiln_fail(err, KILN_INVALID,
                         "the request exceeds the limit of %u bytes (or memory ran out): send a "
                         "smaller source or fewer headers",
                         LIMIT_FRAME_BODY);
    pthread_mutex_lock(&multiplexer->mutex);
    if (request->connection &&
        request->connection != multiplexer_connection(multiplexer->generation)) {
        pthread_mutex_unlock(&multiplexer->mutex);
        return kiln_fail(err, KILN_NOT_FOUND, "the connection it belongs to is gone");
    }
    if (!request->connection)
        leave_for_better(multiplexer);
    request->id = multiplexer->next_id++;
    struct frame_header header = {
        .version = FRAME_VERSION,
        .type = request->type,
        .request_id = request->id,
        .body_size = (uint32_t)(frame->size - FRAME_HEADER_SIZE),
        .descriptors = (uint16_t)request->file_count,
    };
    frame_header_write(frame->data, &header);
    multiplexer_link(multiplexer, request);
    if (multiplexer->transport)
        multiplexer_send_waiting(multiplexer);
    pthread_mutex_unlock(&multiplexer->mutex);
    return KILN_OK;
}

void multiplexer_abandon(struct multiplexer *multiplexer, struct request *request)
{
    pthread_mutex_lock(&multiplexer->mutex);
    bool report = request->linked && request->sent;
    multiplexer_unlink(multiplexer, request);
    multiplexer_drop_parcels(request->waiter, request);
    if (report)
        multiplexer_send_cancel(multiplexer, request->id);
    pthread_mutex_unlock(&multiplexer->mutex);
}

enum kiln_code multiplexer_call(struct multiplexer *multiplexer, struct request *request,
                                uint64_t deadline_ns)
{
    struct kiln_err err;
    kiln_err_init(&err);
    enum kiln_code rc = multiplexer_submit(multiplexer, request, &err);
    while (!rc && !request->ended)
        rc = multiplexer_wait(multiplexer, request->waiter, deadline_ns, &err);
    multiplexer_abandon(multiplexer, request);
    if (request->ended)
        return request->code;
    request->failure.err = err;
    return rc;
}

void multiplexer_status(struct multiplexer *multiplexer, struct multiplexer_status *ret_status)
{
    pthread_mutex_lock(&multiplexer->mutex);
    *ret_status = multiplexer->status;
    pthread_mutex_unlock(&multiplexer->mutex);
}

/* ---- life ---- */

void waiter_init(struct waiter *waiter) { *waiter = (struct waiter){ .ready = false }; }

void waiter_done(struct waiter *waiter)
{
    if (!waiter->ready)
        return;
    pthread_cond_destroy(&waiter->cond);
    waiter->ready = false;
}

enum kiln_code multiplexer_create(const struct multiplexer_options *options,
                                  struct multiplexer **ret_multiplexer, struct kiln_err *err)
{
    struct multiplexer *x = calloc(1, sizeof(*x));
    if (!x)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a client");
    pthread_mutex_init(&x->mutex, /* attr= */ NULL);
    x->options = *options;
    snprintf(x->software, sizeof(x->software), "%s", options->software);
    x->next_id = HANDSHAKE_REQUEST_ID + 1;
    *ret_multiplexer = x;
    return KILN_OK;
}

void multiplexer_destroy(struct multiplexer *multiplexer)
{
    if (!multiplexer)
        return;
    transport_destroy(multiplexer->transport);
    free(multiplexer);
}
