/* SPDX-License-Identifier: MIT */
#include "tests/bench/floor.h"
#include "tests/bench/subject.h"

#include <errno.h>
#include <sys/mman.h>

struct floor_way {
    const struct subject_ops *ops;
    enum floor_mode mode;
    bool keep; /* unmap at the round's end only, as libkiln's in-process cache does */
};

struct floor_subject {
    struct subject base;
    struct floor_way way;
    const struct content *content;
    int fd;
    uint8_t *body;
    size_t reply_size;
    void **kept;
    size_t kept_count;
};

static void unmap_kept(struct floor_subject *s)
{
    while (s->kept_count)
        munmap(s->kept[--s->kept_count], s->content->size);
}

static void floor_close(struct subject *base)
{
    struct floor_subject *s = (struct floor_subject *)base;
    unmap_kept(s);
    fd_auto(&s->fd);
    free(s->kept);
    free(s->body);
    free(s);
}

static enum kiln_code open_way(const struct floor_way *way, const char *socket,
                               const struct content *content, struct subject **ret_subject,
                               struct kiln_err *err)
{
    struct floor_subject *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open '%s'", way->ops->name);
    size_t size = FLOOR_REPLY_SIZE + (way->mode == FLOOR_INLINE ? content->size : 0);
    *s = (struct floor_subject){ .base.ops = way->ops,
                                 .way = *way,
                                 .content = content,
                                 .fd = -1,
                                 .body = malloc(size),
                                 .reply_size = size,
                                 .kept = calloc(content->count, sizeof(void *)) };
    enum kiln_code rc = s->body && s->kept
                            ? floor_connect(socket, &s->fd, err)
                            : kiln_fail(err, KILN_NO_MEMORY, "cannot open '%s'", way->ops->name);
    if (rc) {
        floor_close(&s->base);
        return rc;
    }
    *ret_subject = &s->base;
    return KILN_OK;
}

static enum kiln_code use_descriptor(struct floor_subject *s, int fd, struct kiln_err *err)
{
    KILN_AUTO(fd) int owned = fd;
    void *data = mmap(NULL, s->content->size, PROT_READ, MAP_SHARED, owned, 0);
    if (data == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map an object");
    (void)content_touch(s->content, data);
    s->kept[s->kept_count++] = data;
    if (!s->way.keep || s->kept_count == s->content->count)
        unmap_kept(s);
    return KILN_OK;
}

static enum kiln_code floor_fetch(struct subject *base, size_t index, struct kiln_err *err)
{
    struct floor_subject *s = (struct floor_subject *)base;
    struct floor_request request = { .mode = s->way.mode, .first = (uint32_t)index, .count = 1 };
    struct floor_reply reply = { .body = s->body, .size = s->reply_size };
    enum kiln_code rc = floor_ask(s->fd, &request, err);
    if (!rc)
        rc = floor_hear(s->fd, &reply, err);
    if (rc)
        return rc;
    if (s->way.mode == FLOOR_INLINE)
        (void)content_touch(s->content, s->body + FLOOR_REPLY_SIZE);
    if (s->way.mode != FLOOR_DESCRIPTOR)
        return KILN_OK;
    if (reply.fd_count != 1)
        return kiln_fail(err, KILN_IO, "the bare server sent no descriptor");
    return use_descriptor(s, reply.fds[0], err);
}

static enum kiln_code floor_end(struct subject *base, struct kiln_err *err)
{
    (void)err;
    unmap_kept((struct floor_subject *)base);
    return KILN_OK;
}

#define FLOOR_SUBJECT(noun, text, socket, mode_, keep_)                                        \
    static enum kiln_code open_##noun(const struct subject_place *place, struct subject **ret, \
                                      struct kiln_err *err)                                    \
    {                                                                                          \
        struct floor_way way = { .ops = &subject_##noun, .mode = (mode_), .keep = (keep_) };   \
        return open_way(&way, place->socket, place->content, ret, err);                        \
    }                                                                                          \
    const struct subject_ops subject_##noun = { .name = (text),                                \
                                                .open = open_##noun,                           \
                                                .fetch = floor_fetch,                          \
                                                .end = floor_end,                              \
                                                .close = floor_close };

FLOOR_SUBJECT(round_trip, "round-trip", floor_socket, FLOOR_EMPTY, false)
FLOOR_SUBJECT(inline, "inline", floor_socket, FLOOR_INLINE, false)
FLOOR_SUBJECT(descriptor, "descriptor", floor_socket, FLOOR_DESCRIPTOR, false)
FLOOR_SUBJECT(descriptor_kept, "descriptor-kept", floor_socket, FLOOR_DESCRIPTOR, true)
FLOOR_SUBJECT(descriptor_epoll, "descriptor-epoll", epoll_socket, FLOOR_DESCRIPTOR, false)
