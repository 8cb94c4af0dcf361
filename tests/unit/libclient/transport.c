/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "libclient/connection/transport_socket.h"
#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/test_descriptors.h"
#include "tests/support/test_files.h"
#include "tests/support/unix_socket.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct fixture {
    struct transport *transport;
    int peer;
    int same; /* a duplicate of the transport's descriptor */
    struct kiln_err err;
    struct transport_frame frame;
};

SET_UP(set_up)
{
    test_socket_pair(SOCK_STREAM, &f->same, &f->peer);
    must(transport_socket_adopt(dup(f->same), &f->transport, &f->err), f->err);
}

TEAR_DOWN(tear_down) { transport_destroy(f->transport); }

FIXTURE(transport, set_up, tear_down);

static uint64_t in_ms(unsigned ms) { return clock_monotonic_ns() + ms * 1000000ull; }

static enum kiln_code receive(struct fixture *f, unsigned ms)
{
    return f->transport->ops->receive(f->transport, in_ms(ms), &f->frame, &f->err);
}

static struct frame_header header(uint64_t id, size_t body, unsigned descriptors)
{
    return (struct frame_header){ .version = FRAME_VERSION,
                                  .type = MESSAGE_pong,
                                  .request_id = id,
                                  .body_size = (uint32_t)body,
                                  .descriptors = (uint16_t)descriptors };
}

TEST_F(transport, a_frame_may_come_byte_by_byte)
{
    static const uint8_t abc[] = { 'a', 'b', 'c' };
    uint8_t raw[FRAME_HEADER_SIZE + sizeof(abc)] = { 0 };
    struct frame_header h = header(7, sizeof(abc), 0);
    frame_header_write(raw, &h);
    memcpy(raw + FRAME_HEADER_SIZE, abc, sizeof(abc));
    for (size_t i = 0; i < sizeof(raw) - 1; i++) {
        assert_int_equal(send(f->peer, raw + i, 1, 0), 1);
        assert_int_equal(receive(f, 0), KILN_TIMED_OUT);
    }
    assert_int_equal(send(f->peer, raw + sizeof(raw) - 1, 1, 0), 1);

    must(receive(f, 1000), f->err);

    assert_int_equal(f->frame.header.request_id, 7);
    assert_true(bytes_equal_text(f->frame.body, "abc"));
}

TEST_F(transport, several_frames_may_come_at_once)
{
    for (uint64_t id = 1; id <= 20; id++) {
        struct frame_header h = header(id, 2, 0);
        fake_send(f->peer, &h, bytes_of("xy", 2), NULL, 0);
    }
    for (uint64_t id = 1; id <= 20; id++) {
        must(receive(f, 1000), f->err);
        assert_int_equal(f->frame.header.request_id, id);
    }
    assert_int_equal(receive(f, 0), KILN_TIMED_OUT);
}

struct push {
    int peer;
    size_t size;
};

static void *push_frames(void *argument)
{
    struct push *push = argument;
    uint8_t *body = calloc(1, push->size);
    for (uint64_t id = 1; id <= 3; id++) {
        struct frame_header h = header(id, push->size, 0);
        body[push->size - 1] = (uint8_t)id;
        fake_send(push->peer, &h, bytes_of(body, push->size), NULL, 0);
    }
    free(body);
    return NULL;
}

TEST_F(transport, frames_up_to_the_limit_are_read_whole)
{
    struct push push = { .peer = f->peer, .size = LIMIT_FRAME_BODY };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, push_frames, &push), 0);
    for (uint64_t id = 1; id <= 3; id++) {
        must(receive(f, 10000), f->err);
        assert_int_equal(f->frame.body.size, LIMIT_FRAME_BODY);
        assert_int_equal(f->frame.body.data[LIMIT_FRAME_BODY - 1], id);
    }
    await_thread(thread, NULL);
}

