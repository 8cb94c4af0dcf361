/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/session_fixture.h"
#include "tests/support/unix_socket.h"
#include "tests/unit/daemon/loop_fixture.h"

#include "common/base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

struct fake_service service;

void service_join(struct engine *engine, struct caller *caller)
{
    (void)engine;
    (void)caller;
    service.joined++;
}

void service_leave(struct engine *engine, struct caller *caller)
{
    (void)engine;
    service.left++;
    if (service.waiting == caller)
        service.waiting = NULL;
}

void send_answer(struct caller *caller, uint64_t id, enum message_type type, struct bytes body,
                 struct object *object)
{
    struct object *objects[] = { object };
    const struct reply reply = { .type = type,
                                 .request_id = id,
                                 .body = body,
                                 .objects = objects,
                                 .object_count = object ? 1 : 0 };
    caller->ops->reply(caller, &reply);
}

static void note_files(struct caller *caller)
{
    service.file_count = caller->file_count;
    for (unsigned i = 0; i < caller->file_count; i++) {
        service.files[i] = service.takes_files ? caller->files[i] : -1;
        if (service.takes_files)
            caller->files[i] = -1;
    }
}

enum kiln_code service_handle(struct engine *engine, struct caller *caller,
                              const struct frame_header *header, struct bytes body,
                              struct kiln_err *err)
{
    static const uint8_t zeros[1u << 20];
    (void)engine;
    service.handled++;
    service.in_order += header->request_id == service.last_id + 1;
    service.last_id = header->request_id;
    service.last_body = body.size;
    note_files(caller);
    if (service.handling)
        service.handling();
    if (service.refuse)
        return kiln_fail(err, KILN_INVALID, "say hello first");
    switch (header->type) {
    case MESSAGE_hello: caller->greeted = true; break;
    case MESSAGE_fetch:
        send_answer(caller, header->request_id, MESSAGE_kernels, body, service.object);
        break;
    case MESSAGE_plan: /* answered when the test says so */
        caller->in_flight++;
        service.waiting = caller;
        service.waiting_id = header->request_id;
        break;
    default:
        if (service.reply_size)
            body = bytes_of(zeros, service.reply_size);
        send_answer(caller, header->request_id, MESSAGE_pong, body, NULL);
        break;
    }
    return KILN_OK;
}

void answer_deferred_request(void)
{
    struct caller *caller = service.waiting;
    service.waiting = NULL;
    send_answer(caller, service.waiting_id, MESSAGE_planned, bytes_of("done", 4), NULL);
    caller->in_flight--;
}

struct object *object_ref(struct object *object)
{
    service.references++;
    return object;
}

struct object *object_unref(struct object *object)
{
    service.references -= object ? 1 : 0;
    return NULL;
}

int connect_to_server(struct fixture *f)
{
    return unix_connect(SOCK_STREAM | SOCK_NONBLOCK, f->path);
}

int join_server(struct fixture *f)
{
    unsigned before = service.joined;
    int fd = connect_to_server(f);
    LOOP_UNTIL(f->loop, service.joined != before);
    return fd;
}

size_t put_frame(uint8_t *raw, enum message_type type, uint64_t id, const void *body, size_t size)
{
    const struct frame_header header = {
        .version = FRAME_VERSION, .type = type, .request_id = id, .body_size = (uint32_t)size
    };
    frame_header_write(raw, &header);
    if (size)
        memcpy(raw + FRAME_HEADER_SIZE, body, size);
    return FRAME_HEADER_SIZE + size;
}

size_t put_install_frame(uint8_t *raw, uint64_t id, const char *body, unsigned descriptors)
{
    const struct frame_header header = { .version = FRAME_VERSION,
                                         .type = MESSAGE_package_install,
                                         .request_id = id,
                                         .body_size = (uint32_t)strlen(body),
                                         .descriptors = (uint16_t)descriptors };
    frame_header_write(raw, &header);
    memcpy(raw + FRAME_HEADER_SIZE, body, header.body_size);
    return FRAME_HEADER_SIZE + header.body_size;
}

void send_raw(int fd, const void *data, size_t size)
{
    assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), (ssize_t)size);
}

