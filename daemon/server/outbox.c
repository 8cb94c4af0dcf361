/* SPDX-License-Identifier: MIT */
#include "daemon/server/outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Frames up to this size are worth a copy to save a system call. */
#define HOLD_MAX 4096
/* Chunks made while holding have room for more. */
#define CHUNK_ROOM 16384
#define GATHER_MAX 128

struct chunk {
    struct chunk *next;
    size_t size, capacity;   /* of data */
    size_t inlaid;           /* bytes of inlays */
    size_t sent;             /* of both */
    size_t charged;          /* to the account */
    size_t object_count;     /* 0 once they have gone with the first byte */
    size_t segment_count;    /* as they came with the frame that began the chunk */
    struct object **objects; /* owned references, in the same allocation, as the next two */
    struct segment *segments;
    uint8_t *data;
};

void outbox_init(struct outbox *o, struct account *account, size_t limit)
{
    *o = (struct outbox){ .account = account, .limit = limit };
}

static void drop_objects(struct chunk *c)
{
    for (size_t i = 0; i < c->object_count; i++)
        object_unref(c->objects[i]);
    c->object_count = 0;
}

static void pop(struct outbox *o)
{
    struct chunk *c = o->first;
    o->first = c->next;
    if (!o->first)
        o->last = NULL;
    o->bytes -= c->charged;
    account_give(o->account, c->charged);
    drop_objects(c);
    for (size_t i = 0; i < c->segment_count; i++)
        object_unref(c->segments[i].object);
    free(c);
}

void outbox_done(struct outbox *o)
{
    while (o->first)
        pop(o);
}

bool outbox_is_empty(const struct outbox *o) { return !o->first; }

/* ---- sending ---- */

struct parcel { /* what one sendmsg takes */
    struct iovec iov[GATHER_MAX];
    size_t count, bytes;
    struct object *const *objects;
    size_t object_count;
};

static void attach(struct msghdr *m, void *control, const struct parcel *p)
{
    size_t size = p->object_count * sizeof(int);
    memset((char *)control + CMSG_LEN(size), 0, CMSG_SPACE(size) - CMSG_LEN(size));
    m->msg_control = control;
    m->msg_controllen = CMSG_SPACE(size);
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(size);
    int *fds = (int *)(void *)CMSG_DATA(c);
    for (size_t i = 0; i < p->object_count; i++)
        fds[i] = p->objects[i]->fd;
}

/* What became of a send: bytes that went, 0 when the socket takes none now, negative when the peer
 * is gone. */
static ssize_t judge(struct outbox *o, ssize_t sent, struct kiln_err *err)
{
    o->starved = sent < 0 && (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM);
    if (sent > 0)
        o->progressed = true;
    if (sent >= 0 || errno == EAGAIN || o->starved)
        return sent > 0 ? sent : 0;
    kiln_fail(err, KILN_UNAVAILABLE, "the peer is gone: %s", strerror(errno));
    return -1;
}

/* A small frame: a copy costs less than telling the kernel of two parts. */
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
    return judge(o, sent, err);
}

static ssize_t send_parcel(struct outbox *o, int fd, struct parcel *p, struct kiln_err *err)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(LIMIT_FRAME_DESCRIPTORS * sizeof(int))];
    } control;
    struct msghdr m = { .msg_iov = p->iov, .msg_iovlen = p->count };
    if (p->object_count > 0)
        attach(&m, &control, p);
    ssize_t sent;
    do {
        sent = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return judge(o, sent, err);
}

static void gather(struct parcel *p, const uint8_t *data, size_t size, size_t *skip)
{
    if (size <= *skip) {
        *skip -= size;
    } else if (p->count < GATHER_MAX) {
        p->iov[p->count++] = (struct iovec){ (void *)(uintptr_t)(data + *skip), size - *skip };
        p->bytes += size - *skip;
        *skip = 0;
    }
}

/* |body| with its inlays, less its first |skip| bytes. */
static void gather_body(struct parcel *p, struct bytes body, const struct segment *segments,
                        size_t segment_count, size_t skip)
{
    size_t at = 0;
    for (size_t i = 0; i < segment_count; i++) {
        const struct object *object = segments[i].object;
        gather(p, body.data + at, segments[i].at - at, &skip);
        gather(p, object->data, object->size, &skip);
        at = segments[i].at;
    }
    gather(p, body.data + at, body.size - at, &skip);
}

static void parcel_begin(struct parcel *p, struct object *const *objects, size_t object_count)
{
    p->count = p->bytes = 0;
    p->objects = objects;
    p->object_count = object_count;
}

static void gather_chunks(const struct outbox *o, struct parcel *p)
{
    parcel_begin(p, o->first->objects, o->first->object_count);
    for (const struct chunk *c = o->first; c && p->count < GATHER_MAX; c = c->next) {
        if (c != o->first && c->object_count > 0)
            break;
        gather_body(p, bytes_of(c->data, c->size), c->segments, c->segment_count, c->sent);
    }
}

