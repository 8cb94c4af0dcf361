/* SPDX-License-Identifier: MIT */
#include "tests/load/peer.h"

#include "tests/faults/made_kernel.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SILENCE_MAX_MS 60000
#define BODY_MAX (64u << 10)
#define HASH_SEED 8u

uint64_t content_hash(struct bytes content) { return bytes_hash(content, HASH_SEED); }

uint64_t made_hash(unsigned number)
{
    uint8_t content[32u << 10];
    size_t size = made_size(number);
    if (size > sizeof(content))
        abort();
    for (size_t i = 0; i < size; i++)
        content[i] = made_byte(number, i);
    return content_hash(bytes_of(content, size));
}

void peer_write_fetch_of(struct buffer *body, const char *source, uint32_t inline_limit)
{
    struct message_fetch_source m = { .inline_limit = inline_limit,
                                      .toolchain = bytes_of_text(MADE_TOOLCHAIN),
                                      .target = bytes_of_text(MADE_TARGET),
                                      .program = bytes_of_text("load.cl"),
                                      .source = bytes_of_text(source) };
    message_fetch_source_write(body, &m);
}

void peer_write_fetch(struct buffer *body, unsigned number, uint32_t inline_limit)
{
    char text[64];
    made_source(number, text);
    peer_write_fetch_of(body, text, inline_limit);
}

bool peer_connect(struct peer *p, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%.107s", path);
    const struct timeval limit = { .tv_sec = SILENCE_MAX_MS / 1000 };
    p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->fd >= 0 && setsockopt(p->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
        connect(p->fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return true;
    peer_close(p);
    return false;
}

void peer_close(struct peer *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

bool peer_send(struct peer *p, const void *data, size_t size, bool at_once)
{
    const char *at = data;
    while (size > 0) {
        ssize_t put = send(p->fd, at, size, MSG_NOSIGNAL | (at_once ? MSG_DONTWAIT : 0));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        at += put;
        size -= (size_t)put;
    }
    return true;
}

bool peer_send_frame(struct peer *p, unsigned type, uint64_t id, struct bytes body, bool at_once)
{
    struct frame_header h = { .version = FRAME_VERSION,
                              .type = (uint16_t)type,
                              .request_id = id,
                              .body_size = (uint32_t)body.size };
    uint8_t raw[FRAME_HEADER_SIZE + 1024];
    frame_header_write(raw, &h);
    if (body.size > sizeof(raw) - FRAME_HEADER_SIZE)
        return peer_send(p, raw, FRAME_HEADER_SIZE, at_once) &&
               peer_send(p, body.data, body.size, at_once);
    if (body.size > 0)
        memcpy(raw + FRAME_HEADER_SIZE, body.data, body.size);
    return peer_send(p, raw, FRAME_HEADER_SIZE + body.size, at_once);
}

bool peer_send_files(struct peer *p, unsigned type, struct bytes body,
                     const struct peer_descriptors *descriptors)
{
    size_t files_size = descriptors->count * sizeof(int);
    union {
        char bytes[CMSG_SPACE(sizeof(int) * LIMIT_FRAME_DESCRIPTORS)];
        struct cmsghdr align;
    } control = { { 0 } };
    struct frame_header h = { .version = FRAME_VERSION,
                              .type = (uint16_t)type,
                              .request_id = 1,
                              .body_size = (uint32_t)body.size,
                              .descriptors = (uint16_t)descriptors->announced };
    uint8_t raw[FRAME_HEADER_SIZE];
    frame_header_write(raw, &h);
    struct iovec part = { raw, sizeof(raw) };
    struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
    if (files_size > 0) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(files_size);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(files_size);
        memcpy(CMSG_DATA(c), descriptors->files, files_size);
    }
    return sendmsg(p->fd, &m, MSG_NOSIGNAL) == sizeof(raw) &&
           peer_send(p, body.data, body.size, false);
}

/* Receives exactly |size| bytes. If descriptors come with them, stores the last one in |*ret_file|;
 * the caller closes it. */
static bool receive_all(struct peer *p, void *data, size_t size, int *ret_file)
{
    char *at = data;
    while (size > 0) {
        union {
            char bytes[CMSG_SPACE(sizeof(int) * LIMIT_FRAME_DESCRIPTORS)];
            struct cmsghdr align;
        } control;
        struct iovec part = { at, p->read_max && p->read_max < size ? p->read_max : size };
        struct msghdr m = { .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof(control) };
        struct pollfd ready = { .fd = p->fd, .events = POLLIN };
        if (poll(&ready, 1, SILENCE_MAX_MS) != 1)
            return false;
        ssize_t got = recvmsg(p->fd, &m, MSG_CMSG_CLOEXEC);
        if (got <= 0)
            return false;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
            if (*ret_file >= 0)
                close(*ret_file);
            memcpy(ret_file, CMSG_DATA(c), sizeof(int));
        }
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static uint64_t hash_of_file(int file, uint64_t size)
{
    void *map = size ? mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (map == MAP_FAILED)
        return 0;
    uint64_t hash = content_hash(bytes_of(map, size));
    munmap(map, size);
    return hash;
}

static void read_answer(struct bytes body, unsigned type, int file, struct peer_answer *answer)
{
    struct reader r = reader_of(body);
    if (type == MESSAGE_error) {
        answer->code = (enum kiln_code)message_error_read(&r).code;
        answer->is_malformed = r.failed;
        return;
    }
    struct message_kernels m = message_kernels_read(&r);
    struct reader list = reader_of(m.results);
    struct message_result o = message_result_read(&list);
    answer->code = (enum kiln_code)o.code;
    answer->is_malformed = type != MESSAGE_kernels || r.failed || list.failed || m.count != 1;
    if (answer->is_malformed || o.code != KILN_OK)
        return;
    answer->hash = o.content.size ? content_hash(o.content) : hash_of_file(file, o.size);
}

bool peer_receive(struct peer *p, struct peer_answer *ret_answer)
{
    uint8_t raw[FRAME_HEADER_SIZE], body[BODY_MAX];
    struct frame_header h;
    struct kiln_err err = KILN_ERR_INIT;
    int file = -1;
    bool came = receive_all(p, raw, sizeof(raw), &file) && !frame_header_read(raw, &h, &err) &&
                h.body_size <= sizeof(body) && receive_all(p, body, h.body_size, &file);
    if (came) {
        *ret_answer = (struct peer_answer){ .number = (unsigned)h.request_id };
        read_answer(bytes_of(body, h.body_size), h.type, file, ret_answer);
    }
    if (file >= 0)
        close(file);
    return came;
}

bool peer_open(struct peer *p, const char *path)
{
    const struct message_hello m = { .oldest_version = FRAME_VERSION_OLDEST,
                                     .newest_version = FRAME_VERSION,
                                     .capabilities = CAPABILITIES_HERE };
    uint8_t raw[FRAME_HEADER_SIZE], body[1024];
    struct frame_header h;
    struct kiln_err err = KILN_ERR_INIT;
    int file = -1;
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 1000);
    message_hello_write(&b, &m);
    if (peer_connect(p, path) && peer_send_frame(p, MESSAGE_hello, 1, buffer_view(&b), false) &&
        receive_all(p, raw, sizeof(raw), &file) && !frame_header_read(raw, &h, &err) &&
        h.type == MESSAGE_welcome && h.body_size <= sizeof(body) &&
        receive_all(p, body, h.body_size, &file))
        return true;
    peer_close(p);
    return false;
}