void send_files(int fd, const void *data, size_t size, const int *files, unsigned count)
{
    char control[CMSG_SPACE(8 * sizeof(int))] __attribute__((aligned(8))) = { 0 };
    struct iovec iov = { (void *)(uintptr_t)data, size };
    struct msghdr m = { .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = control,
                        .msg_controllen = CMSG_SPACE(count * sizeof(int)) };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    assert_true(count > 0 && count <= 8);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(c), files, count * sizeof(int));
    assert_int_equal(sendmsg(fd, &m, MSG_NOSIGNAL), (ssize_t)size);
}

void send_request(int fd, enum message_type type, uint64_t id, const char *body)
{
    uint8_t raw[256];
    send_raw(fd, raw, put_frame(raw, type, id, body, strlen(body)));
}

/* Receives what has arrived. Returns true when all bytes are there or the connection has ended. */
static bool has_received(int fd, void *data, size_t size, size_t *got)
{
    while (*got < size) {
        ssize_t n = recv(fd, (char *)data + *got, size - *got, MSG_DONTWAIT);
        if (n <= 0)
            return n == 0 || errno != EAGAIN;
        *got += (size_t)n;
    }
    return true;
}

size_t receive_bytes(struct fixture *f, int fd, void *data, size_t size)
{
    size_t got = 0;
    LOOP_UNTIL(f->loop, has_received(fd, data, size, &got));
    return got;
}

struct frame_header receive_header(struct fixture *f, int fd)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    struct frame_header header = { 0 };
    assert_int_equal(receive_bytes(f, fd, raw, sizeof(raw)), sizeof(raw));
    assert_int_equal(frame_header_read(raw, &header, &f->err), KILN_OK);
    return header;
}

void receive_pong(struct fixture *f, int fd, uint64_t id)
{
    char body[1024];
    struct frame_header header = receive_header(f, fd);
    assert_int_equal(header.type, MESSAGE_pong);
    assert_int_equal(header.request_id, id);
    assert_true(header.body_size <= sizeof(body));
    assert_int_equal(receive_bytes(f, fd, body, header.body_size), header.body_size);
}

void expect_pong(struct fixture *f, int fd, uint64_t id)
{
    send_request(fd, MESSAGE_ping, id, "");
    receive_pong(f, fd, id);
}

bool is_closed(struct fixture *f, int fd)
{
    char byte;
    return receive_bytes(f, fd, &byte, 1) == 0;
}

void assert_refused(struct fixture *f, int fd, uint64_t id, const char *words)
{
    uint8_t body[1024];
    struct frame_header header = receive_header(f, fd);
    assert_int_equal(header.type, MESSAGE_error);
    assert_int_equal(header.request_id, id);
    assert_int_equal(receive_bytes(f, fd, body, header.body_size), header.body_size);
    assert_non_null(memmem(body, header.body_size, words, strlen(words)));
}

static void on_closed(void *context) { ((struct fixture *)context)->closed = true; }

static struct server_limits limits_of_test(void)
{
    struct server_limits limits = SERVER_LIMITS_DEFAULT;
    limits.connections = 6;
    limits.connections_per_uid = 4;
    limits.full_ms = 0; /* a user at the limit is refused at once */
    return limits;
}

void open_server(struct fixture *f)
{
    struct server_limits limits = limits_of_test();
    *f = (struct fixture){ .directory = test_directory(), .err = KILN_ERR_INIT };
    memset(&service, 0, sizeof(service));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &f->descriptors), 0);
    snprintf(f->path, sizeof(f->path), "%s/kilnd.sock", f->directory);
    f->loop = open_loop();
    assert_int_equal(listener_open(f->path, "", &f->listener, &f->err), KILN_OK);
    assert_int_equal(closer_create(&CLOSER_LIMITS_DEFAULT, &f->closer, &f->err), KILN_OK);
    const struct server_options options = {
        .loop = f->loop, .listener = &f->listener, .closer = f->closer, .limits = &limits
    };
    assert_int_equal(server_create(&options, &f->server, &f->err), KILN_OK);
    f->object.fd = memfd_create("object", MFD_CLOEXEC);
    assert_int_equal(write(f->object.fd, "code", 4), 4);
    service.object = &f->object;
    f->client = join_server(f);
}

void close_server(struct fixture *f)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &f->descriptors), 0);
    close(f->client);
    server_drop_sessions(f->server);
    server_close(f->server, on_closed, f);
    LOOP_TO_END(f->loop, "the server to close");
    assert_true(f->closed);
    assert_int_equal(service.left, service.joined);
    assert_int_equal(service.references, 0);
    closer_destroy(f->closer);
    listener_close(&f->listener);
    close(f->object.fd);
}
