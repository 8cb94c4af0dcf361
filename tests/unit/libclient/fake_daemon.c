/* SPDX-License-Identifier: MIT */
#include "tests/unit/libclient/fake_daemon.h"

#include "common/base/fs.h"
#include "tests/support/test.h"
#include "tests/support/unix_socket.h"
#include "tests/support/wait.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static void send_all(int peer, struct bytes data)
{
    while (data.size) {
        ssize_t n = send(peer, data.data, data.size, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* the client is gone */
        data = bytes_of(data.data + n, data.size - (size_t)n);
    }
}

void fake_send(int peer, const struct frame_header *header, struct bytes body, const int *fds,
               size_t fd_count)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    frame_header_write(raw, header);
    struct iovec iov[] = { { raw, sizeof(raw) }, { (void *)body.data, body.size } };
    struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(LIMIT_FRAME_DESCRIPTORS * sizeof(int))];
    } control;
    if (fd_count) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.room;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
    }
    ssize_t n = sendmsg(peer, &message, MSG_NOSIGNAL);
    if (n < (ssize_t)sizeof(raw))
        return;
    size_t sent = (size_t)n - sizeof(raw);
    send_all(peer, bytes_of(body.data + sent, body.size - sent));
}

void fake_reply_files(const struct fake_request *rq, uint16_t type, uint16_t flags,
                      struct bytes body, struct fake_files files)
{
    struct frame_header header = { .version = FRAME_VERSION,
                                   .type = type,
                                   .request_id = rq->header.request_id,
                                   .body_size = (uint32_t)body.size,
                                   .descriptors = (uint16_t)files.count,
                                   .flags = flags };
    if (rq->daemon->stopping)
        header.flags |= FRAME_STOPPING;
    fake_send(rq->peer, &header, body, files.fds, files.count);
}

void fake_reply(const struct fake_request *rq, uint16_t type, uint16_t flags, struct bytes body)
{
    fake_reply_files(rq, type, flags, body, (struct fake_files){ .fds = NULL });
}

void fake_pong(struct fake_request *rq) { fake_reply(rq, MESSAGE_pong, 0, rq->body); }

void fake_reply_error(const struct fake_request *rq, enum kiln_code code, const char *text,
                      const char *log)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, LIMIT_FRAME_BODY);
    struct message_error m = { .code = (uint16_t)code,
                               .text = bytes_of_text(text),
                               .log = bytes_of_text(log) };
    message_error_write(&body, &m);
    fake_reply(rq, MESSAGE_error, 0, buffer_view(&body));
}

void fake_result_add(struct fake_results *o, const struct message_result *result)
{
    if (!o->records.limit)
        buffer_init(&o->records, LIMIT_FRAME_BODY);
    message_result_write(&o->records, result);
    o->count++;
}

void fake_results_reply(struct fake_results *o, const struct fake_request *rq, uint16_t flags,
                        const int *fds, size_t fd_count)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, LIMIT_FRAME_BODY);
    struct message_kernels m = { .count = o->count, .results = buffer_view(&o->records) };
    message_kernels_write(&body, &m);
    assert(!body.failed);
    fake_reply_files(rq, MESSAGE_kernels, flags, buffer_view(&body),
                     (struct fake_files){ fds, fd_count });
    buffer_done(&o->records);
    o->count = 0;
}

struct message_result fake_inline_result(uint32_t index, const struct digest *key,
                                         struct bytes content)
{
    return (struct message_result){ .index = index,
                                    .tier = TIER_HOT,
                                    .descriptor = NO_DESCRIPTOR,
                                    .key = *key,
                                    .size = content.size,
                                    .spent_ns = 5,
                                    .content = content };
}

struct digest fake_key(unsigned seed)
{
    struct digest d = { { 0 } };
    for (size_t i = 0; i < 8; i++)
        d.bytes[i] = (uint8_t)(seed >> (8 * (i % 4)));
    d.bytes[31] = 1;
    return d;
}

int fake_memfd(struct bytes content, bool sealed)
{
    struct kiln_err err = KILN_ERR_INIT;
    int fd;
    must(fs_memfd("fake", &fd, &err), err);
    must(fs_write_all(fd, content, &err), err);
    if (sealed)
        must(fs_seal(fd, &err), err);
    return fd;
}

static void greet(struct fake_request *rq)
{
    struct fake_daemon *d = rq->daemon;
    if (d->silent)
        return;
    if (d->refusal) {
        fake_reply_error(rq, d->refused ? d->refused : KILN_UNSUPPORTED, d->refusal, NULL);
        return;
    }
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 4096);
    struct message_welcome m = {
        .version = d->version ? d->version : FRAME_VERSION,
        .capabilities = d->without_inline ? 0 : CAPABILITIES_HERE,
        .pid = 4711,
        .role = ROLE_ADMIN,
        .max_body = LIMIT_FRAME_BODY,
        .max_in_flight = d->max_in_flight ? d->max_in_flight : LIMIT_REQUESTS_IN_FLIGHT,
        .software = bytes_of_text("fake 9"),
    };
    message_welcome_write(&body, &m);
    fake_reply(rq, MESSAGE_welcome, 0, buffer_view(&body));
}

