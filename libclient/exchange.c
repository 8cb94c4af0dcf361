/* SPDX-License-Identifier: MIT */
#include "libclient/exchange.h"

#include "libclient/link.h"
#include "libclient/parcel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A request that was there whenever the daemon died so often is taken for the cause. */
#define SENDS_MOST 32

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

/* ---- the list of requests ---- */

static void link_request(struct exchange *x, struct request *rq)
{
    rq->previous = x->last;
    rq->next = NULL;
    *(x->last ? &x->last->next : &x->first) = rq;
    x->last = rq;
    rq->linked = true;
    x->unsent++;
}

static void unlink_request(struct exchange *x, struct request *rq)
{
    if (!rq->linked)
        return;
    *(rq->previous ? &rq->previous->next : &x->first) = rq->next;
    *(rq->next ? &rq->next->previous : &x->last) = rq->previous;
    rq->linked = false;
    *(rq->sent ? &x->sent : &x->unsent) -= 1;
}

static struct request *find_request(const struct exchange *x, uint64_t id)
{
    struct request *rq = x->first;
    while (rq && rq->id != id)
        rq = rq->next;
    return rq;
}

static void wake(struct waiter *w)
{
    if (w->asleep)
        pthread_cond_signal(&w->cond);
}

/* Its owner may look at |ended| without the mutex and be gone at once: that comes last. */
static void end_request(struct exchange *x, struct request *rq, enum kiln_code code)
{
    unlink_request(x, rq);
    rq->code = code;
    rq->waiter->news++;
    wake(rq->waiter);
    atomic_store(&rq->ended, true);
}

static void end_with(struct exchange *x, struct request *rq, const struct kiln_err *why)
{
    rq->failure.err = *why;
    end_request(x, rq, why->code);
}

/* ---- sending ---- */

static void stop_transport(struct exchange *x)
{
    x->broken = true;
    x->transport->ops->stop(x->transport);
}

static enum kiln_code send_one(struct transport *t, const struct request *rq, struct kiln_err *err)
{
    struct bytes frame = buffer_view(rq->frame);
    if (rq->file_count == 0)
        return t->ops->send(t, frame, err);
    if (!t->ops->send_files)
        return kiln_fail(err, KILN_UNSUPPORTED, "files cannot be handed over here");
    return t->ops->send_files(t, frame, rq->files, rq->file_count, err);
}

/* False when the connection is no good: the reader will see it and connect again. */
static bool send_request(struct exchange *x, struct request *rq)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = send_one(x->transport, rq, &err);
    if (rc && rq->file_count > 0 && rc != KILN_UNAVAILABLE) {
        end_with(x, rq, &err); /* another connection would not take these files either */
        return true;
    }
    if (rc)
        return false;
    rq->sent = true;
    rq->sends++;
    x->sent++;
    x->unsent--;
    x->status.requests++;
    return true;
}

/* What has not gone out yet, as far as the daemon and the socket take it. */
static void send_waiting(struct exchange *x)
{
    struct transport *t = x->transport;
    struct request *next;
    for (struct request *rq = x->first; rq && x->unsent && !x->broken && !x->stopping; rq = next) {
        next = rq->next;
        if (rq->sent)
            continue;
        if (x->sent >= x->status.greeting.max_in_flight || t->ops->is_sending(t))
            return;
        if (!send_request(x, rq)) {
            stop_transport(x);
            return;
        }
    }
}

static void send_cancel(struct exchange *x, uint64_t id)
{
    struct transport *t = x->transport;
    if (!t || x->broken || t->ops->is_sending(t))
        return;
    uint8_t raw[FRAME_HEADER_SIZE + 8];
    struct frame_header header = {
        .version = FRAME_VERSION, .type = MESSAGE_cancel, .request_id = x->next_id++, .body_size = 8
    };
    struct buffer frame = {
        .data = raw, .size = FRAME_HEADER_SIZE, .capacity = sizeof(raw), .limit = sizeof(raw)
    };
    frame_header_write(raw, &header);
    message_cancel_write(&frame, &(struct message_cancel){ .cancelled_id = id });
    struct kiln_err ignored = KILN_ERR_INIT;
    if (t->ops->send(t, buffer_view(&frame), &ignored))
        stop_transport(x);
}

/* ---- the connection ---- */

