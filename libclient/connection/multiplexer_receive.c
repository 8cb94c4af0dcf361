/* SPDX-License-Identifier: MIT */
#include "libclient/connection/multiplexer_parts.h"

#include "libclient/connection/stored_frame.h"

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

/* Marks |rq| as not sent, because this daemon rejected |rq| while exiting.  The next daemon gets
 * |rq|. */
static void resend_request(struct multiplexer *x, struct request *rq)
{
    multiplexer_unlink(x, rq);
    rq->sent = false;
    multiplexer_link(x, rq);
    multiplexer_keep_for_next(x, rq, "kilnd is stopping");
    if (x->transport) /* the transport may already belong to the next connection */
        multiplexer_send_waiting(x);
}

/* Lets |rq| accept the frame.  The mutex is held on entry and exit, but not while accept()
 * reads. */
static void accept_frame(struct multiplexer *x, struct request *rq, const struct reply *reply,
                         unsigned long generation)
{
    bool is_error = reply->header->type == MESSAGE_error;
    bool is_last = is_error || !(reply->header->flags & FRAME_MORE);
    struct failure f; /* not |rq->failure|, because another thread may end the request meanwhile */
    failure_init(&f);
    pthread_mutex_unlock(&x->mutex);
    enum kiln_code rc = is_error ? read_error_frame(reply, &f) : rq->accept(rq, reply, &f);
    pthread_mutex_lock(&x->mutex);
    if (is_last && reply_puts_off(reply, rc) && !rq->once && !rq->ended) {
        failure_done(&f);
        resend_request(x, rq);
        return;
    }
    x->status.answered = true;
    rq->waiter->event_count++;
    if (rc && !rq->ended)
        rq->failure = f;
    else
        failure_done(&f);
    if ((rc || is_last) && !rq->ended)
        multiplexer_end_request(x, rq, rc);
    if (rc == KILN_CORRUPT && !is_error && generation == x->generation && x->transport)
        multiplexer_stop_transport(x);
}

static void store_frame(struct multiplexer *x, struct request *rq, struct transport_frame *frame)
{
    struct stored_frame *stored = stored_frame_create(frame);
    if (!stored) {
        struct kiln_err err = KILN_ERR_INIT;
        kiln_fail(&err, KILN_NO_MEMORY, "no memory for an answer of %zu bytes", frame->body.size);
        multiplexer_end_with(x, rq, &err);
        return;
    }
    stored->request = rq;
    stored->generation = x->generation;
    stored->capabilities = x->status.handshake.capabilities;
    list_append(&rq->waiter->frames, &stored->link);
    multiplexer_wake(rq->waiter);
}

bool multiplexer_accept_stored(struct multiplexer *x, struct waiter *w)
{
    struct stored_frame *stored = LIST_FIRST(&w->frames, struct stored_frame, link);
    if (!stored)
        return false;
    list_remove(&stored->link);
    if (!stored->request->ended) {
        struct reply reply = {
            .header = &stored->header,
            .body = bytes_of(stored->body, stored->header.body_size),
            .descriptors = stored->descriptors,
            .descriptor_count = stored->descriptor_count,
            .capabilities = stored->capabilities,
            .connection = multiplexer_connection(stored->generation),
        };
        accept_frame(x, stored->request, &reply, stored->generation);
    }
    stored_frame_destroy(stored);
    return true;
}

/* Reads the error frame with request number 0, which kilnd sends before it closes the connection.
 */
static struct kiln_err read_final_error(const struct transport_frame *frame)
{
    struct failure f;
    failure_init(&f);
    const struct reply reply = { .header = &frame->header, .body = frame->body };
    if (frame->header.request_id == 0 && frame->header.type == MESSAGE_error)
        (void)!read_error_frame(&reply, &f);
    else
        kiln_fail(&f.err, KILN_CORRUPT, "kilnd answers request %llu, which was never made",
                  (unsigned long long)frame->header.request_id);
    struct kiln_err why = f.err;
    failure_done(&f);
    return why;
}

void multiplexer_deliver(struct multiplexer *x, struct waiter *me, struct transport_frame *frame)
{
    const struct frame_header *h = &frame->header;
    struct request *rq = multiplexer_find(x, h->request_id);
    if (!rq && (h->request_id <= HANDSHAKE_REQUEST_ID || h->request_id >= x->next_id)) {
        const struct kiln_err err = read_final_error(frame);
        multiplexer_fail_everyone(x, &err);
        multiplexer_stop_transport(x);
    }
    x->stopping |= (h->flags & FRAME_STOPPING) != 0;
    if (!rq || !rq->sent)
        return;
    if (h->type == MESSAGE_error || !(h->flags & FRAME_MORE))
        /* prevents sending the request again before its owner reads this frame */
        multiplexer_unlink(x, rq);
    if (rq->waiter != me) {
        store_frame(x, rq, frame);
        return;
    }
    struct reply reply = {
        .header = h,
        .body = frame->body,
        .descriptors = frame->descriptors,
        .descriptor_count = frame->descriptor_count,
        .capabilities = x->status.handshake.capabilities,
        .connection = multiplexer_connection(x->generation),
    };
    accept_frame(x, rq, &reply, x->generation);
}

bool multiplexer_drop_stored(struct waiter *w, const struct request *rq)
{
    bool had_any = false;
    LIST_EACH (&w->frames, struct stored_frame, link, stored) {
        if (stored->request != rq)
            continue;
        list_remove(&stored->link);
        stored_frame_destroy(stored);
        had_any = true;
    }
    return had_any;
}
