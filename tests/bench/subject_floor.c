/* SPDX-License-Identifier: MIT */
#include "tests/bench/floor.h"
#include "tests/bench/subject.h"

#include <errno.h>
#include <sys/mman.h>

struct floor_subject {
    struct subject base;
    const struct content *content; /* borrowed */
    int fd;
    uint8_t *body;     /* owned */
    size_t reply_size; /* of |body| */
    enum floor_mode mode;
    bool keep;      /* mappings, until the pass ends */
    void **kept;    /* owned, room for every object */
    size_t kept_count;
};

static void floor_close(struct subject *base)
{
    struct floor_subject *s = (struct floor_subject *)base;
    fd_auto(&s->fd);
    free(s->body);
    free(s);
}

static enum kiln_code open_mode(const struct subject_ops *ops, const char *socket,
                                const struct content *content, enum floor_mode mode,
                                struct subject **ret_subject, struct kiln_err *err)
{
    KILN_AUTO(mem) struct floor_subject *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open '%s'", ops->name);
    s->base.ops = ops;
    s->mode = mode;
    s->size = content->size;
    s->reply_size = FLOOR_REPLY_SIZE + (mode == FLOOR_INLINE ? content->size : 0);
    enum kiln_code rc = floor_connect(socket, &s->fd, err);
    if (rc)
        return rc;
    s->body = malloc(s->reply_size);
    if (!s->body) {
        close(s->fd);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open '%s'", ops->name);
    }
    *ret_subject = &s->base;
    (void)KILN_TAKE(s);
    return KILN_OK;
}

static enum kiln_code use_descriptor(int fd, size_t size, struct kiln_err *err)
{
    KILN_AUTO(fd) int owned = fd;
    void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, owned, 0);
    if (data == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map an object");
    (void)content_touch(data, size);
    munmap(data, size);
    return KILN_OK;
}

static enum kiln_code floor_fetch(struct subject *base, size_t index, struct kiln_err *err)
{
    struct floor_subject *s = (struct floor_subject *)base;
    struct floor_request request = { .mode = s->mode, .first = (uint32_t)index, .count = 1 };
    struct floor_reply reply = { .body = s->body, .room = s->reply_size };
    enum kiln_code rc = floor_ask(s->fd, &request, err);
    if (!rc)
        rc = floor_hear(s->fd, &reply, err);
    if (rc)
        return rc;
    if (s->mode == FLOOR_INLINE)
        (void)content_touch(s->body + FLOOR_REPLY_SIZE, s->size);
    if (s->mode != FLOOR_DESCRIPTOR)
        return KILN_OK;
    if (reply.fd_count != 1)
        return kiln_fail(err, KILN_IO, "the bare server sent no descriptor");
    return use_descriptor(reply.fds[0], s->size, err);
}

static enum kiln_code open_round_trip(const struct subject_place *place, struct subject **ret,
                                      struct kiln_err *err)
{
    return open_mode(&subject_round_trip, place->floor_socket, place->content, FLOOR_EMPTY, ret,
                     err);
}

static enum kiln_code open_inline(const struct subject_place *place, struct subject **ret,
                                  struct kiln_err *err)
{
    return open_mode(&subject_inline, place->floor_socket, place->content, FLOOR_INLINE, ret, err);
}

static enum kiln_code open_descriptor(const struct subject_place *place, struct subject **ret,
                                      struct kiln_err *err)
{
    return open_mode(&subject_descriptor, place->floor_socket, place->content, FLOOR_DESCRIPTOR,
                     ret, err);
}

static enum kiln_code open_epoll(const struct subject_place *place, struct subject **ret,
                                 struct kiln_err *err)
{
    return open_mode(&subject_descriptor_epoll, place->epoll_socket, place->content,
                     FLOOR_DESCRIPTOR, ret, err);
}

#define FLOOR_SUBJECT(text, open_it)                                                  \
    {                                                                                 \
        .name = (text), .open = (open_it), .fetch = floor_fetch, .close = floor_close \
    }

const struct subject_ops subject_round_trip = FLOOR_SUBJECT("round-trip", open_round_trip);
const struct subject_ops subject_inline = FLOOR_SUBJECT("inline", open_inline);
const struct subject_ops subject_descriptor = FLOOR_SUBJECT("descriptor", open_descriptor);
const struct subject_ops subject_descriptor_epoll = FLOOR_SUBJECT("descriptor-epoll", open_epoll);
