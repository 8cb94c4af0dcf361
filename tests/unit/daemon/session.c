/* SPDX-License-Identifier: MIT */
#include "daemon/server/server.h"

#include "common/cleanup.h"
#include "daemon/workers/temp_folder.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define PINGS_MOST 64

/* A service that counts, and answers as the request's type says. */
static struct {
    unsigned joined, left, handled;
    size_t last_body;
    unsigned in_order; /* requests whose id was one more than the last one's */
    uint64_t last_id;
    struct caller *waiting; /* who asked for something that is answered later */
    uint64_t waiting_id;
    size_t reply_size; /* of the answer to a ping; 0: as long as the ping */
    struct object *object;
    bool refuse;
} service;

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

static void answer(struct caller *caller, uint64_t id, enum message_type type, struct bytes body,
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
    if (service.refuse)
        return kiln_fail(err, KILN_INVALID, "say hello first");
    switch (header->type) {
    case MESSAGE_hello: caller->greeted = true; break;
    case MESSAGE_fetch:
        answer(caller, header->request_id, MESSAGE_kernels, body, service.object);
        break;
    case MESSAGE_plan: /* answered when the test says so */
        caller->in_flight++;
        service.waiting = caller;
        service.waiting_id = header->request_id;
        break;
    default:
        if (service.reply_size)
            body = bytes_of(zeros, service.reply_size);
        answer(caller, header->request_id, MESSAGE_pong, body, NULL);
        break;
    }
    return KILN_OK;
}

static void answer_the_waiting(void)
{
    struct caller *caller = service.waiting;
    service.waiting = NULL;
    answer(caller, service.waiting_id, MESSAGE_planned, bytes_of("done", 4), NULL);
    caller->in_flight--;
}

static unsigned references;

struct object *object_ref(struct object *object)
{
    references++;
    return object;
}

struct object *object_unref(struct object *object)
{
    references -= object ? 1 : 0;
    return NULL;
}

struct fixture {
    char folder[64];
    char path[100];
    struct loop *loop;
    struct listener listener;
    struct server *server;
    struct object object;
    int client;
    bool closed;
    struct kiln_err err;
};

/* ---- client's side ---- */

static int dial(struct fixture *f)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static int join(struct fixture *f)
{
    unsigned before = service.joined;
    int fd = dial(f);
    while (service.joined == before)
        loop_turn(f->loop);
    return fd;
}

static size_t put_frame(uint8_t *raw, enum message_type type, uint64_t id, const void *body,
                        size_t size)
{
    const struct frame_header header = {
        .version = FRAME_VERSION, .type = type, .request_id = id, .body_size = (uint32_t)size
    };
    frame_header_write(raw, &header);
    if (size)
        memcpy(raw + FRAME_HEADER_SIZE, body, size);
    return FRAME_HEADER_SIZE + size;
}

static void send_raw(int fd, const void *data, size_t size)
{
    assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), (ssize_t)size);
}

static void ask(int fd, enum message_type type, uint64_t id, const char *body)
{
    uint8_t raw[256];
    send_raw(fd, raw, put_frame(raw, type, id, body, strlen(body)));
}

/* Turns the loop until |size| bytes came or the connection ended; how many came. */
static size_t take(struct fixture *f, int fd, void *data, size_t size)
{
    size_t got = 0;
    while (got < size) {
        ssize_t n = recv(fd, (char *)data + got, size - got, MSG_DONTWAIT);
        if (n > 0)
            got += (size_t)n;
        else if (n == 0 || errno != EAGAIN)
            break;
        else
            loop_turn(f->loop);
    }
    return got;
}

static struct frame_header take_header(struct fixture *f, int fd)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    struct frame_header header = { 0 };
    assert_int_equal(take(f, fd, raw, sizeof(raw)), sizeof(raw));
    assert_int_equal(frame_header_read(raw, &header, &f->err), KILN_OK);
    return header;
}

static bool is_closed(struct fixture *f, int fd)
{
    char byte;
    return take(f, fd, &byte, 1) == 0;
}

static void assert_refused(struct fixture *f, int fd, uint64_t id, const char *words)
{
    uint8_t body[1024];
    struct frame_header header = take_header(f, fd);
    assert_int_equal(header.type, MESSAGE_error);
    assert_int_equal(header.request_id, id);
    assert_int_equal(take(f, fd, body, header.body_size), header.body_size);
    assert_non_null(memmem(body, header.body_size, words, strlen(words)));
}

/* ---- fixture ---- */

static void on_closed(void *context) { ((struct fixture *)context)->closed = true; }

