/* SPDX-License-Identifier: MIT */

/* Fetches with kiln's messages but without libkiln. The time of subject_kiln minus this time is
 * libkiln's cost. This time minus that of subject_descriptor is kilnd's cost. */
#include "common/protocol/messages.h"
#include "tests/bench/floor.h"
#include "tests/bench/subject.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define FRAME_ROOM (LIMIT_INLINE_OBJECT + 4096)
#define NO_FD (-1)

struct wire_subject {
    struct subject base;
    const struct content *content;
    int fd;
    uint64_t next_id;
    uint8_t *frame;
    size_t frame_size;
    int object_fd; /* descriptor of the last frame's object, or -1 */
};

static enum kiln_code send_frame(struct wire_subject *s, unsigned type, const struct buffer *body,
                                 struct kiln_err *err)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    struct frame_header header = {
        .version = FRAME_VERSION,
        .type = (uint16_t)type,
        .request_id = s->next_id++,
        .body_size = (uint32_t)body->size,
    };
    frame_header_write(raw, &header);
    struct iovec parts[] = { { raw, sizeof(raw) }, { body->data, body->size } };
    struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };
    ssize_t n = body->failed ? -1 : sendmsg(s->fd, &m, MSG_NOSIGNAL);
    if (n != (ssize_t)(sizeof(raw) + body->size))
        return kiln_fail_errno(err, errno, "cannot send a request");
    return KILN_OK;
}

static void keep_descriptor(struct wire_subject *s, struct msghdr *m)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(&s->object_fd, CMSG_DATA(c), sizeof(int));
}

static size_t bytes_wanted(const struct wire_subject *s, struct kiln_err *err)
{
    struct frame_header header;
    if (s->frame_size < FRAME_HEADER_SIZE || frame_header_read(s->frame, &header, err))
        return FRAME_HEADER_SIZE;
    return FRAME_HEADER_SIZE + header.body_size;
}

static enum kiln_code receive_frame(struct wire_subject *s, struct bytes *ret_body,
                                    struct kiln_err *err)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    s->frame_size = 0;
    while (s->frame_size < FRAME_HEADER_SIZE || s->frame_size < bytes_wanted(s, err)) {
        struct iovec part = { s->frame + s->frame_size, FRAME_ROOM - s->frame_size };
        struct msghdr m = { .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof(control) };
        ssize_t n = recvmsg(s->fd, &m, MSG_CMSG_CLOEXEC);
        if (n <= 0)
            return kiln_fail(err, KILN_IO, "kilnd closed the connection");
        keep_descriptor(s, &m);
        s->frame_size += (size_t)n;
    }
    *ret_body = bytes_of(s->frame + FRAME_HEADER_SIZE, s->frame_size - FRAME_HEADER_SIZE);
    return KILN_OK;
}

static enum kiln_code connect_client(struct wire_subject *s, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 256);
    struct message_hello hello = {
        .oldest_version = FRAME_VERSION_OLDEST,
        .newest_version = FRAME_VERSION,
        .capabilities = CAPABILITY_INLINE,
        .software = bytes_of_text("bench"),
    };
    message_hello_write(&body, &hello);
    struct bytes welcome;
    enum kiln_code rc = send_frame(s, MESSAGE_hello, &body, err);
    return rc ? rc : receive_frame(s, &welcome, err);
}

static void wire_close(struct subject *base)
{
    struct wire_subject *s = (struct wire_subject *)base;
    fd_auto(&s->fd);
    fd_auto(&s->object_fd);
    free(s->frame);
    free(s);
}

static enum kiln_code wire_open(const struct subject_place *place, struct subject **ret_subject,
                                struct kiln_err *err)
{
    struct wire_subject *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open a connection");
    *s = (struct wire_subject){ .base.ops = &subject_kiln_wire,
                                .content = place->content,
                                .fd = -1,
                                .object_fd = NO_FD,
                                .next_id = 1,
                                .frame = malloc(FRAME_ROOM) };
    enum kiln_code rc = s->frame ? floor_connect(place->kiln_socket, &s->fd, err)
                                 : kiln_fail(err, KILN_NO_MEMORY, "cannot open a connection");
    if (!rc)
        rc = connect_client(s, err);
    if (rc) {
        wire_close(&s->base);
        return rc;
    }
    *ret_subject = &s->base;
    return KILN_OK;
}

static enum kiln_code use_mapped(struct wire_subject *s, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = s->object_fd;
    s->object_fd = NO_FD;
    void *data = mmap(NULL, s->content->size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map a kernel");
    (void)content_touch(s->content, data);
    munmap(data, s->content->size);
    return KILN_OK;
}

static enum kiln_code use_reply(struct wire_subject *s, struct bytes body, struct kiln_err *err)
{
    struct reader r = reader_of(body);
    struct message_kernels kernels = message_kernels_read(&r);
    struct reader one = reader_of(kernels.results);
    struct message_result result = message_result_read(&one);
    if (one.failed || result.code || result.size != s->content->size)
        return kiln_fail(err, KILN_IO, "kilnd did not send a kernel");
    if (result.descriptor != NO_DESCRIPTOR)
        return use_mapped(s, err);
    if (result.content.size != s->content->size)
        return kiln_fail(err, KILN_IO, "kilnd sent a part of a kernel");
    (void)content_touch(s->content, result.content.data);
    return KILN_OK;
}

static enum kiln_code wire_fetch(struct subject *base, size_t index, struct kiln_err *err)
{
    struct wire_subject *s = (struct wire_subject *)base;
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 64);
    struct message_fetch fetch = {
        .key = content_key(s->content, index % s->content->count),
        .inline_limit = LIMIT_INLINE_OBJECT,
    };
    message_fetch_write(&body, &fetch);
    struct bytes reply;
    enum kiln_code rc = send_frame(s, MESSAGE_fetch, &body, err);
    if (!rc)
        rc = receive_frame(s, &reply, err);
    return rc ? rc : use_reply(s, reply, err);
}

const struct subject_ops subject_kiln_wire = {
    .name = "kiln-wire",
    .open = wire_open,
    .fetch = wire_fetch,
    .close = wire_close,
};
