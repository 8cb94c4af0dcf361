/* SPDX-License-Identifier: MIT */
#include "daemon/server/outbox.h"

#include "common/base/fd_message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Maximum size of frames that are held back to be sent together.  Up to this size, copying a frame
 * costs less than a system call. */
#define HOLD_MAX 4096
#define CHUNK_SIZE 16384
#define GATHER_MAX 128

struct chunk {
    struct list_link link;
    size_t size, capacity;
    size_t segment_bytes;
    size_t sent;
    size_t charged;
    /* Number of objects whose descriptors must be sent.  They are sent with the first byte. */
    size_t object_count;
    size_t segment_count;
    /* owned references; the array is part of this allocation, like the next two arrays */
    struct object **objects;
    struct segment *segments;
    uint8_t *data;
};

void outbox_init(struct outbox *o, struct account *account, size_t limit)
{
    *o = (struct outbox){ .account = account, .limit = limit };
    list_init(&o->chunks);
}

static void drop_objects(struct chunk *c)
{
    for (size_t i = 0; i < c->object_count; i++)
        object_unref(c->objects[i]);
    c->object_count = 0;
}

static void drop_chunk(struct outbox *o, struct chunk *c)
{
    list_remove(&c->link);
    o->bytes -= c->charged;
    account_release(o->account, c->charged);
    drop_objects(c);
    for (size_t i = 0; i < c->segment_count; i++)
        object_unref(c->segments[i].object);
    free(c);
}

void outbox_done(struct outbox *o)
{
    LIST_EACH (&o->chunks, struct chunk, link, c)
        drop_chunk(o, c);
}

bool outbox_is_empty(const struct outbox *o) { return list_is_empty(&o->chunks); }

struct send_call {
    struct iovec iov[GATHER_MAX];
    size_t count, bytes;
    struct object *const *objects;
    size_t object_count;
};

static ssize_t check_sent(struct outbox *o, ssize_t sent, struct kiln_err *err)
{
    o->starved = sent < 0 && (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM);
    if (sent > 0)
        o->progressed = true;
    if (sent >= 0 || errno == EAGAIN || o->starved)
        return sent > 0 ? sent : 0;
    kiln_fail(err, KILN_UNAVAILABLE, "the client disconnected: %s", strerror(errno));
    return -1;
}