static struct server_limits limits_of_test(void)
{
    struct server_limits limits = SERVER_LIMITS_DEFAULT;
    limits.connections = 6;
    limits.connections_per_uid = 4;
    return limits;
}

static int set_up(void **state)
{
    static struct fixture f;
    struct server_limits limits = limits_of_test();
    f = (struct fixture){ .folder = "/tmp/kiln_session_XXXXXX", .err = KILN_ERR_INIT };
    memset(&service, 0, sizeof(service));
    references = 0;
    assert_non_null(mkdtemp(f.folder));
    snprintf(f.path, sizeof(f.path), "%s/kilnd.sock", f.folder);
    assert_int_equal(loop_create(&f.loop, &f.err), KILN_OK);
    assert_int_equal(listener_open(f.path, "", &f.listener, &f.err), KILN_OK);
    assert_int_equal(server_create(f.loop, NULL, &f.listener, &limits, &f.server, &f.err), KILN_OK);
    f.object.fd = memfd_create("object", MFD_CLOEXEC);
    assert_int_equal(write(f.object.fd, "code", 4), 4);
    service.object = &f.object;
    f.client = join(&f);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    close(f->client);
    server_drop_sessions(f->server);
    server_close(f->server, on_closed, f);
    loop_run(f->loop);
    assert_true(f->closed);
    assert_int_equal(service.left, service.joined);
    assert_int_equal(references, 0);
    loop_destroy(f->loop);
    listener_close(&f->listener);
    close(f->object.fd);
    temp_folder_remove(f->folder);
    return 0;
}

/* ---- tests ---- */

static void a_frame_that_comes_byte_by_byte_is_handled_once(void **state)
{
    struct fixture *f = *state;
    uint8_t raw[64];
    size_t size = put_frame(raw, MESSAGE_ping, 7, "payload", 7);

    for (size_t i = 0; i < size; i++) {
        assert_int_equal(service.handled, 0);
        send_raw(f->client, raw + i, 1);
        loop_turn(f->loop);
    }

    struct frame_header header = take_header(f, f->client);
    assert_int_equal(service.handled, 1);
    assert_int_equal(service.last_body, 7);
    assert_int_equal(header.type, MESSAGE_pong);
    assert_int_equal(header.request_id, 7);
}

static void many_frames_in_one_write_are_answered_in_order(void **state)
{
    struct fixture *f = *state;
    uint8_t raw[PINGS_MOST * 64];
    size_t size = 0;
    for (uint64_t id = 1; id <= PINGS_MOST; id++)
        size += put_frame(raw + size, MESSAGE_ping, id, "x", 1);

    send_raw(f->client, raw, size);

    for (uint64_t id = 1; id <= PINGS_MOST; id++) {
        char body;
        assert_int_equal(take_header(f, f->client).request_id, id);
        assert_int_equal(take(f, f->client, &body, 1), 1);
    }
    assert_int_equal(service.in_order, PINGS_MOST);
}

static void a_frame_split_anywhere_is_put_together(void **state)
{
    struct fixture *f = *state;
    uint8_t raw[128];
    size_t first = put_frame(raw, MESSAGE_ping, 1, "one", 3);
    size_t size = first + put_frame(raw + first, MESSAGE_ping, 2, "three", 5);
    for (size_t cut = 1; cut < size; cut++) {
        service.handled = 0;
        send_raw(f->client, raw, cut);
        loop_turn(f->loop);
        send_raw(f->client, raw + cut, size - cut);
        uint8_t back[128];
        assert_int_equal(take(f, f->client, back, size), size);
        assert_int_equal(service.handled, 2);
    }
}

static void a_body_of_the_largest_size_arrives_whole_and_is_given_back(void **state)
{
    struct fixture *f = *state;
    size_t size = FRAME_HEADER_SIZE + LIMIT_FRAME_BODY;
    KILN_AUTO(mem) uint8_t *raw = calloc(1, size);
    put_frame(raw, MESSAGE_hello, 1, NULL, 0);
    const struct frame_header header = { .version = FRAME_VERSION,
                                         .type = MESSAGE_hello,
                                         .request_id = 1,
                                         .body_size = LIMIT_FRAME_BODY };
    frame_header_write(raw, &header);
    for (size_t sent = 0; sent < size;) {
        ssize_t n = send(f->client, raw + sent, size - sent, MSG_NOSIGNAL);
        if (n > 0)
            sent += (size_t)n;
        else
            loop_turn(f->loop);
    }
    while (service.handled == 0)
        loop_turn(f->loop);

    assert_int_equal(service.last_body, LIMIT_FRAME_BODY);
    assert_int_equal(f->server->sessions->account->bytes, 0);
}