TEST_F(transport, larger_frames_are_refused_by_their_header)
{
    struct frame_header h = header(1, LIMIT_FRAME_BODY + 1u, 0);
    fake_send(f->peer, &h, bytes_of("", 0), NULL, 0);
    assert_int_equal(receive(f, 1000), KILN_CORRUPT);
    assert_says(f->err.text, "limit");
}

TEST_F(transport, descriptors_stay_with_their_frames)
{
    int first[2], second[2];
    assert_int_equal(pipe(first), 0);
    assert_int_equal(pipe(second), 0);
    struct frame_header h = header(1, 1, 2), plain = header(2, 1, 0), g = header(3, 1, 2);
    fake_send(f->peer, &h, bytes_of("a", 1), first, 2);
    fake_send(f->peer, &plain, bytes_of("b", 1), NULL, 0);
    fake_send(f->peer, &g, bytes_of("c", 1), second, 2);

    must(receive(f, 1000), f->err);
    assert_int_equal(f->frame.descriptor_count, 2);
    int taken = f->frame.descriptors[1];
    f->frame.descriptors[1] = -1;
    transport_frame_done(&f->frame);
    must(receive(f, 1000), f->err);
    assert_int_equal(f->frame.descriptor_count, 0);
    must(receive(f, 1000), f->err);
    assert_int_equal(f->frame.descriptor_count, 2);
    transport_frame_done(&f->frame);

    assert_int_equal(write(taken, "x", 1), 1);
    assert_true(fcntl(taken, F_GETFD) & FD_CLOEXEC);
    char got;
    assert_int_equal(read(first[0], &got, 1), 1);
    close(taken);
    for (int i = 0; i < 2; i++) {
        close(first[i]);
        close(second[i]);
    }
}

static void fill(struct fixture *f, size_t *ret_frames)
{
    static uint8_t raw[FRAME_HEADER_SIZE + 50000];
    *ret_frames = 0;
    while (!f->transport->ops->is_sending(f->transport)) {
        struct frame_header h = header(++*ret_frames, 50000, 0);
        frame_header_write(raw, &h);
        must(f->transport->ops->send(f->transport, bytes_of(raw, sizeof(raw)), &f->err), f->err);
    }
}

TEST_F(transport, a_full_socket_never_blocks_a_sender_and_is_drained_while_receiving)
{
    size_t frames;
    fill(f, &frames);
    assert_int_equal(receive(f, 0), KILN_TIMED_OUT);
    struct transport *other = NULL;
    must(transport_socket_adopt(dup(f->peer), &other, &f->err), f->err);

    size_t got = 0;
    while (got < frames) {
        struct transport_frame frame;
        must(other->ops->receive(other, in_ms(5000), &frame, &f->err), f->err);
        assert_int_equal(frame.header.request_id, ++got);
        if (f->transport->ops->is_sending(f->transport)) {
            enum kiln_code rc = receive(f, 0);
            assert_true(rc == KILN_BUSY || rc == KILN_TIMED_OUT);
        }
    }
    assert_false(f->transport->ops->is_sending(f->transport));
    transport_destroy(other);
}

static void *receive_in_a_thread(void *argument)
{
    struct fixture *f = argument;
    return (void *)(intptr_t)receive(f, WAIT_MAX_S * 1000);
}

TEST_F(transport, unsent_frames_are_sent_even_if_a_reader_was_already_asleep)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, receive_in_a_thread, f), 0);
    size_t frames;
    fill(f, &frames);

    static uint8_t sink[1 << 20];
    size_t left = frames * (FRAME_HEADER_SIZE + 50000);
    while (left) {
        ssize_t n = recv(f->peer, sink, sizeof(sink), 0);
        assert_true(n > 0);
        left -= (size_t)n;
    }

    void *rc;
    await_thread(thread, &rc);
    assert_int_equal((intptr_t)rc, KILN_BUSY);
}

TEST_F(transport, stop_ends_a_receive_in_progress)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, receive_in_a_thread, f), 0);
    f->transport->ops->stop(f->transport);
    void *rc;
    await_thread(thread, &rc);
    assert_int_equal((intptr_t)rc, KILN_UNAVAILABLE);
}