/* |rq| is unsent, for |why|: it is sent again unless that is not wanted or has been often. */
static void keep_for_next(struct exchange *x, struct request *rq, const char *why)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (rq->once)
        kiln_fail(&err, KILN_UNAVAILABLE, "%s", why);
    else if (rq->sends >= SENDS_MOST)
        kiln_fail(&err, KILN_UNAVAILABLE, "kilnd went away %u times over this request; last: %s",
                  rq->sends, why);
    if (err.code)
        end_with(x, rq, &err);
}

/* Leader only: ends the connection; what it left unanswered will be sent again. */
static void drop_connection(struct exchange *x, const char *why)
{
    transport_destroy(KILN_TAKE(x->transport));
    x->broken = false;
    x->stopping = false;
    x->generation++;
    snprintf(x->status.reason, sizeof(x->status.reason), "%s", why);
    struct request *next;
    for (struct request *rq = x->first; rq; rq = next) {
        next = rq->next;
        if (!rq->sent)
            continue;
        rq->sent = false;
        x->sent--;
        x->unsent++;
        keep_for_next(x, rq, why);
    }
}

static void fail_everyone(struct exchange *x, const struct kiln_err *why)
{
    while (x->first)
        end_with(x, x->first, why);
}

static enum kiln_code establish(struct exchange *x, uint64_t deadline_ns, struct kiln_err *err)
{
    struct transport *t = NULL;
    struct greeting greeting;
    bool reached = false, before = x->reached, again = x->generation > 0;
    pthread_mutex_unlock(&x->mutex);
    struct link_wish wish = { .connect = x->options.connect,
                              .context = x->options.context,
                              .software = x->software,
                              .reached_before = before };
    enum kiln_code rc = link_open(&wish, deadline_ns, &t, &greeting, &reached, err);
    pthread_mutex_lock(&x->mutex);
    x->reached |= reached;
    if (rc) {
        x->status.answered = false;
        snprintf(x->status.reason, sizeof(x->status.reason), "%s", err->text);
        return rc;
    }
    x->transport = t;
    x->status.greeting = greeting;
    x->status.reason[0] = '\0';
    x->status.reconnects += again;
    return KILN_OK;
}

/* ---- receiving ---- */

static enum kiln_code read_error_frame(const struct reply *reply, struct failure *failure)
{
    struct reader r = reader_of(reply->body);
    struct message_error m = message_error_read(&r);
    if (message_body_check(&r, MESSAGE_error, &failure->err)) {
        failure->err.code = KILN_CORRUPT;
        return kiln_while(&failure->err, "kilnd's answer is damaged");
    }
    return failure_said(failure, m.code, m.text, m.log);
}

/* The daemon answered that it will not do |rq| any more: the next one is asked. */
static void put_back(struct exchange *x, struct request *rq)
{
    unlink_request(x, rq);
    rq->sent = false;
    link_request(x, rq);
    keep_for_next(x, rq, "kilnd is stopping");
    if (x->transport) /* by now it may be the next daemon's */
        send_waiting(x);
}

/* On the waiter's thread, with the mutex held on entry and exit but not while reading. */
static void accept_frame(struct exchange *x, struct request *rq, const struct reply *reply,
                         unsigned long generation)
{
    bool is_error = reply->header->type == MESSAGE_error;
    bool is_last = is_error || !(reply->header->flags & FRAME_MORE);
    struct failure f = FAILURE_INIT; /* another thread may end the request meanwhile */
    pthread_mutex_unlock(&x->mutex);
    enum kiln_code rc = is_error ? read_error_frame(reply, &f) : rq->accept(rq, reply, &f);
    pthread_mutex_lock(&x->mutex);
    if (is_last && reply_puts_off(reply, rc) && !rq->once && !rq->ended) {
        failure_done(&f);
        put_back(x, rq);
        return;
    }
    x->status.answered = true;
    rq->waiter->news++;
    if (rc && !rq->ended)
        rq->failure = f;
    else
        failure_done(&f);
    if ((rc || is_last) && !rq->ended)
        end_request(x, rq, rc);
    if (rc == KILN_CORRUPT && !is_error && generation == x->generation && x->transport)
        stop_transport(x);
}