static void a_frame_beyond_the_limit_is_refused_and_the_connection_closed(void **state)
{
    struct fixture *f = *state;
    uint8_t raw[FRAME_HEADER_SIZE];
    const struct frame_header header = {
        .version = FRAME_VERSION, .type = MESSAGE_ping, .request_id = 42, .body_size = 100u << 20
    };
    frame_header_write(raw, &header);

    send_raw(f->client, raw, sizeof(raw));

    assert_refused(f, f->client, 42, "exceeds the limit");
    assert_true(is_closed(f, f->client));
    assert_int_equal(service.handled, 0);
    assert_int_equal(server_counts(f->server).protocol_errors, 1);
}

static void what_is_not_a_frame_is_refused_and_the_connection_closed(void **state)
{
    struct fixture *f = *state;
    const char text[] = "GET / HTTP/1.1\r\nHost: kilnd\r\n\r\n";

    send_raw(f->client, text, sizeof(text));

    assert_refused(f, f->client, 0, "not a kiln frame");
    assert_true(is_closed(f, f->client));
}

static void a_request_that_announces_descriptors_is_refused(void **state)
{
    struct fixture *f = *state;
    uint8_t raw[FRAME_HEADER_SIZE];
    const struct frame_header header = { .type = MESSAGE_fetch, .request_id = 3, .descriptors = 1 };
    frame_header_write(raw, &header);
    send_raw(f->client, raw, sizeof(raw));
    assert_refused(f, f->client, 3, "requests have none");
    assert_true(is_closed(f, f->client));
}

static void the_connection_is_closed_when_the_service_says_so(void **state)
{
    struct fixture *f = *state;
    service.refuse = true;
    ask(f->client, MESSAGE_ping, 1, "");
    assert_true(is_closed(f, f->client));
    assert_int_equal(service.left, 1);
}

static void send_with_descriptor(int fd, const void *data, size_t size, int passed)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec iov = { (void *)(uintptr_t)data, size };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &passed, sizeof(int));
    assert_int_equal(sendmsg(fd, &m, MSG_NOSIGNAL), (ssize_t)size);
}

static void descriptors_that_nobody_asked_for_are_closed(void **state)
{
    struct fixture *f = *state;
    int pipe_ends[2];
    uint8_t raw[64];
    char byte;
    assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
    size_t size = put_frame(raw, MESSAGE_ping, 1, "", 0);

    send_with_descriptor(f->client, raw, size, pipe_ends[1]);
    close(pipe_ends[1]);
    assert_int_equal(take_header(f, f->client).type, MESSAGE_pong);

    assert_int_equal(read(pipe_ends[0], &byte, 1), 0); /* no writer is left anywhere */
    assert_int_equal(server_counts(f->server).protocol_errors, 1);
    close(pipe_ends[0]);
}

/* Reads one byte and the descriptor that came with it; -1 when none came. */
static int take_descriptor(int fd, uint8_t *byte)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec iov = { byte, 1 };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    assert_int_equal(recvmsg(fd, &m, MSG_CMSG_CLOEXEC), 1);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    int passed = -1;
    if (c)
        memcpy(&passed, CMSG_DATA(c), sizeof(int));
    return passed;
}

static void an_object_comes_with_the_first_byte_of_its_frame(void **state)
{
    struct fixture *f = *state;
    ask(f->client, MESSAGE_fetch, 1, "body");
    while (service.handled == 0)
        loop_turn(f->loop);

    uint8_t raw[FRAME_HEADER_SIZE];
    char content[4];
    KILN_AUTO(fd) int passed = take_descriptor(f->client, raw);

    assert_true(passed >= 0);
    assert_int_equal(pread(passed, content, 4, 0), 4);
    assert_memory_equal(content, "code", 4);
    assert_int_equal(take(f, f->client, raw + 1, sizeof(raw) - 1), sizeof(raw) - 1);
    struct frame_header header;
    assert_int_equal(frame_header_read(raw, &header, &f->err), KILN_OK);
    assert_int_equal(header.descriptors, 1);
}

