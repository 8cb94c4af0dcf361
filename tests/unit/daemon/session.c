/* SPDX-License-Identifier: MIT */
#include "common/base/cleanup.h"
#include "tests/support/child.h"
#include "tests/unit/daemon/session_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#define PINGS_MAX 64

TEST_F(session, a_frame_that_comes_byte_by_byte_is_handled_once)
{
    uint8_t raw[64];
    size_t size = put_frame(raw, MESSAGE_ping, 7, "payload", 7);

    for (size_t i = 0; i < size; i++) {
        assert_int_equal(service.handled, 0);
        send_raw(f->client, raw + i, 1);
        IN_TIME(loop_iteration(f->loop));
    }

    struct frame_header header = receive_header(f, f->client);
    assert_int_equal(service.handled, 1);
    assert_int_equal(service.last_body, 7);
    assert_int_equal(header.type, MESSAGE_pong);
    assert_int_equal(header.request_id, 7);
}

TEST_F(session, many_frames_in_one_write_are_answered_in_order)
{
    uint8_t raw[PINGS_MAX * 64];
    size_t size = 0;
    for (uint64_t id = 1; id <= PINGS_MAX; id++)
        size += put_frame(raw + size, MESSAGE_ping, id, "x", 1);

    send_raw(f->client, raw, size);

    for (uint64_t id = 1; id <= PINGS_MAX; id++) {
        char body;
        assert_int_equal(receive_header(f, f->client).request_id, id);
        assert_int_equal(receive_bytes(f, f->client, &body, 1), 1);
    }
    assert_int_equal(service.in_order, PINGS_MAX);
}

TEST_F(session, a_frame_may_be_split_anywhere)
{
    uint8_t raw[128];
    size_t first = put_frame(raw, MESSAGE_ping, 1, "one", 3);
    size_t size = first + put_frame(raw + first, MESSAGE_ping, 2, "three", 5);
    for (size_t cut = 1; cut < size; cut++) {
        service.handled = 0;
        send_raw(f->client, raw, cut);
        IN_TIME(loop_iteration(f->loop));
        send_raw(f->client, raw + cut, size - cut);
        uint8_t back[128];
        assert_int_equal(receive_bytes(f, f->client, back, size), size);
        assert_int_equal(service.handled, 2);
    }
}

static bool has_sent(int fd, struct bytes all, size_t *sent)
{
    ssize_t n = send(fd, all.data + *sent, all.size - *sent, MSG_NOSIGNAL);
    *sent += n > 0 ? (size_t)n : 0;
    return *sent == all.size;
}

TEST_F(session, a_body_of_the_largest_size_arrives_whole_and_is_freed)
{
    size_t size = FRAME_HEADER_SIZE + LIMIT_FRAME_BODY;
    KILN_AUTO(mem) uint8_t *raw = calloc(1, size);
    put_frame(raw, MESSAGE_hello, 1, NULL, 0);
    const struct frame_header header = { .version = FRAME_VERSION,
                                         .type = MESSAGE_hello,
                                         .request_id = 1,
                                         .body_size = LIMIT_FRAME_BODY };
    frame_header_write(raw, &header);
    size_t sent = 0;
    LOOP_UNTIL(f->loop, has_sent(f->client, bytes_of(raw, size), &sent));
    LOOP_UNTIL(f->loop, service.handled != 0);

    assert_int_equal(service.last_body, LIMIT_FRAME_BODY);
    assert_int_equal(first_session(f)->account->bytes, 0);
}

TEST_F(session, a_frame_beyond_the_limit_is_refused_and_the_connection_closed)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    const struct frame_header header = {
        .version = FRAME_VERSION, .type = MESSAGE_ping, .request_id = 42, .body_size = 100u << 20
    };
    frame_header_write(raw, &header);

    send_raw(f->client, raw, sizeof(raw));

    assert_refused(f, f->client, 42, "limit");
    assert_true(is_closed(f, f->client));
    assert_int_equal(service.handled, 0);
    assert_int_equal(server_counts(f->server).protocol_errors, 1);
}

TEST_F(session, bytes_that_are_not_a_frame_are_refused_and_close_the_connection)
{
    const char text[] = "GET / HTTP/1.1\r\nHost: kilnd\r\n\r\n";

    send_raw(f->client, text, sizeof(text));

    assert_refused(f, f->client, 0, "not a kiln frame");
    assert_true(is_closed(f, f->client));
}

TEST_F(session, a_request_that_announces_descriptors_is_refused)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    const struct frame_header header = { .type = MESSAGE_fetch, .request_id = 3, .descriptors = 1 };
    frame_header_write(raw, &header);
    send_raw(f->client, raw, sizeof(raw));
    assert_refused(f, f->client, 3, "0 arrived");
    assert_true(is_closed(f, f->client));
}

TEST_F(session, the_connection_is_closed_when_the_service_refuses_a_request)
{
    service.refuse = true;
    send_request(f->client, MESSAGE_ping, 1, "");
    assert_true(is_closed(f, f->client));
    assert_int_equal(service.left, 1);
}

TEST_F(session, descriptors_of_a_ping_are_closed)
{
    int pipe_ends[2];
    uint8_t raw[64];
    assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
    size_t size = put_frame(raw, MESSAGE_ping, 1, "", 0);

    send_files(f->client, raw, size, &pipe_ends[1], 1);
    close(pipe_ends[1]);
    assert_int_equal(receive_header(f, f->client).type, MESSAGE_pong);

    await_no_writer(pipe_ends[0]);
    assert_int_equal(server_counts(f->server).protocol_errors, 1);
    close(pipe_ends[0]);
}

