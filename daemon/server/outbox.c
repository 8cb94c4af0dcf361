/* SPDX-License-Identifier: MIT */
#include "daemon/server/outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Frames up to this size are worth a copy to save a system call. */
#define HOLD_MOST 4096
/* Chunks made while holding have room for more. */
#define CHUNK_ROOM 16384
#define GATHER_MOST 16

struct chunk {
    struct chunk *next;
    size_t size, capacity;
    size_t sent;
    size_t charged;          /* to the account */
    size_t object_count;     /* 0 once they have gone with the first byte */
    struct object **objects; /* owned references, in the same allocation */
    uint8_t *data;           /* in the same allocation */
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
    struct iovec iov[GATHER_MOST];
    size_t count;
    struct object *const *objects;
    size_t object_count;
};

static void attach(struct msghdr *m, void *control, const struct parcel *p)
{
    size_t size = p->object_count * sizeof(int);
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

/* Bytes that went, 0 when the socket takes none now, negative when the peer is gone. */
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
    o->starved = sent < 0 && (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM);
    if (sent > 0)
        o->progressed = true;
    if (sent >= 0 || errno == EAGAIN || o->starved)
        return sent > 0 ? sent : 0;
    kiln_fail(err, KILN_UNAVAILABLE, "the peer is gone: %s", strerror(errno));
    return -1;
}

static size_t gather_chunks(const struct outbox *o, struct parcel *p)
{
    size_t total = 0;
    *p = (struct parcel){ .objects = o->first->objects, .object_count = o->first->object_count };
    for (const struct chunk *c = o->first; c && p->count < GATHER_MOST; c = c->next) {
        if (c != o->first && c->object_count > 0)
            break;
        p->iov[p->count++] = (struct iovec){ c->data + c->sent, c->size - c->sent };
        total += c->size - c->sent;
    }
    return total;
}

static void forget_sent(struct outbox *o, size_t sent)
{
    while (sent > 0) {
        struct chunk *c = o->first;
        size_t left = c->size - c->sent;
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
        size_t total = gather_chunks(o, &p);
        ssize_t sent = send_parcel(o, fd, &p, err);
        if (sent < 0)
            return err->code;
        forget_sent(o, (size_t)sent);
        if ((size_t)sent < total)
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

static struct chunk *chunk_new(size_t capacity, size_t object_count)
{
    size_t references = object_count * sizeof(struct object *);
    struct chunk *c = malloc(sizeof(*c) + references + capacity);
    if (!c)
        return NULL;
    *c = (struct chunk){ .capacity = capacity };
    c->objects = (struct object **)(void *)(c + 1);
    c->data = (uint8_t *)(c + 1) + references;
    return c;
}

static void append(struct chunk *c, struct bytes part)
{
    if (part.size > 0)
        memcpy(c->data + c->size, part.data, part.size);
    c->size += part.size;
}

static enum kiln_code push(struct outbox *o, size_t size, size_t capacity, size_t object_count,
                           struct kiln_err *err)
{
    size_t cost = size + object_count * OUTBOX_OBJECT_COST;
    enum kiln_code rc = charge(o, cost, err);
    if (rc)
        return rc;
    struct chunk *c = chunk_new(capacity, object_count);
    if (!c) {
        o->bytes -= cost;
        account_give(o->account, cost);
        return kiln_fail(err, KILN_FULL, "no memory to hold a reply of %zu bytes", size);
    }
    c->charged = cost;
    if (o->last)
        o->last->next = c;
    else
        o->first = c;
    o->last = c;
    return KILN_OK;
}

/* Queues |head| and |body|, behind the last chunk's bytes where there is room. */
static enum kiln_code enqueue(struct outbox *o, struct bytes head, struct bytes body,
                              struct object *const *objects, size_t object_count, bool hold,
                              struct kiln_err *err)
{
    size_t size = head.size + body.size;
    struct chunk *c = o->last;
    if (c && object_count == 0 && c->capacity - c->size >= size) {
        enum kiln_code rc = charge(o, size, err);
        if (rc)
            return rc;
        c->charged += size;
    } else {
        size_t capacity = hold && size < CHUNK_ROOM ? CHUNK_ROOM : size;
        enum kiln_code rc = push(o, size, capacity, object_count, err);
        if (rc)
            return rc;
        c = o->last;
    }
    for (size_t i = 0; i < object_count; i++)
        c->objects[c->object_count++] = object_ref(objects[i]);
    append(c, head);
    append(c, body);
    return KILN_OK;
}

static struct bytes after(struct bytes b, size_t skip)
{
    return skip < b.size ? bytes_of(b.data + skip, b.size - skip) : bytes_of(NULL, 0);
}

enum kiln_code outbox_send(struct outbox *o, int fd, const struct outgoing *frame, bool hold,
                           struct kiln_err *err)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    frame_header_write(raw, &frame->header);
    struct bytes head = bytes_of(raw, sizeof(raw));
    bool small = frame->object_count == 0 && frame->body.size <= HOLD_MOST;
    if (hold && small)
        return enqueue(o, head, frame->body, NULL, 0, true, err);
    enum kiln_code rc = outbox_flush(o, fd, err);
    if (rc)
        return rc;
    if (o->first)
        return enqueue(o, head, frame->body, frame->objects, frame->object_count, small, err);
    struct parcel p = {
        .iov = { { raw, sizeof(raw) }, { (void *)(uintptr_t)frame->body.data, frame->body.size } },
        .count = frame->body.size > 0 ? 2 : 1,
        .objects = frame->objects,
        .object_count = frame->object_count,
    };
    ssize_t sent = send_parcel(o, fd, &p, err);
    if (sent < 0)
        return err->code;
    size_t gone = (size_t)sent;
    if (gone == sizeof(raw) + frame->body.size)
        return KILN_OK;
    struct bytes body = gone > sizeof(raw) ? after(frame->body, gone - sizeof(raw)) : frame->body;
    return enqueue(o, after(head, gone), body, frame->objects, gone > 0 ? 0 : frame->object_count,
                   false, err);
}