static void give_parcel(struct exchange *x, struct request *rq, struct transport_frame *frame)
{
    struct waiter *w = rq->waiter;
    struct parcel *p = parcel_create(frame);
    if (!p) {
        struct kiln_err err = KILN_ERR_INIT;
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for an answer of %zu bytes", frame->body.size);
        end_with(x, rq, &err);
        return;
    }
    p->request = rq;
    p->generation = x->generation;
    p->capabilities = x->status.greeting.capabilities;
    if (w->last)
        w->last->next = p;
    else
        w->first = p;
    w->last = p;
    wake(w);
}

static bool open_parcel(struct exchange *x, struct waiter *w)
{
    struct parcel *p = w->first;
    if (!p)
        return false;
    w->first = p->next;
    if (!w->first)
        w->last = NULL;
    if (!p->request->ended) {
        struct reply reply = {
            .header = &p->header,
            .body = bytes_of(p->body, p->header.body_size),
            .descriptors = p->descriptors,
            .descriptor_count = p->descriptor_count,
            .capabilities = p->capabilities,
        };
        accept_frame(x, p->request, &reply, p->generation);
    }
    parcel_destroy(p);
    return true;
}

static void deliver(struct exchange *x, struct waiter *me, struct transport_frame *frame)
{
    const struct frame_header *h = &frame->header;
    struct request *rq = find_request(x, h->request_id);
    if (!rq && (h->request_id <= GREETING_REQUEST_ID || h->request_id >= x->next_id)) {
        struct kiln_err err = KILN_ERR_INIT;
        kiln_fail(&err, KILN_CORRUPT, "kilnd answers request %llu, which was never made",
                  (unsigned long long)h->request_id);
        fail_everyone(x, &err);
        stop_transport(x);
    }
    x->stopping |= (h->flags & FRAME_STOPPING) != 0;
    if (!rq || !rq->sent) /* abandoned meanwhile */
        return;
    if (h->type == MESSAGE_error || !(h->flags & FRAME_MORE))
        unlink_request(x, rq); /* or it would be sent again before its owner reads this */
    if (rq->waiter != me) {
        give_parcel(x, rq, frame);
        return;
    }
    struct reply reply = {
        .header = h,
        .body = frame->body,
        .descriptors = frame->descriptors,
        .descriptor_count = frame->descriptor_count,
        .capabilities = x->status.greeting.capabilities,
    };
    accept_frame(x, rq, &reply, x->generation);
}

/* One step of the leader: connect, or read a frame. */
static enum kiln_code lead(struct exchange *x, struct waiter *me, uint64_t deadline_ns,
                           struct kiln_err *err)
{
    if (x->broken)
        drop_connection(x, "the connection to kilnd broke");
    if (!x->transport)
        return establish(x, deadline_ns, err);
    send_waiting(x);
    if (me->news != me->seen)
        return KILN_OK; /* one of ours could not be sent, and ended */
    struct transport *t = x->transport;
    struct transport_frame frame;
    pthread_mutex_unlock(&x->mutex);
    enum kiln_code rc = t->ops->receive(t, deadline_ns, &frame, err);
    pthread_mutex_lock(&x->mutex);
    switch (rc) {
    case KILN_OK:
        deliver(x, me, &frame);
        transport_frame_done(&frame);
        if (x->broken)
            drop_connection(x, "kilnd's answers made no sense");
        return KILN_OK;
    case KILN_BUSY: return KILN_OK;
    case KILN_TIMED_OUT: return kiln_fail(err, rc, "kilnd did not answer in time");
    case KILN_UNAVAILABLE: drop_connection(x, err->text); return KILN_OK;
    default:
        fail_everyone(x, err);
        drop_connection(x, err->text);
        return KILN_OK;
    }
}

/* ---- waiting ---- */

static void join_sleepers(struct exchange *x, struct waiter *w)
{
    w->asleep = true;
    w->previous = NULL;
    w->next = x->asleep;
    if (x->asleep)
        x->asleep->previous = w;
    x->asleep = w;
}

static void leave_sleepers(struct exchange *x, struct waiter *w)
{
    *(w->previous ? &w->previous->next : &x->asleep) = w->next;
    if (w->next)
        w->next->previous = w->previous;
    w->asleep = false;
}