TEST_F(transport, the_other_sides_end_is_reported_to_senders_and_readers)
{
    close(f->peer);
    f->peer = -1;
    uint8_t raw[FRAME_HEADER_SIZE];
    struct frame_header h = header(1, 0, 0);
    frame_header_write(raw, &h);
    enum kiln_code rc = f->transport->ops->send(f->transport, bytes_of(raw, sizeof(raw)), &f->err);
    assert_int_equal(rc, KILN_UNAVAILABLE);
    assert_int_equal(receive(f, 1000), KILN_UNAVAILABLE);
    assert_says(f->err.text, "closed");
}

/* Opens a socket with this owner, group and mode, and lets another user connect to it. */
static void ask_as_another_user(uid_t owner, gid_t group, mode_t mode, struct kiln_err *ret_err)
{
    const char *directory = test_directory(), *path = test_path(directory, "s");
    struct kiln_err *shared = test_shared_memory(sizeof(*shared));
    assert_int_equal(chmod(directory, 0711), 0);
    int fd = unix_listen(SOCK_STREAM, path, 1);
    assert_int_equal(chmod(path, mode) || chown(path, owner, group), 0);
    pid_t child = fork();
    if (child == 0) {
        struct transport *none;
        if (setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
            setresuid(65534, 65534, 65534) < 0)
            _exit(1);
        _exit(transport_socket_connect(path, &none, shared) == KILN_DENIED ? 0 : 2);
    }
    int status = await_child(child);
    close(fd);
    assert_int_equal(status, 0);
    *ret_err = *shared;
}

TEST(plain, a_user_refused_by_the_socket_learns_the_group_to_join)
{
    struct kiln_err err;
    NEED_ROOT();
    ask_as_another_user(0, 1, 0660, &err); /* group 1 is "daemon" on every Linux */
    assert_says(err.text, "daemon USER");
    ask_as_another_user(0, 4000000000u, 0660, &err); /* no group has this number */
    assert_says(err.text, "'4000000000'");
}

TEST(plain, a_socket_that_is_roots_alone_needs_an_administrator)
{
    struct kiln_err err;
    NEED_ROOT();
    ask_as_another_user(0, 0, 0660, &err);
    assert_says(err.text, "root");
    assert_says(err.text, "groupadd");
    assert_null(strstr(err.text, "usermod -aG root"));
}

/* Ordinary users cannot start the host's kilnd. */
TEST(plain, a_user_without_a_kilnd_is_advised_to_start_one)
{
    struct kiln_err *shared = test_shared_memory(sizeof(*shared));
    pid_t child = fork();
    if (child == 0) {
        struct transport *none;
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
            _exit(1);
        unsetenv("XDG_RUNTIME_DIR");
        int rc = transport_socket_connect("/run/kiln/kiln-test-absent.sock", &none, shared);
        _exit(rc == KILN_UNAVAILABLE ? 0 : 2);
    }
    assert_int_equal(await_child(child), 0);
    assert_says(shared->text, "XDG_RUNTIME_DIR");
    assert_null(strstr(shared->text, "kilnd --socket"));
}

TEST(plain, a_socket_of_another_user_is_that_users_alone)
{
    struct kiln_err err;
    NEED_ROOT();
    ask_as_another_user(1234, 1234, 0600, &err);
    assert_says(err.text, "1234");
    assert_says(err.text, "KILN_SOCKET");
}

/* Returns a socket on which user |uid| listens. For clients, the user who called listen(2) is the
 * owner of the socket. */
static int listen_as(uid_t uid, const char *path)
{
    int fd = unix_bind(SOCK_STREAM, path);
    bool listens = seteuid(uid) == 0 && listen(fd, 4) == 0;
    assert_int_equal(seteuid(0), 0);
    assert_true(listens);
    return fd;
}