/* Small replies, replies with an object and big ones, all behind a socket that is full. */
static void queued_replies_keep_their_order_and_their_objects(void **state)
{
    struct fixture *f = *state;
    service.reply_size = 1u << 20;
    ask(f->client, MESSAGE_ping, 1, "");
    while (service.handled == 0)
        loop_turn(f->loop);
    service.reply_size = 0;
    answer(&f->server->sessions->caller, 2, MESSAGE_pong, bytes_of("ab", 2), NULL);
    answer(&f->server->sessions->caller, 3, MESSAGE_kernels, bytes_of("cd", 2), &f->object);
    answer(&f->server->sessions->caller, 4, MESSAGE_pong, bytes_of("ef", 2), NULL);
    assert_int_equal(references, 1);

    KILN_AUTO(mem) uint8_t *big = malloc(1u << 20);
    assert_int_equal(take_header(f, f->client).request_id, 1);
    assert_int_equal(take(f, f->client, big, 1u << 20), 1u << 20);
    assert_int_equal(take_header(f, f->client).request_id, 2);
    assert_int_equal(take(f, f->client, big, 2), 2);
    uint8_t raw[FRAME_HEADER_SIZE];
    KILN_AUTO(fd) int passed = take_descriptor(f->client, raw);
    assert_true(passed >= 0);
    assert_int_equal(take(f, f->client, raw + 1, sizeof(raw) - 1), sizeof(raw) - 1);
    assert_int_equal(take(f, f->client, big, 2), 2);
    assert_int_equal(take_header(f, f->client).request_id, 4);
    assert_int_equal(references, 0);
}

/* Sends pings until the server stops reading them; how many replies are owed. */
static void fill(struct fixture *f, int fd)
{
    uint8_t raw[64];
    size_t size = put_frame(raw, MESSAGE_ping, 1, "", 0);
    struct session *s = f->server->sessions;
    while (s->watch.events & WATCH_READ) {
        send_raw(fd, raw, size);
        loop_turn(f->loop);
    }
}

static void a_peer_that_never_reads_is_not_read_and_does_not_block_others(void **state)
{
    struct fixture *f = *state;
    service.reply_size = 256u << 10;
    fill(f, f->client);
    unsigned handled = service.handled;
    ask(f->client, MESSAGE_ping, 2, "");
    service.reply_size = 0;

    KILN_AUTO(fd) int other = join(f);
    ask(other, MESSAGE_ping, 9, "");

    assert_int_equal(take_header(f, other).request_id, 9);
    assert_int_equal(service.handled, handled + 1);
}

static void a_peer_that_never_reads_is_closed_after_its_time(void **state)
{
    struct fixture *f = *state;
    service.reply_size = 256u << 10;
    fill(f, f->client);
    struct session *s = f->server->sessions;
    s->caller.greeted = true;

    server_check_times(f->server, s->moved_ms + 30000);
    loop_turn(f->loop);
    assert_int_equal(server_counts(f->server).clients, 1);
    server_check_times(f->server, s->moved_ms + 30001);
    while (service.left == 0)
        loop_turn(f->loop);

    assert_int_equal(server_counts(f->server).slow_peers_closed, 1);
    assert_int_equal(server_counts(f->server).clients, 0);
}

static void a_peer_that_reads_again_is_read_again(void **state)
{
    struct fixture *f = *state;
    service.reply_size = 256u << 10;
    fill(f, f->client);
    size_t owed = service.handled * (FRAME_HEADER_SIZE + service.reply_size);
    KILN_AUTO(mem) uint8_t *all = malloc(owed);

    assert_int_equal(take(f, f->client, all, owed), owed);
    ask(f->client, MESSAGE_ping, 77, "");

    assert_int_equal(take_header(f, f->client).request_id, 77);
}

static void a_peer_that_does_not_finish_its_frame_is_closed(void **state)
{
    struct fixture *f = *state;
    struct session *s = f->server->sessions;
    s->caller.greeted = true;
    send_raw(f->client, "KILN", 4);
    while (!inbox_is_partial(&s->inbox))
        loop_turn(f->loop);
    uint64_t began = s->frame_ms;
    send_raw(f->client, "x", 1); /* more of it does not buy more time */
    loop_turn(f->loop);

    server_check_times(f->server, began + 30001);

    assert_true(is_closed(f, f->client));
    assert_int_equal(server_counts(f->server).slow_peers_closed, 1);
}

static void a_peer_that_does_not_say_hello_is_closed(void **state)
{
    struct fixture *f = *state;
    struct session *s = f->server->sessions;
    server_check_times(f->server, s->joined_ms + 10001);
    assert_true(is_closed(f, f->client));
    assert_int_equal(server_counts(f->server).slow_peers_closed, 1);
}

static void a_peer_that_said_hello_may_rest_for_ever(void **state)
{
    struct fixture *f = *state;
    struct session *s = f->server->sessions;
    ask(f->client, MESSAGE_hello, 1, "");
    while (!s->caller.greeted)
        loop_turn(f->loop);
    server_check_times(f->server, s->joined_ms + 86400000);
    ask(f->client, MESSAGE_ping, 2, "");
    assert_int_equal(take_header(f, f->client).request_id, 2);
}

