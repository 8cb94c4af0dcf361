/* SPDX-License-Identifier: MIT */
/* However the stream is split, the handler must get exactly the descriptors that its frame
 * announced, and the server must close all others. */
#include "common/base/cleanup.h"
#include "tests/support/child.h"
#include "tests/support/entries.h"
#include "tests/unit/daemon/session_fixture.h"

#include <fcntl.h>
#include <string.h>

#define REQUEST 7

/* The test sends the write end of a pipe. At the read end, it sees whether any process still
 * holds the write end. */
struct sent_pipe {
    int reading, writing;
};

static struct sent_pipe make_pipe(void)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    return (struct sent_pipe){ ends[0], ends[1] };
}

/* Waits until nobody holds the write ends, because a thread of the server closes them later. */
static void expect_closed(const struct sent_pipe *pipes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        await_no_writer(pipes[i].reading);
        close(pipes[i].reading);
    }
}

/* Sends |data| with the write ends of |pipes|, and closes the write ends here. */
static void send_pipes(int fd, struct bytes data, const struct sent_pipe *pipes, unsigned count)
{
    int files[8] = { 0 };
    for (unsigned i = 0; i < count; i++)
        files[i] = pipes[i].writing;
    send_files(fd, data.data, data.size, files, count);
    for (unsigned i = 0; i < count; i++)
        close(files[i]);
}

static void send_install(struct fixture *f, unsigned announced, const struct sent_pipe *pipes,
                         unsigned count)
{
    uint8_t raw[128];
    size_t size = put_install_frame(raw, REQUEST, "{}", announced);
    send_pipes(f->client, bytes_of(raw, size), pipes, count);
}

/* Sends a request that announces |announced| descriptors, but has |count| descriptors. The server
 * must refuse it with a message that contains |says|, and close the connection and all
 * descriptors. */
static void expect_refusal(struct fixture *f, unsigned announced, unsigned count, const char *says)
{
    struct sent_pipe sent[5];
    for (unsigned i = 0; i < count; i++)
        sent[i] = make_pipe();
    send_install(f, announced, sent, count);
    assert_refused(f, f->client, REQUEST, says);
    assert_true(is_closed(f, f->client));
    assert_int_equal(service.handled, 0);
    assert_true(server_counts(f->server).protocol_errors >= 1);
    expect_closed(sent, count);
}

TEST_F(session, a_requests_descriptors_are_closed_unless_the_handler_takes_them)
{
    struct sent_pipe sent[2] = { make_pipe(), make_pipe() };
    send_install(f, 2, sent, 2);
    receive_pong(f, f->client, REQUEST);
    assert_int_equal(service.file_count, 2);
    expect_closed(sent, 2);
    assert_int_equal(server_counts(f->server).protocol_errors, 0);
    expect_pong(f, f->client, 8);
    assert_int_equal(service.file_count, 0);
}

TEST_F(session, a_descriptor_that_the_handler_takes_stays_open_and_is_the_right_one)
{
    struct sent_pipe sent[2] = { make_pipe(), make_pipe() };
    service.takes_files = true;
    send_install(f, 2, sent, 2);
    receive_pong(f, f->client, REQUEST);
    char byte = 0;
    for (int i = 0; i < 2; i++) {
        assert_true(has_writer(sent[i].reading));
        assert_int_equal(write(service.files[i], &"ab"[i], 1), 1);
        assert_int_equal(read(sent[i].reading, &byte, 1), 1);
        assert_int_equal(byte, "ab"[i]);
        assert_true(fcntl(service.files[i], F_GETFD) & FD_CLOEXEC);
        close(service.files[i]);
        expect_closed(&sent[i], 1);
    }
}

TEST_F(session, a_frame_with_descriptors_may_be_split_anywhere)
{
    uint8_t raw[128];
    size_t size = put_install_frame(raw, REQUEST, "{\"a\":1}", 1);
    for (size_t cut = 1; cut < size; cut++) {
        struct sent_pipe sent = make_pipe();
        service.handled = 0;
        send_pipes(f->client, bytes_of(raw, cut), &sent, 1);
        IN_TIME(loop_iteration(f->loop));
        assert_int_equal(service.handled, 0);
        assert_true(has_writer(sent.reading)); /* the server keeps the descriptor for the frame */
        send_raw(f->client, raw + cut, size - cut);
        receive_pong(f, f->client, REQUEST);
        assert_int_equal(service.handled, 1);
        assert_int_equal(service.file_count, 1);
        expect_closed(&sent, 1);
    }
    assert_int_equal(server_counts(f->server).protocol_errors, 0);
}

