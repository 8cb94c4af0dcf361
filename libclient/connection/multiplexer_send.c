/* SPDX-License-Identifier: MIT */
#include "libclient/connection/multiplexer_parts.h"

void multiplexer_stop_transport(struct multiplexer *x)
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
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "a program with built-in kernels cannot send files with a request");
    return t->ops->send_files(t, frame, rq->files, rq->file_count, err);
}

/* Returns false if the connection is broken.  The leader's read then fails, too, and the leader
 * reconnects. */
static bool send_request(struct multiplexer *x, struct request *rq)
{
    struct kiln_err err;
    kiln_err_init(&err);
    enum kiln_code rc = send_one(x->transport, rq, &err);
    if (rc && rq->file_count > 0 && rc != KILN_UNAVAILABLE) {
        /* ends the request, because another connection would reject the files, too */
        multiplexer_end_with(x, rq, &err);
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

void multiplexer_send_waiting(struct multiplexer *x)
{
    struct transport *t = x->transport;
    LIST_EACH (&x->requests, struct request, link, rq) {
        if (!x->unsent || x->broken || x->stopping)
            return;
        if (rq->sent)
            continue;
        if (x->sent >= x->status.handshake.max_in_flight || t->ops->is_sending(t))
            return;
        if (!send_request(x, rq)) {
            multiplexer_stop_transport(x);
            return;
        }
    }
}

void multiplexer_send_cancel(struct multiplexer *x, uint64_t id)
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
        multiplexer_stop_transport(x);
}
