/* SPDX-License-Identifier: MIT */
#include "tests/support/raw_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SILENCE_MOST_MS 10000

int raw_connect(const struct daemon_process *d)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    assert_true(strlen(d->socket) < sizeof(address.sun_path));
    strcpy(address.sun_path, d->socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

void raw_send(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size) {
        ssize_t put = send(fd, at, size, MSG_NOSIGNAL);
        assert_true(put > 0);
        at += put;
        size -= (size_t)put;
    }
}

void raw_send_frame(int fd, unsigned type, uint64_t id, struct bytes body)
{
    struct frame_header h = { .version = FRAME_VERSION,
                              .type = (uint16_t)type,
                              .request_id = id,
                              .body_size = (uint32_t)body.size };
    uint8_t raw[FRAME_HEADER_SIZE];
    frame_header_write(raw, &h);
    raw_send(fd, raw, sizeof(raw));
    if (body.size)
        raw_send(fd, body.data, body.size);
}

static void wait_readable(int fd, int most_ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    if (poll(&p, 1, most_ms) != 1)
        fail_msg("the daemon was silent for %d ms", most_ms);
}

static void take_descriptors(struct msghdr *m, struct raw_frame *frame)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(frame->fds + frame->fd_count, CMSG_DATA(c), count * sizeof(int));
        frame->fd_count += count;
    }
}

/* Exactly |size| bytes; false at the end of the stream. */
static bool receive_all(int fd, void *data, size_t size, struct raw_frame *frame)
{
    char *at = data;
    while (size) {
        union {
            char bytes[CMSG_SPACE(sizeof(int) * LIMIT_FRAME_DESCRIPTORS)];
            struct cmsghdr align;
        } control;
        struct iovec part = { at, size };
        struct msghdr m = { .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof(control) };
        wait_readable(fd, SILENCE_MOST_MS);
        ssize_t got = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return false;
        assert_true(got > 0);
        take_descriptors(&m, frame);
        at += got;
        size -= (size_t)got;
    }
    return true;
}

bool raw_receive(int fd, struct raw_frame *ret_frame)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    struct kiln_err err = KILN_ERR_INIT;
    ret_frame->fd_count = 0;
    if (!receive_all(fd, raw, sizeof(raw), ret_frame))
        return false;
    must(frame_header_read(raw, &ret_frame->header, &err), err);
    assert_true(ret_frame->header.body_size <= sizeof(ret_frame->body));
    return receive_all(fd, ret_frame->body, ret_frame->header.body_size, ret_frame);
}

int raw_greeted(const struct daemon_process *d)
{
    static struct raw_frame frame;
    struct message_hello m = { .oldest_version = FRAME_VERSION_OLDEST,
                               .newest_version = FRAME_VERSION,
                               .capabilities = CAPABILITIES_HERE };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 1000);
    message_hello_write(&b, &m);
    int fd = raw_connect(d);
    raw_send_frame(fd, MESSAGE_hello, 1, buffer_view(&b));
    assert_true(raw_receive(fd, &frame));
    assert_int_equal(frame.header.type, MESSAGE_welcome);
    return fd;
}

void raw_expect_closed(int fd, int most_ms)
{
    char spill[4096];
    for (;;) {
        wait_readable(fd, most_ms);
        ssize_t got = recv(fd, spill, sizeof(spill), 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return;
        assert_true(got > 0);
    }
}

void raw_expect_error(int fd, unsigned code, const char *says)
{
    static struct raw_frame frame;
    assert_true(raw_receive(fd, &frame));
    assert_int_equal(frame.header.type, MESSAGE_error);
    struct reader r = reader_of(bytes_of(frame.body, frame.header.body_size));
    struct message_error m = message_error_read(&r);
    assert_false(r.failed);
    KILN_AUTO(mem) char *text = bytes_to_text(m.text);
    assert_says(text, says);
    assert_int_equal(m.code, code);
}

void raw_expect_pong(int fd)
{
    static struct raw_frame frame;
    struct message_ping m = { .payload = bytes_of_text("still there?") };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    message_ping_write(&b, &m);
    raw_send_frame(fd, MESSAGE_ping, 99, buffer_view(&b));
    assert_true(raw_receive(fd, &frame));
    assert_int_equal(frame.header.type, MESSAGE_pong);
    assert_int_equal(frame.header.request_id, 99);
}
