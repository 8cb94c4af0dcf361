/* SPDX-License-Identifier: MIT */
#include "libclient/connection/multiplexer_parts.h"

#include "common/base/clock.h"
#include "libclient/connection/handshake_retry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* How often a call looks whether its thread must end.  Connecting to kilnd may take a part of it.
 */
#define STOP_NS 250000000ull

/* Closes the connection.  Keeps unanswered requests for the next connection, except those that
 * multiplexer_keep_for_next ends.  Only the leader may call this function, because the leader reads
 * from the transport. */
static void drop_connection(struct multiplexer *x, const char *why)
{
    transport_destroy(KILN_TAKE(x->transport));
    x->broken = false;
    x->stopping = false;
    x->generation++;
    snprintf(x->status.reason, sizeof(x->status.reason), "%s", why);
    LIST_EACH (&x->requests, struct request, link, rq) {
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

static enum kiln_code connect_transport(struct multiplexer *x, uint64_t deadline_ns,
                                        struct kiln_err *err)
{
    struct handshake_result result;
    bool is_reconnect = x->generation > 0;
    const struct handshake_options options = { .connect = x->options.connect,
                                               .context = x->options.context,
                                               .software = x->software,
                                               .reached_before = x->reached,
                                               .on_handshake = x->options.on_handshake,
                                               .grace_ns = x->options.grace_ns };
    pthread_mutex_unlock(&x->mutex);
    enum kiln_code rc = handshake_open(&options, deadline_ns, &result, err);
    pthread_mutex_lock(&x->mutex);
    x->reached |= result.reached;
    if (rc) {
        x->status.answered = false;
        snprintf(x->status.reason, sizeof(x->status.reason), "%s", err->text);
        return rc;
    }
    x->transport = result.transport;
    x->status.handshake = result.handshake;
    x->status.reason[0] = '\0';
    x->status.reconnects += is_reconnect;
    return KILN_OK;
}

static enum kiln_code lead_once(struct multiplexer *x, struct waiter *me, uint64_t deadline_ns,
                                struct kiln_err *err)
{
    if (x->broken)
        drop_connection(x, "the connection to kilnd broke");
    if (!x->transport)
        return connect_transport(x, deadline_ns, err);
    multiplexer_send_waiting(x);
    if (me->event_count != me->events_seen)
        return KILN_OK; /* a request of this thread could not be sent and has ended */
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
            drop_connection(x, "kilnd sent an invalid answer");
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

static void init_cond(struct waiter *w)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->cond, &attr);
    pthread_condattr_destroy(&attr);
    w->has_cond = true;
}

static bool sleep_until(struct multiplexer *x, struct waiter *w, uint64_t deadline_ns)
{
    struct timespec at = { .tv_sec = (time_t)(deadline_ns / 1000000000u),
                           .tv_nsec = (long)(deadline_ns % 1000000000u) };
    if (!w->has_cond)
        init_cond(w);
    list_prepend(&x->sleepers, &w->sleeping);
    int rc = deadline_ns == TRANSPORT_NO_DEADLINE
                 ? pthread_cond_wait(&w->cond, &x->mutex)
                 : pthread_cond_timedwait(&w->cond, &x->mutex, &at);
    list_remove(&w->sleeping);
    return rc != ETIMEDOUT;
}

enum kiln_code multiplexer_wait(struct multiplexer *multiplexer, struct waiter *waiter,
                                uint64_t deadline_ns, struct kiln_err *err)
{
    struct multiplexer *x = multiplexer;
    enum kiln_code rc = KILN_OK;
    pthread_mutex_lock(&x->mutex);
    bool in_time = true;
    /* Do not wait if events came since the last wait, because the caller has not handled them
     * yet. */
    while (!rc && waiter->event_count == waiter->events_seen &&
           !multiplexer_accept_stored(x, waiter)) {
        if (!in_time) {
            rc = kiln_fail(err, KILN_TIMED_OUT, "kilnd did not answer in time");
        } else if (x->leading) {
            in_time = sleep_until(x, waiter, deadline_ns);
        } else {
            x->leading = true;
            rc = lead_once(x, waiter, deadline_ns, err);
            x->leading = false;
        }
    }
    waiter->events_seen = waiter->event_count;
    struct waiter *next = LIST_FIRST(&x->sleepers, struct waiter, sleeping);
    if (!x->leading && next)
        multiplexer_wake(next);
    pthread_mutex_unlock(&x->mutex);
    return rc;
}

static void leave_for_better_server(struct multiplexer *x)
{
    bool is_idle = x->transport && !x->broken && list_is_empty(&x->requests) && !x->leading;
    if (is_idle && x->options.may_leave && x->options.may_leave(x->options.context))
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
        return kiln_fail(err, KILN_NOT_FOUND, "the connection of this request was lost");
    }
    if (!request->connection)
        leave_for_better_server(multiplexer);
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
    bool has_daemon = list_holds(&request->link) && request->sent;
    multiplexer_unlink(multiplexer, request);
    /* Also cancel |request| if kilnd has sent the last frame of the answer, so that |request| is
     * not listed any longer, but the stored frames were not accepted yet. */
    has_daemon |= multiplexer_drop_stored(request->waiter, request) && !request->ended;
    if (has_daemon)
        multiplexer_send_cancel(multiplexer, request->id);
    pthread_mutex_unlock(&multiplexer->mutex);
}

