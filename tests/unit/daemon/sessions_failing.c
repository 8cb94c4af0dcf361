/* SPDX-License-Identifier: MIT */
/* In each test, an allocation or a socket call fails for one connection. That connection must end
 * with a reason, and the other connections must continue. */
#include "tests/support/failing_calls.h"
#include "tests/unit/daemon/session_fixture.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void expect_others_served(struct fixture *f) { expect_pong(f, f->client, 77); }

TEST_F(session, a_connection_that_cannot_be_accepted_gets_a_reason)
{
    static const struct {
        const char *call, *says;
        int error;
    } cases[] = {
        { "calloc", "no memory", ENOMEM },
        { "getsockopt", "user of", EIO },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fail_call(cases[i].call, 1, cases[i].error);
        int fd = connect_to_server(f);
        assert_refused(f, fd, 0, cases[i].says);
        assert_true(calls_failed());
        assert_true(is_closed(f, fd));
        close(fd);
        assert_int_equal(server_counts(f->server).connections_refused, i + 1);
        expect_others_served(f);
    }
}

TEST_F(session, a_request_without_memory_is_refused)
{
    static const uint8_t body[10000];
    uint8_t raw[FRAME_HEADER_SIZE + sizeof(body)];
    size_t size = put_frame(raw, MESSAGE_ping, 5, body, sizeof(body));
    int fd = join_server(f);
    fail_calls("realloc", ENOMEM);
    send_raw(fd, raw, size / 2);
    assert_refused(f, fd, 0, "no memory");
    assert_true(calls_failed());
    assert_true(is_closed(f, fd));
    close(fd);
    expect_others_served(f);
}

TEST_F(session, a_connection_that_breaks_is_closed)
{
    static const char *const calls[] = { "recvmsg", "send", "sendmsg" };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        int fd = join_server(f);
        fail_call(calls[i], i == 1 ? 2 : 1, ECONNRESET);
        send_request(fd, i == 2 ? MESSAGE_fetch : MESSAGE_ping, 5, "x");
        LOOP_UNTIL(f->loop, service.left >= i + 1);
        assert_true(calls_failed());
        close(fd);
        expect_others_served(f);
    }
}

TEST_F(session, an_interrupted_call_is_repeated)
{
    static const char *const calls[] = { "recvmsg", "sendmsg" };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fail_call(calls[i], 1, EINTR);
        send_request(f->client, MESSAGE_fetch, 9, "x");
        struct frame_header header = receive_header(f, f->client);
        char body;
        assert_int_equal(header.request_id, 9);
        assert_int_equal(receive_bytes(f, f->client, &body, 1), 1);
        assert_true(calls_failed());
    }
}

/* The kernel limits the descriptors in flight. */
TEST_F(session, a_descriptor_that_cannot_be_sent_now_is_sent_later)
{
    char body;
    fail_call("sendmsg", 1, ETOOMANYREFS);
    send_request(f->client, MESSAGE_fetch, 9, "x");
    struct frame_header header = receive_header(f, f->client);
    assert_true(calls_failed());
    assert_int_equal(header.request_id, 9);
    assert_int_equal(header.descriptors, 1);
    assert_int_equal(receive_bytes(f, f->client, &body, 1), 1);
}
