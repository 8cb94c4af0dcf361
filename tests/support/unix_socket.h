/* SPDX-License-Identifier: MIT */
#pragma once

/* The caller closes the sockets. */
#include "tests/support/test.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static inline struct sockaddr_un unix_address(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    assert_true(strlen(path) < sizeof(address.sun_path));
    strcpy(address.sun_path, path);
    return address;
}

/* Returns a connected socket, or -1 with errno set if no process listens on |path|. */
static inline int unix_try_connect(int type, const char *path)
{
    struct sockaddr_un address = unix_address(path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static inline int unix_connect(int type, const char *path)
{
    int fd = unix_try_connect(type, path);
    assert_true(fd >= 0);
    return fd;
}

static inline int unix_bind(int type, const char *path)
{
    struct sockaddr_un address = unix_address(path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static inline int unix_listen(int type, const char *path, int backlog)
{
    int fd = unix_bind(type, path);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}