/* Reads one byte. Returns the descriptor that came with it, or -1. */
static int take_descriptor(int fd, uint8_t *byte)
{
    union {
        struct cmsghdr align;
        char buffer[CMSG_SPACE(sizeof(int))];
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

TEST_F(session, an_object_comes_with_the_first_byte_of_its_frame)
{
    send_request(f->client, MESSAGE_fetch, 1, "body");
    LOOP_UNTIL(f->loop, service.handled != 0);

    uint8_t raw[FRAME_HEADER_SIZE];
    char content[4];
    KILN_AUTO(fd) int passed = take_descriptor(f->client, raw);

    assert_true(passed >= 0);
    assert_int_equal(pread(passed, content, 4, 0), 4);
    assert_memory_equal(content, "code", 4);
    assert_int_equal(receive_bytes(f, f->client, raw + 1, sizeof(raw) - 1), sizeof(raw) - 1);
    struct frame_header header;
    assert_int_equal(frame_header_read(raw, &header, &f->err), KILN_OK);
    assert_int_equal(header.descriptors, 1);
}

/* The first reply is too large for the socket. Two small replies, and one with an object between
 * them, must wait for it. */
TEST_F(session, queued_replies_keep_their_order_and_their_objects)
{
    service.reply_size = 1u << 20;
    send_request(f->client, MESSAGE_ping, 1, "");
    LOOP_UNTIL(f->loop, service.handled != 0);
    service.reply_size = 0;
    send_answer(&first_session(f)->caller, 2, MESSAGE_pong, bytes_of("ab", 2), NULL);
    send_answer(&first_session(f)->caller, 3, MESSAGE_kernels, bytes_of("cd", 2), &f->object);
    send_answer(&first_session(f)->caller, 4, MESSAGE_pong, bytes_of("ef", 2), NULL);
    assert_int_equal(service.references, 1);

    KILN_AUTO(mem) uint8_t *big = malloc(1u << 20);
    assert_int_equal(receive_header(f, f->client).request_id, 1);
    assert_int_equal(receive_bytes(f, f->client, big, 1u << 20), 1u << 20);
    assert_int_equal(receive_header(f, f->client).request_id, 2);
    assert_int_equal(receive_bytes(f, f->client, big, 2), 2);
    uint8_t raw[FRAME_HEADER_SIZE];
    KILN_AUTO(fd) int passed = take_descriptor(f->client, raw);
    assert_true(passed >= 0);
    assert_int_equal(receive_bytes(f, f->client, raw + 1, sizeof(raw) - 1), sizeof(raw) - 1);
    assert_int_equal(receive_bytes(f, f->client, big, 2), 2);
    assert_int_equal(receive_header(f, f->client).request_id, 4);
    assert_int_equal(service.references, 0);
}

static void answer_with_segments(struct caller *caller, uint64_t id, struct object *object)
{
    const struct segment segments[] = { { 1, object }, { 1, object }, { 3, object } };
    const struct reply reply = { .type = MESSAGE_kernels,
                                 .request_id = id,
                                 .body = bytes_of("abcd", 4),
                                 .segments = segments,
                                 .segment_count = 3 };
    caller->ops->reply(caller, &reply);
}

/* The body of the reply must be "a", the object twice, "bc", the object once more, and "d". */
static void expect_segments(struct fixture *f, uint64_t id, const struct object *object)
{
    size_t size = 4 + 3 * object->size;
    KILN_AUTO(mem) uint8_t *body = malloc(size);
    struct frame_header header = receive_header(f, f->client);
    assert_int_equal(header.request_id, id);
    assert_int_equal(header.body_size, size);
    assert_int_equal(receive_bytes(f, f->client, body, size), size);
    const uint8_t *at = body;
    assert_int_equal(*at++, 'a');
    assert_memory_equal(at, object->data, object->size);
    assert_memory_equal(at + object->size, object->data, object->size);
    at += 2 * object->size;
    assert_memory_equal(at, "bc", 2);
    assert_memory_equal(at + 2, object->data, object->size);
    assert_int_equal(at[2 + object->size], 'd');
}

TEST_F(session, segments_arrive_in_their_places_and_are_referenced_only_while_queued)
{
    static uint8_t pattern[1000003]; /* larger than a socket buffer */
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (uint8_t)(i * 31 >> 3);
    struct object small = { .data = pattern, .size = 5 };
    struct object large = { .data = pattern, .size = sizeof(pattern) };
    struct caller *caller = &first_session(f)->caller;

    answer_with_segments(caller, 1, &small);
    assert_int_equal(service.references, 0);
    answer_with_segments(caller, 2, &large);
    answer_with_segments(caller, 3, &small);
    send_answer(caller, 4, MESSAGE_pong, bytes_of("ef", 2), NULL);
    assert_int_equal(service.references, 6);
    assert_true(first_session(f)->outbox.bytes > 2 * sizeof(pattern));

    expect_segments(f, 1, &small);
    expect_segments(f, 2, &large);
    expect_segments(f, 3, &small);
    assert_int_equal(receive_header(f, f->client).request_id, 4);
    assert_int_equal(service.references, 0);
    assert_int_equal(first_session(f)->outbox.bytes, 0);
}

TEST_F(session, callers_are_identified_by_the_credentials_of_their_socket)
{
    const struct caller *caller = &first_session(f)->caller;
    assert_int_equal(caller->uid, geteuid());
    assert_int_equal(caller->pid, getpid());
    assert_int_equal(caller->role, ROLE_ADMIN);
}