static ssize_t send_copied(struct outbox *o, int fd, struct bytes head, struct bytes body,
                           struct kiln_err *err)
{
    uint8_t whole[FRAME_HEADER_SIZE + HOLD_MAX];
    memcpy(whole, head.data, head.size);
    if (body.size > 0)
        memcpy(whole + head.size, body.data, body.size);
    ssize_t sent;
    do {
        sent = send(fd, whole, head.size + body.size, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return check_sent(o, sent, err);
}

static ssize_t send_parts(struct outbox *o, int fd, struct send_call *call, struct kiln_err *err)
{
    FD_MESSAGE_SPACE(space, LIMIT_FRAME_DESCRIPTORS);
    int fds[LIMIT_FRAME_DESCRIPTORS];
    struct msghdr m = { .msg_iov = call->iov, .msg_iovlen = call->count };
    for (size_t i = 0; i < call->object_count; i++)
        fds[i] = call->objects[i]->fd;
    if (call->object_count > 0)
        fd_message_put(&m, space, fds, call->object_count);
    ssize_t sent;
    do {
        sent = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return check_sent(o, sent, err);
}

static void add_part(struct send_call *call, const uint8_t *data, size_t size, size_t *skip)
{
    if (size <= *skip) {
        *skip -= size;
    } else if (call->count < GATHER_MAX) {
        call->iov[call->count++] =
            (struct iovec){ (void *)(uintptr_t)(data + *skip), size - *skip };
        call->bytes += size - *skip;
        *skip = 0;
    }
}

static void add_body(struct send_call *call, struct bytes body, const struct segment *segments,
                     size_t segment_count, size_t skip)
{
    size_t at = 0;
    for (size_t i = 0; i < segment_count; i++) {
        const struct object *object = segments[i].object;
        add_part(call, body.data + at, segments[i].at - at, &skip);
        add_part(call, object->data, object->size, &skip);
        at = segments[i].at;
    }
    add_part(call, body.data + at, body.size - at, &skip);
}

static void begin_call(struct send_call *call, struct object *const *objects, size_t object_count)
{
    call->count = call->bytes = 0;
    call->objects = objects;
    call->object_count = object_count;
}

static void add_chunks(const struct outbox *o, struct send_call *call)
{
    const struct chunk *first = LIST_FIRST(&o->chunks, struct chunk, link);
    begin_call(call, first->objects, first->object_count);
    LIST_EACH (&o->chunks, const struct chunk, link, c) {
        if (call->count == GATHER_MAX || (c != first && c->object_count > 0))
            break;
        add_body(call, bytes_of(c->data, c->size), c->segments, c->segment_count, c->sent);
    }
}

static void forget_sent(struct outbox *o, size_t sent)
{
    LIST_EACH (&o->chunks, struct chunk, link, c) {
        size_t left = c->size + c->segment_bytes - c->sent;
        if (sent > 0)
            drop_objects(c);
        if (sent < left) {
            c->sent += sent;
            return;
        }
        sent -= left;
        drop_chunk(o, c);
    }
}

enum kiln_code outbox_flush(struct outbox *o, int fd, struct kiln_err *err)
{
    while (!outbox_is_empty(o)) {
        struct send_call call;
        add_chunks(o, &call);
        ssize_t sent = send_parts(o, fd, &call, err);
        if (sent < 0)
            return err->code;
        forget_sent(o, (size_t)sent);
        if ((size_t)sent < call.bytes)
            break;
    }
    return KILN_OK;
}

static enum kiln_code charge_bytes(struct outbox *o, size_t bytes, struct kiln_err *err)
{
    if (bytes > o->limit - o->bytes)
        return kiln_fail(err, KILN_FULL, "%zu bytes of replies wait for a peer that does not read",
                         o->bytes);
    if (!account_charge(o->account, bytes))
        return kiln_fail(err, KILN_FULL, "user %u has %zu bytes of unread replies in kilnd",
                         (unsigned)o->account->uid, o->account->bytes);
    o->bytes += bytes;
    return KILN_OK;
}

static struct chunk *make_chunk(size_t capacity, const struct outgoing *frame)
{
    size_t objects = frame->object_count * sizeof(struct object *);
    size_t segments = frame->segment_count * sizeof(struct segment);
    struct chunk *c = malloc(sizeof(*c) + objects + segments + capacity);
    if (!c)
        return NULL;
    *c = (struct chunk){ .capacity = capacity };
    c->objects = (struct object **)(void *)(c + 1);
    c->segments = (struct segment *)(void *)((uint8_t *)(c + 1) + objects);
    c->data = (uint8_t *)(c + 1) + objects + segments;
    return c;
}

static void append_bytes(struct chunk *c, struct bytes part)
{
    if (part.size > 0)
        memcpy(c->data + c->size, part.data, part.size);
    c->size += part.size;
}

static enum kiln_code push_chunk(struct outbox *o, const struct outgoing *frame, size_t size,
                                 size_t capacity, struct kiln_err *err)
{
    size_t segment_bytes = segments_size(frame->segments, frame->segment_count);
    size_t cost = size + segment_bytes + frame->object_count * OUTBOX_OBJECT_COST;
    enum kiln_code rc = charge_bytes(o, cost, err);
    if (rc)
        return rc;
    struct chunk *c = make_chunk(capacity, frame);
    if (!c) {
        o->bytes -= cost;
        account_release(o->account, cost);
        return kiln_fail(err, KILN_FULL, "no memory to hold a reply of %zu bytes",
                         size + segment_bytes);
    }
    c->charged = cost;
    c->segment_bytes = segment_bytes;
    for (size_t i = 0; i < frame->object_count; i++)
        c->objects[c->object_count++] = object_ref(frame->objects[i]);
    for (size_t i = 0; i < frame->segment_count; i++) {
        const struct segment *segment = &frame->segments[i];
        c->segments[c->segment_count++] =
            (struct segment){ FRAME_HEADER_SIZE + segment->at, object_ref(segment->object) };
    }
    list_append(&o->chunks, &c->link);
    return KILN_OK;
}

static enum kiln_code enqueue_frame(struct outbox *o, struct bytes head,
                                    const struct outgoing *frame, bool hold, struct kiln_err *err)
{
    size_t size = head.size + frame->body.size;
    struct chunk *c = LIST_LAST(&o->chunks, struct chunk, link);
    bool plain = frame->object_count == 0 && frame->segment_count == 0;
    if (c && plain && c->capacity - c->size >= size) {
        enum kiln_code rc = charge_bytes(o, size, err);
        if (rc)
            return rc;
        c->charged += size;
    } else {
        size_t capacity = hold && size < CHUNK_SIZE ? CHUNK_SIZE : size;
        enum kiln_code rc = push_chunk(o, frame, size, capacity, err);
        if (rc)
            return rc;
        c = LIST_LAST(&o->chunks, struct chunk, link);
    }
    append_bytes(c, head);
    append_bytes(c, frame->body);
    return KILN_OK;
}

static ssize_t send_gathered(struct outbox *o, int fd, struct bytes head,
                             const struct outgoing *frame, struct kiln_err *err)
{
    struct send_call call;
    size_t none = 0;
    begin_call(&call, frame->objects, frame->object_count);
    add_part(&call, head.data, head.size, &none);
    add_body(&call, frame->body, frame->segments, frame->segment_count, 0);
    return send_parts(o, fd, &call, err);
}

enum kiln_code outbox_send(struct outbox *o, int fd, const struct outgoing *frame, bool hold,
                           struct kiln_err *err)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    frame_header_write(raw, &frame->header);
    struct bytes head = bytes_of(raw, sizeof(raw));
    bool small = frame->object_count == 0 && frame->header.body_size <= HOLD_MAX &&
                 frame->body.size <= HOLD_MAX;
    if (hold && small)
        return enqueue_frame(o, head, frame, true, err);
    enum kiln_code rc = outbox_flush(o, fd, err);
    if (rc)
        return rc;
    if (!outbox_is_empty(o))
        return enqueue_frame(o, head, frame, small, err);
    ssize_t sent = small && frame->segment_count == 0 ? send_copied(o, fd, head, frame->body, err)
                                                      : send_gathered(o, fd, head, frame, err);
    if (sent < 0)
        return err->code;
    if ((size_t)sent == sizeof(raw) + frame->header.body_size)
        return KILN_OK;
    rc = enqueue_frame(o, head, frame, false, err);
    if (!rc)
        forget_sent(o, (size_t)sent);
    return rc;
}