static void forget_sent(struct outbox *o, size_t sent)
{
    while (sent > 0) {
        struct chunk *c = o->first;
        size_t left = c->size + c->inlaid - c->sent;
        drop_objects(c);
        if (sent < left) {
            c->sent += sent;
            return;
        }
        sent -= left;
        pop(o);
    }
}

enum kiln_code outbox_flush(struct outbox *o, int fd, struct kiln_err *err)
{
    while (o->first) {
        struct parcel p;
        gather_chunks(o, &p);
        ssize_t sent = send_parcel(o, fd, &p, err);
        if (sent < 0)
            return err->code;
        forget_sent(o, (size_t)sent);
        if ((size_t)sent < p.bytes)
            break;
    }
    return KILN_OK;
}

/* ---- queueing ---- */

static enum kiln_code charge(struct outbox *o, size_t bytes, struct kiln_err *err)
{
    if (bytes > o->limit - o->bytes)
        return kiln_fail(err, KILN_FULL, "%zu bytes of replies wait for a peer that does not read",
                         o->bytes);
    if (!account_take(o->account, bytes))
        return kiln_fail(err, KILN_FULL, "user %u has %zu bytes of unread replies here",
                         (unsigned)o->account->uid, o->account->bytes);
    o->bytes += bytes;
    return KILN_OK;
}

static struct chunk *chunk_new(size_t capacity, const struct outgoing *frame)
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

static void append(struct chunk *c, struct bytes part)
{
    if (part.size > 0)
        memcpy(c->data + c->size, part.data, part.size);
    c->size += part.size;
}

static enum kiln_code push(struct outbox *o, const struct outgoing *frame, size_t size,
                           size_t capacity, struct kiln_err *err)
{
    size_t inlaid = segments_size(frame->segments, frame->segment_count);
    size_t cost = size + inlaid + frame->object_count * OUTBOX_OBJECT_COST;
    enum kiln_code rc = charge(o, cost, err);
    if (rc)
        return rc;
    struct chunk *c = chunk_new(capacity, frame);
    if (!c) {
        o->bytes -= cost;
        account_give(o->account, cost);
        return kiln_fail(err, KILN_FULL, "no memory to hold a reply of %zu bytes", size + inlaid);
    }
    c->charged = cost;
    c->inlaid = inlaid;
    for (size_t i = 0; i < frame->object_count; i++)
        c->objects[c->object_count++] = object_ref(frame->objects[i]);
    for (size_t i = 0; i < frame->segment_count; i++) {
        const struct segment *segment = &frame->segments[i];
        c->segments[c->segment_count++] =
            (struct segment){ FRAME_HEADER_SIZE + segment->at, object_ref(segment->object) };
    }
    if (o->last)
        o->last->next = c;
    else
        o->first = c;
    o->last = c;
    return KILN_OK;
}

/* Queues |frame|, behind the last chunk's bytes where there is room. */
static enum kiln_code enqueue(struct outbox *o, struct bytes head, const struct outgoing *frame,
                              bool hold, struct kiln_err *err)
{
    size_t size = head.size + frame->body.size;
    struct chunk *c = o->last;
    bool plain = frame->object_count == 0 && frame->segment_count == 0;
    if (c && plain && c->capacity - c->size >= size) {
        enum kiln_code rc = charge(o, size, err);
        if (rc)
            return rc;
        c->charged += size;
    } else {
        size_t capacity = hold && size < CHUNK_ROOM ? CHUNK_ROOM : size;
        enum kiln_code rc = push(o, frame, size, capacity, err);
        if (rc)
            return rc;
        c = o->last;
    }
    append(c, head);
    append(c, frame->body);
    return KILN_OK;
}

static ssize_t send_gathered(struct outbox *o, int fd, struct bytes head,
                             const struct outgoing *frame, struct kiln_err *err)
{
    struct parcel p;
    size_t none = 0;
    parcel_begin(&p, frame->objects, frame->object_count);
    gather(&p, head.data, head.size, &none);
    gather_body(&p, frame->body, frame->segments, frame->segment_count, 0);
    return send_parcel(o, fd, &p, err);
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
        return enqueue(o, head, frame, true, err);
    enum kiln_code rc = outbox_flush(o, fd, err);
    if (rc)
        return rc;
    if (o->first)
        return enqueue(o, head, frame, small, err);
    ssize_t sent = small && frame->segment_count == 0 ? send_copied(o, fd, head, frame->body, err)
                                                      : send_gathered(o, fd, head, frame, err);
    if (sent < 0)
        return err->code;
    if ((size_t)sent == sizeof(raw) + frame->header.body_size)
        return KILN_OK;
    rc = enqueue(o, head, frame, false, err);
    if (!rc)
        forget_sent(o, (size_t)sent);
    return rc;
}
