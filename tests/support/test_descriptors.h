/* SPDX-License-Identifier: MIT */
#pragma once

/* The end of the test closes the descriptors that these functions make. So the variables must exist
 * until the end of the test. A test may close a descriptor earlier with fd_close, which sets the
 * variable to -1. */
#include "common/base/cleanup.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static inline void test_descriptor_close(void *fd) { fd_close(fd); }

static inline void test_descriptors(int *one, int *other, const int ends[2])
{
    *one = ends[0];
    *other = ends[1];
    test_at_end(test_descriptor_close, one);
    test_at_end(test_descriptor_close, other);
}

static inline void test_socket_pair(int type, int *one, int *other)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
    test_descriptors(one, other, ends);
}

static inline void test_pipe(int flags, int *reading, int *writing)
{
    int ends[2];
    assert_int_equal(pipe2(ends, flags | O_CLOEXEC), 0);
    test_descriptors(reading, writing, ends);
}