static _Thread_local const atomic_bool *stop_flag;

void multiplexer_stop_with(const atomic_bool *stop) { stop_flag = stop; }

/* Looks at the thread's |stop_flag| every STOP_NS. */
enum kiln_code multiplexer_wait_or_stop(struct multiplexer *multiplexer, struct waiter *waiter,
                                        uint64_t deadline_ns, struct kiln_err *err)
{
    enum kiln_code rc = KILN_TIMED_OUT;
    bool is_last = false;
    while (rc == KILN_TIMED_OUT && !is_last) {
        uint64_t slice = clock_monotonic_ns() + STOP_NS;
        if (stop_flag && atomic_load(stop_flag))
            return kiln_fail(err, KILN_TIMED_OUT, "the thread must end");
        is_last = !stop_flag || slice >= deadline_ns;
        rc = multiplexer_wait(multiplexer, waiter, is_last ? deadline_ns : slice, err);
    }
    return rc;
}

enum kiln_code multiplexer_call(struct multiplexer *multiplexer, struct request *request,
                                uint64_t deadline_ns)
{
    struct kiln_err err;
    kiln_err_init(&err);
    enum kiln_code rc = multiplexer_submit(multiplexer, request, &err);
    while (!rc && !request->ended)
        rc = multiplexer_wait_or_stop(multiplexer, request->waiter, deadline_ns, &err);
    multiplexer_abandon(multiplexer, request);
    if (request->ended)
        return request->code;
    request->failure.err = err;
    return rc;
}

void multiplexer_disconnect(struct multiplexer *multiplexer)
{
    pthread_mutex_lock(&multiplexer->mutex);
    if (multiplexer->transport && !multiplexer->broken)
        multiplexer_stop_transport(multiplexer);
    pthread_mutex_unlock(&multiplexer->mutex);
}

void multiplexer_status(struct multiplexer *multiplexer, struct multiplexer_status *ret_status)
{
    pthread_mutex_lock(&multiplexer->mutex);
    *ret_status = multiplexer->status;
    pthread_mutex_unlock(&multiplexer->mutex);
}

void waiter_init(struct waiter *waiter)
{
    *waiter = (struct waiter){ .has_cond = false };
    list_init(&waiter->frames);
}

void waiter_done(struct waiter *waiter)
{
    if (!waiter->has_cond)
        return;
    pthread_cond_destroy(&waiter->cond);
    waiter->has_cond = false;
}

enum kiln_code multiplexer_create(const struct multiplexer_options *options,
                                  struct multiplexer **ret_multiplexer, struct kiln_err *err)
{
    struct multiplexer *x = calloc(1, sizeof(*x));
    if (!x)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a client");
    pthread_mutex_init(&x->mutex, NULL);
    x->options = *options;
    snprintf(x->software, sizeof(x->software), "%s", options->software);
    list_init(&x->sleepers);
    list_init(&x->requests);
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