static void a_user_with_too_many_connections_is_refused_with_the_setting_s_name(void **state)
{
    struct fixture *f = *state;
    int more[3];
    for (int i = 0; i < 3; i++)
        more[i] = join(f);

    KILN_AUTO(fd) int fifth = dial(f);

    assert_refused(f, fifth, 0, "connections_per_uid");
    assert_true(is_closed(f, fifth));
    assert_int_equal(server_counts(f->server).connections_refused, 1);
    for (int i = 0; i < 3; i++)
        close(more[i]);
}

static void a_user_cannot_hold_more_bytes_than_allowed(void **state)
{
    struct fixture *f = *state;
    f->server->sessions->account->limit = 64u << 10;
    uint8_t raw[FRAME_HEADER_SIZE];
    static const uint8_t zeros[32u << 10];
    const struct frame_header header = { .type = MESSAGE_ping,
                                         .request_id = 5,
                                         .body_size = 1u << 20 };
    frame_header_write(raw, &header);
    send_raw(f->client, raw, sizeof(raw));
    for (unsigned left = service.left, i = 0; i < 3 && service.left == left; i++) {
        send(f->client, zeros, sizeof(zeros), MSG_NOSIGNAL);
        loop_turn(f->loop);
    }
    assert_refused(f, f->client, 5, "the limit");
    assert_true(is_closed(f, f->client));
}

static void a_peer_that_goes_leaves_the_service(void **state)
{
    struct fixture *f = *state;
    ask(f->client, MESSAGE_plan, 1, "");
    while (!service.waiting)
        loop_turn(f->loop);

    shutdown(f->client, SHUT_RDWR);
    while (service.left == 0)
        loop_turn(f->loop);

    assert_null(service.waiting);
    assert_int_equal(server_counts(f->server).clients, 0);
}

static void draining_answers_what_was_asked_and_then_closes(void **state)
{
    struct fixture *f = *state;
    KILN_AUTO(fd) int idle = join(f);
    ask(f->client, MESSAGE_plan, 8, "");
    while (!service.waiting)
        loop_turn(f->loop);

    server_drain(f->server);

    assert_true(is_closed(f, idle));
    assert_false(server_is_empty(f->server));
    answer_the_waiting();
    char body[4];
    assert_int_equal(take_header(f, f->client).request_id, 8);
    assert_int_equal(take(f, f->client, body, 4), 4);
    assert_true(is_closed(f, f->client));
    assert_true(server_is_empty(f->server));
}

static void callers_are_known_by_what_the_kernel_says(void **state)
{
    struct fixture *f = *state;
    const struct caller *caller = &f->server->sessions->caller;
    assert_int_equal(caller->uid, geteuid());
    assert_int_equal(caller->pid, getpid());
    assert_int_equal(caller->role, ROLE_ADMIN); /* our own user */
}

#define SESSION_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SESSION_TEST(a_frame_that_comes_byte_by_byte_is_handled_once),
        SESSION_TEST(many_frames_in_one_write_are_answered_in_order),
        SESSION_TEST(a_frame_split_anywhere_is_put_together),
        SESSION_TEST(a_body_of_the_largest_size_arrives_whole_and_is_given_back),
        SESSION_TEST(a_frame_beyond_the_limit_is_refused_and_the_connection_closed),
        SESSION_TEST(what_is_not_a_frame_is_refused_and_the_connection_closed),
        SESSION_TEST(a_request_that_announces_descriptors_is_refused),
        SESSION_TEST(the_connection_is_closed_when_the_service_says_so),
        SESSION_TEST(descriptors_that_nobody_asked_for_are_closed),
        SESSION_TEST(an_object_comes_with_the_first_byte_of_its_frame),
        SESSION_TEST(queued_replies_keep_their_order_and_their_objects),
        SESSION_TEST(a_peer_that_never_reads_is_not_read_and_does_not_block_others),
        SESSION_TEST(a_peer_that_never_reads_is_closed_after_its_time),
        SESSION_TEST(a_peer_that_reads_again_is_read_again),
        SESSION_TEST(a_peer_that_does_not_finish_its_frame_is_closed),
        SESSION_TEST(a_peer_that_does_not_say_hello_is_closed),
        SESSION_TEST(a_peer_that_said_hello_may_rest_for_ever),
        SESSION_TEST(a_user_with_too_many_connections_is_refused_with_the_setting_s_name),
        SESSION_TEST(a_user_cannot_hold_more_bytes_than_allowed),
        SESSION_TEST(a_peer_that_goes_leaves_the_service),
        SESSION_TEST(draining_answers_what_was_asked_and_then_closes),
        SESSION_TEST(callers_are_known_by_what_the_kernel_says),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
