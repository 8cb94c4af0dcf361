/* SPDX-License-Identifier: MIT */
#include "tests/support/raw_client.h"

#include "tests/support/unix_socket.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* how long kilnd may send nothing; long enough for sanitizers on a loaded machine */
#define SILENCE_MAX_MS 60000

int raw_connect(const struct daemon_process *d) { return unix_connect(SOCK_STREAM, d->socket); }

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

void raw_send_files(int fd, const struct raw_message *message, const int *files, unsigned count)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * LIMIT_FRAME_DESCRIPTORS)];
        struct cmsghdr align;
    } control = { { 0 } };
    struct frame_header h = { .version = FRAME_VERSION,
                              .type = (uint16_t)message->type,
                              .request_id = message->id,
                              .body_size = (uint32_t)message->body.size,
                              .descriptors = (uint16_t)message->announced };
    uint8_t raw[FRAME_HEADER_SIZE];
    frame_header_write(raw, &h);
    struct iovec part = { raw, sizeof(raw) };
    struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
    if (count > 0) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), files, count * sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &m, MSG_NOSIGNAL), sizeof(raw));
    if (message->body.size > 0)
        raw_send(fd, message->body.data, message->body.size);
}

void raw_send_source(int fd, uint64_t id, const char *target, const char *options,
                     struct bytes source)
{
    struct message_fetch_source m = { .target = bytes_of_text(target),
                                      .program = bytes_of_text("k.hip"),
                                      .options = bytes_of_text(options),
                                      .source = source };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, source.size + 4096);
    message_fetch_source_write(&b, &m);
    assert_false(b.failed);
    raw_send_frame(fd, MESSAGE_fetch_source, id, buffer_view(&b));
}

static void wait_readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    if (poll(&p, 1, SILENCE_MAX_MS) != 1)
        fail_msg("the daemon was silent for %d ms", SILENCE_MAX_MS);
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

/* Receives |size| bytes, and adds received descriptors to |frame|. Returns false at the end of
 * the stream. */
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
        wait_readable(fd);
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

void raw_close_descriptors(struct raw_frame *frame)
{
    while (frame->fd_count)
        close(frame->fds[--frame->fd_count]);
}

enum kiln_code raw_refusal(const struct raw_frame *frame, char text[512])
{
    struct reader r = reader_of(bytes_of(frame->body, frame->header.body_size));
    struct bytes why = { 0 };
    unsigned code = KILN_OK;
    if (frame->header.type == MESSAGE_error) {
        struct message_error m = message_error_read(&r);
        code = m.code;
        why = m.text;
    } else if (frame->header.type == MESSAGE_kernels) {
        struct message_kernels m = message_kernels_read(&r);
        struct reader list = reader_of(m.results);
        struct message_result o = message_result_read(&list);
        assert_false(list.failed);
        code = o.code;
        why = o.text;
    }
    assert_false(r.failed);
    snprintf(text, 512, "%.*s", (int)why.size, (const char *)why.data);
    return (enum kiln_code)code;
}

bool raw_greets(int fd)
{
    static struct raw_frame frame;
    struct message_hello m = { .oldest_version = FRAME_VERSION_OLDEST,
                               .newest_version = FRAME_VERSION,
                               .capabilities = CAPABILITIES_HERE };
    uint8_t raw[FRAME_HEADER_SIZE];
    BUFFER_AUTO struct buffer body, all;
    buffer_init(&body, 1000);
    buffer_init(&all, 1000 + sizeof(raw));
    message_hello_write(&body, &m);
    frame_header_write(raw, &(struct frame_header){ .version = FRAME_VERSION,
                                                    .type = MESSAGE_hello,
                                                    .request_id = 1,
                                                    .body_size = (uint32_t)body.size });
    buffer_put(&all, raw, sizeof(raw));
    buffer_put(&all, body.data, body.size);
    return send(fd, all.data, all.size, MSG_NOSIGNAL) == (ssize_t)all.size &&
           raw_receive(fd, &frame) && frame.header.type == MESSAGE_welcome;
}

static int greet(int fd)
{
    assert_true(raw_greets(fd));
    return fd;
}

int raw_greeted(const struct daemon_process *d) { return greet(raw_connect(d)); }

static void close_client(void *client) { fd_auto(client); }

static void stop_kilnd(void *d)
{
    if (((struct daemon_process *)d)->pid)
        assert_int_equal(daemon_process_stop(d), 0);
}

void raw_serve(struct daemon_process *d, const char *const *arguments, int *client)
{
    daemon_process_open(d, arguments);
    test_at_end(stop_kilnd, d);
    *client = raw_greeted(d);
    test_at_end(close_client, client);
}

/* Runs in a child process: becomes user |uid|, connects to kilnd, and sends the connection to
 * the test over the socket |way|. */
static void connect_as(const struct daemon_process *d, uid_t uid, int way)
{
    if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
        _exit(1);
    int fd = unix_try_connect(SOCK_STREAM, d->socket);
    if (fd < 0)
        _exit(1);
    raw_send_files(way, &(struct raw_message){ MESSAGE_ping, 0, (struct bytes){ 0 }, 1 }, &fd, 1);
    _exit(0);
}

int raw_connect_as(const struct daemon_process *d, uid_t uid)
{
    static struct raw_frame frame;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        connect_as(d, uid, ends[1]);
    close(ends[1]);
    int status = wait_program(pid);
    if (status)
        fail_msg("user %u does not get to '%s'", (unsigned)uid, d->socket);
    assert_true(raw_receive(ends[0], &frame));
    assert_int_equal(frame.fd_count, 1);
    close(ends[0]);
    return frame.fds[0];
}

int raw_greeted_as(const struct daemon_process *d, uid_t uid)
{
    return greet(raw_connect_as(d, uid));
}

void raw_expect_closed(int fd)
{
    char spill[4096];
    for (;;) {
        wait_readable(fd);
        ssize_t got = recv(fd, spill, sizeof(spill), 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return;
        assert_true(got > 0);
    }
}

void raw_expect_error(int fd, unsigned code, const char *says)
{
    static struct raw_frame frame;
    char text[512];
    assert_true(raw_receive(fd, &frame));
    assert_int_equal(frame.header.type, MESSAGE_error);
    assert_int_equal(raw_refusal(&frame, text), code);
    assert_says(text, says);
}

struct json *raw_ask(int fd, enum message_type type, const char *body)
{
    static struct raw_frame frame;
    struct kiln_err err = KILN_ERR_INIT;
    struct json *answer = NULL;
    raw_send_frame(fd, type, 98, bytes_of_text(body));
    assert_true(raw_receive(fd, &frame));
    assert_int_equal(frame.header.type, MESSAGE_json);
    must(json_parse(bytes_of(frame.body, frame.header.body_size), "answer", &answer, &err), err);
    return answer;
}

void raw_receive_last(int fd, struct raw_frame *ret_frame)
{
    for (;;) {
        assert_true(raw_receive(fd, ret_frame));
        if (!(ret_frame->header.flags & FRAME_MORE))
            return;
        raw_close_descriptors(ret_frame);
    }
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
