/* SPDX-License-Identifier: MIT */
#include "common/base/fd_message.h"

#include "tests/support/test_descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    int ends[2];
    int pipe[2]; /* the write end is sent */
};

static void open_pipe(struct fixture *f) { test_pipe(O_NONBLOCK, &f->pipe[0], &f->pipe[1]); }

SET_UP(set_up)
{
    test_socket_pair(SOCK_SEQPACKET, &f->ends[0], &f->ends[1]);
    open_pipe(f);
}

FIXTURE(fd_message, set_up, NULL);

static void send_write_ends(struct fixture *f, size_t count)
{
    const int fds[] = { f->pipe[1], f->pipe[1], f->pipe[1] };
    assert_int_equal(fd_message_send(f->ends[0], bytes_of_text("job"), fds, count, 0), 3);
    fd_close(&f->pipe[1]);
}

static ssize_t receive(const struct fixture *f, int *fds, size_t max, int *flags)
{
    char text[8];
    struct iovec space = { text, sizeof(text) };
    return fd_message_receive(f->ends[1], space, fds, max, flags);
}

static bool is_pipe_closed(const struct fixture *f)
{
    char byte;
    return read(f->pipe[0], &byte, 1) == 0;
}

TEST_F(fd_message, sent_descriptors_arrive_and_close_on_exec)
{
    int fds[3], flags = 0;
    send_write_ends(f, 2);
    assert_int_equal(receive(f, fds, 3, &flags), 3);
    assert_int_equal(flags & (MSG_TRUNC | MSG_CTRUNC), 0);
    assert_int_equal(fds[2], -1);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    close(fds[0]);
    close(fds[1]);
}

TEST_F(fd_message, descriptors_beyond_the_expected_ones_are_closed_and_reported)
{
    for (size_t max = 0; max < 3; max++) {
        int fds[3], flags = 0;
        if (max > 0)
            open_pipe(f);
        send_write_ends(f, 3);
        assert_int_equal(receive(f, fds, max, &flags), 3);
        assert_true(flags & MSG_CTRUNC);
        for (size_t i = 0; i < max; i++)
            close(fds[i]);
        assert_true(is_pipe_closed(f));
        fd_close(&f->pipe[0]);
    }
}

TEST_F(fd_message, a_message_without_descriptors_brings_none)
{
    int fds[2], flags = MSG_DONTWAIT;
    assert_int_equal(receive(f, fds, 2, &flags), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(fds[0], -1);
    send_write_ends(f, 0);
    assert_int_equal(receive(f, fds, 2, &flags), 3);
    assert_int_equal(fds[0], -1);
}

TEST_F(fd_message, a_control_message_of_another_kind_is_not_taken_for_descriptors)
{
    FD_MESSAGE_SPACE(space, 1);
    int fd = -1;
    struct msghdr message = { .msg_iov = NULL };
    fd_message_put(&message, space, &f->pipe[1], 1);
    assert_int_equal(fd_message_take(&message, &fd, 1), 1);
    assert_int_equal(fd, f->pipe[1]);
    /* At the level IPPROTO_IP, the number of SCM_RIGHTS has another meaning. */
    CMSG_FIRSTHDR(&message)->cmsg_level = IPPROTO_IP;
    assert_int_equal(fd_message_take(&message, &fd, 1), 0);
    assert_false(is_pipe_closed(f));
}