TEST_F(session, descriptors_of_a_frame_do_not_reach_the_frames_before_and_after_it)
{
    struct sent_pipe sent = make_pipe();
    uint8_t before[64], after[64], raw[128];
    send_raw(f->client, before, put_frame(before, MESSAGE_ping, 1, "one", 3));
    size_t size = put_install_frame(raw, 2, "{}", 1);
    send_pipes(f->client, bytes_of(raw, size), &sent, 1);
    send_raw(f->client, after, put_frame(after, MESSAGE_ping, 3, "three", 5));

    for (uint64_t id = 1; id <= 3; id++)
        receive_pong(f, f->client, id);

    assert_int_equal(service.in_order, 3);
    assert_int_equal(service.file_count, 0);
    assert_int_equal(server_counts(f->server).protocol_errors, 0);
    expect_closed(&sent, 1);
}

TEST_F(session, descriptors_that_arrive_with_the_end_of_the_previous_frame_reach_the_next_one)
{
    struct sent_pipe sent = make_pipe();
    uint8_t before[64], raw[128];
    send_raw(f->client, before, put_frame(before, MESSAGE_ping, 1, "one", 3));
    size_t size = put_install_frame(raw, 2, "{}", 1);
    send_pipes(f->client, bytes_of(raw, 1), &sent, 1);
    receive_pong(f, f->client, 1);
    assert_int_equal(service.file_count, 0);
    assert_true(has_writer(sent.reading));
    send_raw(f->client, raw + 1, size - 1);
    receive_pong(f, f->client, 2);
    assert_int_equal(service.file_count, 1);
    expect_closed(&sent, 1);
}

TEST_F(session, a_request_without_its_announced_descriptors_is_refused)
{
    uint8_t raw[128];
    send_raw(f->client, raw, put_install_frame(raw, REQUEST, "{}", 2));
    assert_refused(f, f->client, REQUEST, "0 arrived");
    assert_true(is_closed(f, f->client));
    assert_int_equal(service.handled, 0);
    assert_int_equal(server_counts(f->server).protocol_errors, 1);
}

TEST(session, fewer_descriptors_than_announced_are_refused_and_closed)
{
    expect_refusal(*state, 2, 1, "1 arrived");
}

TEST_F(session, descriptors_sent_without_announcement_are_closed_and_the_request_handled)
{
    struct sent_pipe sent = make_pipe();
    send_install(f, 0, &sent, 1);
    receive_pong(f, f->client, REQUEST);
    assert_int_equal(service.file_count, 0);
    assert_int_equal(server_counts(f->server).protocol_errors, 1);
    expect_closed(&sent, 1);
}

TEST(session, more_descriptors_than_announced_are_refused_and_closed)
{
    expect_refusal(*state, 1, 2, "2 arrived");
}

TEST(session, more_descriptors_than_a_request_may_have_are_refused_and_closed)
{
    expect_refusal(*state, 5, 5, "most 2");
}

/* The server takes only as many descriptors as were announced, so their number alone does not
 * show the error. */
TEST(session, one_descriptor_above_the_announced_maximum_is_refused)
{
    expect_refusal(*state, 2, 3, "and more");
}

TEST_F(session, a_peer_that_floods_descriptors_holds_no_more_than_one_requests_share)
{
    uint8_t raw[128];
    size_t size = put_frame(raw, MESSAGE_ping, 1, "0123456789012345678901234567890", 31);
    unsigned before = descriptor_count(getpid());
    struct sent_pipe sent[20];
    for (size_t i = 0; i < 20; i++) {
        sent[i] = make_pipe();
        send_pipes(f->client, bytes_of(raw + i, 1), &sent[i], 1);
        IN_TIME(loop_iteration(f->loop));
    }
    for (size_t i = LIMIT_REQUEST_FILES; i < 20; i++)
        await_no_writer(sent[i].reading);
    send_raw(f->client, raw + 20, size - 20);
    receive_pong(f, f->client, 1);
    expect_closed(sent, 20);
    assert_int_equal(descriptor_count(getpid()), before);
}

TEST_F(session, a_client_that_leaves_mid_frame_leaves_no_descriptor_open)
{
    struct sent_pipe sent = make_pipe();
    uint8_t raw[128];
    KILN_AUTO(fd) int other = join_server(f);
    put_install_frame(raw, REQUEST, "{}", 1);
    send_pipes(other, bytes_of(raw, 10), &sent, 1);
    IN_TIME(loop_iteration(f->loop));
    assert_true(has_writer(sent.reading));
    close(other);
    other = -1;
    LOOP_UNTIL(f->loop, service.left != 0);
    expect_closed(&sent, 1);
}

TEST_F(session, descriptors_sent_with_bytes_that_are_not_a_frame_are_closed)
{
    struct sent_pipe sent = make_pipe();
    static const char junk[] = "this is not a frame, and never will be one";
    send_pipes(f->client, bytes_of(junk, sizeof(junk)), &sent, 1);
    assert_refused(f, f->client, 0, "not a kiln frame");
    assert_true(is_closed(f, f->client));
    expect_closed(&sent, 1);
}

TEST_F(session, descriptors_are_closed_if_their_request_ends_the_connection)
{
    struct sent_pipe sent = make_pipe();
    service.refuse = true;
    send_install(f, 1, &sent, 1);
    assert_true(is_closed(f, f->client));
    expect_closed(&sent, 1);
}