/* Nobody accepts, so the queue of new connections stays full. */
TEST(plain, a_connect_waits_for_a_place_in_a_full_queue)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct transport *first = NULL, *more = NULL;
    const char *path = test_path(test_directory(), "s");
    int fd = unix_listen(SOCK_STREAM, path, 0);
    must(transport_socket_connect(path, &first, &err), err); /* the queue has one place */

    uint64_t begun_ns = clock_monotonic_ns();
    assert_int_equal(transport_socket_connect(path, &more, &err), KILN_BUSY);

    assert_true(clock_monotonic_ns() - begun_ns >= TRANSPORT_CONNECT_MS * 1000000ull);
    transport_destroy(first);
    close(fd);
}

static enum kiln_code connect_found(const char *path, struct kiln_err *ret_err)
{
    struct transport *transport = NULL;
    *ret_err = KILN_ERR_INIT;
    enum kiln_code rc = transport_socket_connect_found(path, &transport, ret_err);
    transport_destroy(transport);
    return rc;
}

TEST(plain, a_socket_that_was_found_must_not_be_another_users)
{
    struct kiln_err err;
    struct transport *named = NULL;
    char directory[] = "/tmp/kiln-transport-XXXXXX", theirs[64], ours[64];
    NEED_ROOT();
    assert_non_null(mkdtemp(directory));
    snprintf(theirs, sizeof(theirs), "%s/theirs", directory);
    snprintf(ours, sizeof(ours), "%s/ours", directory);
    int fds[] = { listen_as(45678, theirs), listen_as(0, ours) };

    assert_int_equal(connect_found(theirs, &err), KILN_DENIED);
    assert_says(err.text, "45678");
    assert_says(err.text, "KILN_SOCKET");
    must(connect_found(ours, &err), err);
    must(transport_socket_connect(theirs, &named, &err), err);

    transport_destroy(named);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(unlink(theirs) || unlink(ours) || rmdir(directory), 0);
}

static enum kiln_code send_files(struct fixture *f, const int *files, size_t count)
{
    return f->transport->ops->send_files(f->transport, bytes_of("frame", 5), files, count, &f->err);
}

TEST_F(transport, files_go_with_the_first_byte)
{
    int ends[2];
    char control[CMSG_SPACE(4 * sizeof(int))] __attribute__((aligned(8)));
    char data[5];
    struct iovec iov = { data, sizeof(data) };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };
    assert_int_equal(pipe(ends), 0);
    must(send_files(f, ends, 2), f->err);
    close(ends[0]);
    close(ends[1]);
    assert_false(f->transport->ops->is_sending(f->transport));
    assert_int_equal(recvmsg(f->peer, &m, 0), 5);
    assert_memory_equal(data, "frame", 5);
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    assert_non_null(c);
    assert_int_equal(c->cmsg_len, CMSG_LEN(2 * sizeof(int)));
    memcpy(ends, CMSG_DATA(c), sizeof(ends));
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(read(ends[0], data, 1), 1);
    close(ends[0]);
    close(ends[1]);
}

TEST_F(transport, files_that_the_socket_cannot_take_now_are_not_sent_in_part)
{
    static const char filler[4096];
    while (send(f->same, filler, sizeof(filler), MSG_DONTWAIT) > 0)
        continue;
    while (send(f->same, filler, 1, MSG_DONTWAIT) > 0)
        continue;
    assert_int_equal(send_files(f, &f->peer, 1), KILN_BUSY);
    assert_says(f->err.text, "busy");
    assert_false(f->transport->ops->is_sending(f->transport));
}

TEST_F(transport, an_invalid_descriptor_is_not_sent)
{
    const int files[] = { f->peer, -1 };
    char byte;
    assert_int_equal(send_files(f, files, 2), KILN_INVALID);
    assert_int_equal(recv(f->peer, &byte, 1, MSG_DONTWAIT), -1);
}

TEST_F(transport, files_for_a_peer_that_is_gone_are_not_sent)
{
    int ends[2];
    close(f->peer);
    f->peer = -1;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(send_files(f, ends, 2), KILN_UNAVAILABLE);
    close(ends[0]);
    close(ends[1]);
}
