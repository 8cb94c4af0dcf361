/* SPDX-License-Identifier: MIT */
#include "daemon/server/request_files.h"
#include "tests/support/child.h"
#include "tests/support/test_descriptors.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    struct closer *closer;
    struct request_files files;
    int ends[2];
    int reading;
    int writing[16]; /* copies of the pipe's write end; -1 once sent */
};

SET_UP(set_up)
{
    struct kiln_err err = KILN_ERR_INIT;
    must(closer_create(&CLOSER_LIMITS_DEFAULT, &f->closer, &err), err);
    must(closer_join(f->closer, 0, &err), err);
    request_files_init(&f->files, f->closer, 0);
    test_socket_pair(SOCK_STREAM, &f->ends[0], &f->ends[1]);
    test_pipe(0, &f->reading, &f->writing[0]);
    for (size_t i = 1; i < 16; i++)
        f->writing[i] = fcntl(f->writing[0], F_DUPFD_CLOEXEC, 0);
}

static void close_copies(struct fixture *f)
{
    for (size_t i = 0; i < 16; i++)
        fd_close(&f->writing[i]);
}

TEAR_DOWN(tear_down)
{
    request_files_drop(&f->files);
    close_copies(f);
    await_no_writer(f->reading);
    closer_leave(f->closer, 0);
    closer_destroy(f->closer);
}

FIXTURE(files, set_up, tear_down);

/* Sends |count| copies of the pipe's write end and closes them here, so that only the message in
 * the socket still holds them. */
static void send_copies(struct fixture *f, unsigned count)
{
    char control[CMSG_SPACE(16 * sizeof(int))] __attribute__((aligned(8))) = { 0 };
    char one = 1;
    struct iovec iov = { &one, 1 };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
    int fds[16];
    unsigned found = 0;
    for (size_t i = 0; i < 16 && found < count; i++) {
        if (f->writing[i] < 0)
            continue;
        fds[found++] = f->writing[i];
        f->writing[i] = -1;
    }
    assert_int_equal(found, count);
    if (count) {
        m.msg_control = control;
        m.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    assert_int_equal(sendmsg(f->ends[0], &m, MSG_NOSIGNAL), 1);
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
}

static bool receive_message(struct fixture *f)
{
    char byte;
    struct iovec iov = { &byte, 1 };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
    struct request_files_buffer buffer;
    request_files_expect(&buffer, &m);
    assert_int_equal(recvmsg(f->ends[1], &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC), 1);
    return request_files_received(&f->files, &m);
}

TEST_F(files, a_message_without_descriptors_keeps_earlier_ones)
{
    send_copies(f, 0);
    assert_true(receive_message(f));
    assert_int_equal(f->files.count, 0);
    send_copies(f, 1);
    assert_true(receive_message(f));
    send_copies(f, 0);
    assert_true(receive_message(f));
    assert_int_equal(f->files.count, 1);
}

TEST_F(files, the_maximum_of_descriptors_is_kept_with_close_on_exec)
{
    send_copies(f, LIMIT_REQUEST_FILES);
    close_copies(f);
    assert_true(receive_message(f));
    assert_int_equal(f->files.count, LIMIT_REQUEST_FILES);
    for (unsigned i = 0; i < f->files.count; i++)
        assert_true(fcntl(f->files.fds[i], F_GETFD) & FD_CLOEXEC);
    assert_true(has_writer(f->reading));

    request_files_drop(&f->files);

    assert_int_equal(f->files.count, 0);
    await_no_writer(f->reading);
}

TEST_F(files, too_many_descriptors_in_one_message_are_reported_and_not_leaked)
{
    send_copies(f, 10);
    close_copies(f);
    assert_false(receive_message(f));
    assert_true(f->files.count <= LIMIT_REQUEST_FILES);
    request_files_drop(&f->files);
    await_no_writer(f->reading);
}

TEST_F(files, too_many_descriptors_in_several_messages_are_reported_and_not_leaked)
{
    for (unsigned i = 0; i < LIMIT_REQUEST_FILES; i++) {
        send_copies(f, 1);
        assert_true(receive_message(f));
    }
    send_copies(f, 1);
    assert_false(receive_message(f));
    assert_int_equal(f->files.count, LIMIT_REQUEST_FILES);
    send_copies(f, 2);
    assert_false(receive_message(f));
    close_copies(f);
    request_files_drop(&f->files);
    await_no_writer(f->reading);
}

TEST_F(files, an_empty_set_may_be_dropped)
{
    request_files_drop(&f->files);
    request_files_drop(&f->files);
    assert_int_equal(f->files.count, 0);
}