/* False when the deadline passed. */
static bool sleep_until(struct exchange *x, struct waiter *w, uint64_t deadline_ns)
{
    struct timespec at = { .tv_sec = (time_t)(deadline_ns / 1000000000u),
                           .tv_nsec = (long)(deadline_ns % 1000000000u) };
    join_sleepers(x, w);
    int rc = deadline_ns == TRANSPORT_NO_DEADLINE
                 ? pthread_cond_wait(&w->cond, &x->mutex)
                 : pthread_cond_timedwait(&w->cond, &x->mutex, &at);
    leave_sleepers(x, w);
    return rc != ETIMEDOUT;
}

enum kiln_code exchange_wait(struct exchange *exchange, struct waiter *waiter, uint64_t deadline_ns,
                             struct kiln_err *err)
{
    struct exchange *x = exchange;
    enum kiln_code rc = KILN_OK;
    pthread_mutex_lock(&x->mutex);
    bool in_time = true;
    /* What came since the last wait counts too: the caller has not looked at it yet. */
    while (!rc && waiter->news == waiter->seen && !open_parcel(x, waiter)) {
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
        wake(x->asleep);
    pthread_mutex_unlock(&x->mutex);
    return rc;
}

enum kiln_code exchange_submit(struct exchange *exchange, struct request *request,
                               struct kiln_err *err)
{
    struct buffer *frame = request->frame;
    if (frame->failed)
        return kiln_fail(err, KILN_INVALID,
                         "the request exceeds the limit of %u bytes (or memory ran out): send a "
                         "smaller source or fewer headers",
                         LIMIT_FRAME_BODY);
    pthread_mutex_lock(&exchange->mutex);
    request->id = exchange->next_id++;
    struct frame_header header = {
        .version = FRAME_VERSION,
        .type = request->type,
        .request_id = request->id,
        .body_size = (uint32_t)(frame->size - FRAME_HEADER_SIZE),
        .descriptors = (uint16_t)request->file_count,
    };
    frame_header_write(frame->data, &header);
    link_request(exchange, request);
    if (exchange->transport)
        send_waiting(exchange);
    pthread_mutex_unlock(&exchange->mutex);
    return KILN_OK;
}

static void drop_parcels(struct waiter *w, const struct request *rq)
{
    struct parcel **at = &w->first;
    w->last = NULL;
    while (*at) {
        struct parcel *p = *at;
        if (p->request == rq) {
            *at = p->next;
            parcel_destroy(p);
        } else {
            w->last = p;
            at = &p->next;
        }
    }
}

void exchange_abandon(struct exchange *exchange, struct request *request)
{
    pthread_mutex_lock(&exchange->mutex);
    bool tell = request->linked && request->sent;
    unlink_request(exchange, request);
    drop_parcels(request->waiter, request);
    if (tell)
        send_cancel(exchange, request->id);
    pthread_mutex_unlock(&exchange->mutex);
}

enum kiln_code exchange_call(struct exchange *exchange, struct request *request,
                             uint64_t deadline_ns)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = exchange_submit(exchange, request, &err);
    while (!rc && !request->ended)
        rc = exchange_wait(exchange, request->waiter, deadline_ns, &err);
    exchange_abandon(exchange, request);
    if (request->ended)
        return request->code;
    request->failure.err = err;
    return rc;
}

void exchange_status(struct exchange *exchange, struct exchange_status *ret_status)
{
    pthread_mutex_lock(&exchange->mutex);
    *ret_status = exchange->status;
    pthread_mutex_unlock(&exchange->mutex);
}

/* ---- life ---- */

void waiter_init(struct waiter *waiter)
{
    *waiter = (struct waiter){ .ready = true };
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&waiter->cond, &attr);
    pthread_condattr_destroy(&attr);
}

void waiter_done(struct waiter *waiter)
{
    if (!waiter->ready)
        return;
    pthread_cond_destroy(&waiter->cond);
    waiter->ready = false;
}

enum kiln_code exchange_create(const struct exchange_options *options,
                               struct exchange **ret_exchange, struct kiln_err *err)
{
    struct exchange *x = calloc(1, sizeof(*x));
    if (!x)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a client");
    pthread_mutex_init(&x->mutex, /* attr= */ NULL);
    x->options = *options;
    snprintf(x->software, sizeof(x->software), "%s", options->software);
    x->next_id = GREETING_REQUEST_ID + 1;
    *ret_exchange = x;
    return KILN_OK;
}

void exchange_destroy(struct exchange *exchange)
{
    if (!exchange)
        return;
    transport_destroy(exchange->transport);
    free(exchange);
}