static bool read_all(int peer, void *to, size_t size)
{
    return size == 0 || recv(peer, to, size, MSG_WAITALL) == (ssize_t)size;
}

static bool read_header(struct fake_request *rq, uint8_t raw[FRAME_HEADER_SIZE])
{
    char control[CMSG_SPACE(sizeof(rq->files))] __attribute__((aligned(8)));
    struct iovec iov = { raw, FRAME_HEADER_SIZE };
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };
    if (recvmsg(rq->peer, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != FRAME_HEADER_SIZE)
        return false;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_type == SCM_RIGHTS) {
        rq->file_count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(rq->files, CMSG_DATA(c), rq->file_count * sizeof(int));
    }
    return true;
}

static void close_files(struct fake_request *rq)
{
    while (rq->file_count > 0)
        close(rq->files[--rq->file_count]);
}

static bool serve_one(struct fake_daemon *d, int *peer)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    struct kiln_err err = KILN_ERR_INIT;
    struct fake_request rq = { .daemon = d, .peer = *peer };
    if (!read_header(&rq, raw) || frame_header_read(raw, &rq.header, &err))
        return false;
    KILN_AUTO(mem) uint8_t *body = malloc(rq.header.body_size + 1);
    if (!read_all(*peer, body, rq.header.body_size)) {
        close_files(&rq);
        return false;
    }
    rq.body = bytes_of(body, rq.header.body_size);
    if (rq.header.type == MESSAGE_hello) {
        greet(&rq);
    } else if (rq.header.type == MESSAGE_cancel) {
        atomic_fetch_add(&d->cancels, 1);
    } else {
        atomic_fetch_add(&d->requests, 1);
        d->handle(&rq);
    }
    close_files(&rq);
    return rq.peer >= 0;
}

void fake_hang_up(struct fake_request *rq) { rq->peer = -1; }

static void drop_peer(struct fake_daemon *d, unsigned i)
{
    close(d->peers[i]);
    d->peers[i] = d->peers[--d->peer_count];
}

static void *serve(void *argument)
{
    struct fake_daemon *d = argument;
    for (;;) {
        struct pollfd fds[FAKE_PEERS_MAX + 2] = { { .fd = d->stop_fd, .events = POLLIN },
                                                  { .fd = d->listener, .events = POLLIN } };
        unsigned count = d->peer_count;
        for (unsigned i = 0; i < count; i++)
            fds[i + 2] = (struct pollfd){ .fd = d->peers[i], .events = POLLIN };
        if (!await_work(fds, count + 2))
            return NULL;
        for (unsigned i = count; i-- > 0;)
            if (fds[i + 2].revents && !serve_one(d, &d->peers[i]))
                drop_peer(d, i);
        if (fds[1].revents && d->peer_count < FAKE_PEERS_MAX) {
            d->peers[d->peer_count++] = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC);
            atomic_fetch_add(&d->connections, 1);
        }
    }
}

static void kill_at_end(void *daemon) { fake_daemon_kill(daemon); }

void fake_daemon_start(struct fake_daemon *d)
{
    if (!d->path[0])
        snprintf(d->path, sizeof(d->path), "%s/kilnd.sock", test_directory());
    test_at_end(kill_at_end, d);
    unlink(d->path);
    d->listener = unix_listen(SOCK_STREAM, d->path, 128);
    d->stop_fd = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(pthread_create(&d->thread, NULL, serve, d), 0);
    d->running = true;
}

void fake_daemon_kill(struct fake_daemon *d)
{
    if (!d->running)
        return;
    uint64_t one = 1;
    assert_int_equal(write(d->stop_fd, &one, sizeof(one)), sizeof(one));
    await_thread(d->thread, NULL);
    close(d->listener);
    close(d->stop_fd);
    while (d->peer_count)
        drop_peer(d, d->peer_count - 1);
    d->running = false;
}

struct kiln_client *fake_client(const struct fake_daemon *d)
{
    struct kiln_client_options options = { .size = sizeof(options),
                                           .socket_path = d->path,
                                           .timeout_ms = WAIT_MAX_S * 1000,
                                           .name = "test" };
    struct kiln_client *client = NULL;
    struct kiln_error err;
    must(kiln_client_open(&options, &client, &err), err);
    return client;
}

static void close_client(void *client)
{
    struct kiln_client **place = client;
    kiln_client_close(KILN_TAKE(*place));
}

void fake_daemon_serve(struct fake_daemon *d, void (*handle)(struct fake_request *), void *context,
                       struct kiln_client **ret_client)
{
    d->handle = handle;
    d->context = context;
    fake_daemon_start(d);
    *ret_client = fake_client(d);
    test_at_end(close_client, ret_client);
}
