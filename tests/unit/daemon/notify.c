/* SPDX-License-Identifier: MIT */
#include "daemon/manager/notify.h"
#include "common/base/fs.h"
#include "common/log/log.h"
#include "tests/support/test.h"
#include "tests/support/test_files.h"
#include "tests/support/unix_socket.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct fixture {
    const char *directory;
    const char *path;
    int manager;
    char got[256];
    int got_fd;
};

SET_UP(set_up)
{
    *f = (struct fixture){ .directory = test_directory(), .got_fd = -1 };
    f->path = test_path(f->directory, "notify");
    f->manager = unix_bind(SOCK_DGRAM | SOCK_NONBLOCK, f->path);
    test_unsetenv("WATCHDOG_USEC", "WATCHDOG_PID", "FDSTORE");
    test_setenv("NOTIFY_SOCKET", f->path);
}

TEAR_DOWN(tear_down)
{
    close(f->manager);
    fd_auto(&f->got_fd);
}

FIXTURE(notify, set_up, tear_down);

/* Returns the next message, or "" if there is none. Sets f->got_fd to its descriptor. */
static const char *next_message(struct fixture *f)
{
    union {
        struct cmsghdr header;
        char buffer[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = { .iov_base = f->got, .iov_len = sizeof(f->got) - 1 };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    ssize_t size = recvmsg(f->manager, &m, MSG_CMSG_CLOEXEC);
    f->got[size > 0 ? size : 0] = '\0';
    struct cmsghdr *c = size > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (c)
        memcpy(&f->got_fd, CMSG_DATA(c), sizeof(int));
    return f->got;
}

TEST_F(notify, a_notification_is_sent_and_the_variable_is_unset)
{
    notify_adopt();
    assert_true(notify_is_on());
    assert_null(getenv("NOTIFY_SOCKET"));
    assert_true(notify_manager("READY=1\nSTATUS=fine", NULL, NOTIFY_MUST_ARRIVE));
    assert_string_equal(next_message(f), "READY=1\nSTATUS=fine");
}

TEST_F(notify, a_socket_with_an_abstract_name_is_reached)
{
    char name[64];
    int size = snprintf(name, sizeof(name), "@kiln-notify-%d", (int)getpid());
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path + 1, name + 1, (size_t)size - 1);
    close(f->manager);
    f->manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(f->manager, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)size)),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
    notify_adopt();
    assert_true(notify_manager("READY=1", NULL, NOTIFY_MUST_ARRIVE));
    assert_string_equal(next_message(f), "READY=1");
}

TEST_F(notify, a_descriptor_is_sent_with_a_notification)
{
    int fd = open(f->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat sent, got;
    const struct notify_files files = { .fds = &fd, .count = 1 };
    notify_adopt();
    assert_true(notify_manager("FDSTORE=1\nFDNAME=x", &files, NOTIFY_MAY_BE_LOST));
    assert_string_equal(next_message(f), "FDSTORE=1\nFDNAME=x");
    assert_int_equal(fstat(fd, &sent), 0);
    assert_int_equal(fstat(f->got_fd, &got), 0);
    assert_int_equal(sent.st_ino, got.st_ino);
    close(fd);
}

TEST(notify, without_a_service_manager_notifications_succeed)
{
    unsetenv("NOTIFY_SOCKET");
    notify_adopt();
    assert_false(notify_is_on());
    assert_true(notify_manager("READY=1", NULL, NOTIFY_MUST_ARRIVE));
}

TEST(notify, an_invalid_socket_path_is_ignored)
{
    char path[300];
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    setenv("NOTIFY_SOCKET", path, 1);
    notify_adopt();
    assert_false(notify_is_on());
    setenv("NOTIFY_SOCKET", "vsock:2:1234", 1);
    notify_adopt();
    assert_false(notify_is_on());
}

TEST_F(notify, a_notification_to_a_stopped_manager_fails)
{
    notify_adopt();
    assert_int_equal(unlink(f->path), 0);
    assert_false(notify_manager("READY=1", NULL, NOTIFY_MUST_ARRIVE));
}

/* The socket holds a limited number of messages, and nobody reads them. */
TEST_F(notify, an_optional_notification_does_not_wait_for_a_manager)
{
    unsigned sent = 0;
    notify_adopt();
    while (sent < 100000 && notify_manager("WATCHDOG=1", NULL, NOTIFY_MAY_BE_LOST))
        sent++;
    assert_in_range(sent, 1, 99999);
    assert_string_equal(next_message(f), "WATCHDOG=1");
}

static uint64_t watchdog(const char *us, const char *pid)
{
    setenv("WATCHDOG_USEC", us, 1);
    unsetenv("WATCHDOG_PID");
    if (pid)
        setenv("WATCHDOG_PID", pid, 1);
    notify_adopt();
    assert_null(getenv("WATCHDOG_USEC"));
    assert_null(getenv("WATCHDOG_PID"));
    return notify_watchdog_ms();
}

TEST_F(notify, the_watchdog_is_notified_twice_per_interval)
{
    char pid[32];
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    assert_int_equal(watchdog("30000000", NULL), 15000);
    setenv("NOTIFY_SOCKET", f->path, 1);
    assert_int_equal(watchdog("30000000", pid), 15000);
    setenv("NOTIFY_SOCKET", f->path, 1);
    assert_int_equal(watchdog("1", NULL), 1); /* 0 would disable the watchdog */
}

TEST_F(notify, an_invalid_watchdog_or_one_of_another_process_is_ignored)
{
    static const char *const none[][2] = {
        { "30000000", "1" }, { "0", NULL },        { "soon", NULL },
        { "-5", NULL },      { "30000000", "me" }, { "99999999999999999999999", NULL },
    };
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        setenv("NOTIFY_SOCKET", f->path, 1);
        assert_int_equal(watchdog(none[i][0], none[i][1]), 0);
    }
}

TEST(notify, the_size_of_the_descriptor_store_comes_from_the_manager)
{
    notify_adopt();
    assert_int_equal(notify_store_size(), -1);
    setenv("FDSTORE", "16", 1);
    notify_adopt();
    assert_int_equal(notify_store_size(), 16);
    setenv("FDSTORE", "many", 1);
    notify_adopt();
    assert_int_equal(notify_store_size(), -1);
}
