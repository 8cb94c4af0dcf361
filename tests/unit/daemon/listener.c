/* SPDX-License-Identifier: MIT */
#include "daemon/server/listener.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/unix_socket.h"

#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANY 200 /* more connections than may wait */

struct fixture {
    const char *directory;
    char path[100];
    struct listener listener;
    struct kiln_err err;
};

SET_UP(set_up)
{
    *f = (struct fixture){ .directory = test_directory(),
                           .listener = LISTENER_CLOSED,
                           .err = KILN_ERR_INIT };
    snprintf(f->path, sizeof(f->path), "%s/kilnd.sock", f->directory);
}

TEAR_DOWN(tear_down) { listener_close(&f->listener); }

FIXTURE(listener, set_up, tear_down);

static enum kiln_code open_listener(struct fixture *f)
{
    return listener_open(f->path, "", &f->listener, &f->err);
}

static bool file_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

TEST_F(listener, the_socket_is_open_only_to_its_owner_and_roots_group)
{
    struct stat st;

    must(open_listener(f), f->err);

    close(unix_connect(SOCK_STREAM, f->path));
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, geteuid() == 0 ? 0660 : 0600);
}

/* Each client that waits to be accepted delays those behind it, so few may wait. */
TEST_F(listener, at_most_128_connections_wait_to_be_accepted)
{
    int clients[MANY];
    unsigned count = 0;
    struct sockaddr_un address = unix_address(f->path);
    must(open_listener(f), f->err);

    for (bool is_full = false; !is_full && count < MANY; count++) {
        clients[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        is_full = connect(clients[count], (struct sockaddr *)&address, sizeof(address)) != 0;
    }

    assert_in_range(count - 1, 128, 129); /* Linux permits one more */
    while (count > 0)
        close(clients[--count]);
}

TEST_F(listener, a_missing_group_leaves_the_socket_to_root)
{
    struct stat st;

    must(listener_open(f->path, "no-such-group", &f->listener, &f->err), f->err);

    assert_int_equal(f->listener.root_only, geteuid() == 0);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_gid, getegid());
}

TEST_F(listener, the_configured_group_may_open_the_socket_of_root)
{
    struct stat st;
    const struct group *nobody = getgrgid(65534);
    NEED_ROOT();
    SKIP_IF(!nobody, "this host has no group 65534");

    must(listener_open(f->path, nobody->gr_name, &f->listener, &f->err), f->err);

    assert_false(f->listener.root_only);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_gid, 65534);
    assert_int_equal(st.st_mode & 0777, 0660);
}

TEST_F(listener, a_listener_without_a_group_is_not_marked_root_only)
{
    must(open_listener(f), f->err);
    assert_false(f->listener.root_only);
}

TEST_F(listener, a_socket_directory_that_cannot_be_made_is_reported_with_its_setting)
{
    NEED_ROOT();
    assert_int_equal(chmod(f->directory, 0755), 0);
    snprintf(f->path, sizeof(f->path), "%s/user/kiln/kilnd.sock", f->directory);
    assert_int_equal(seteuid(65534), 0);

    enum kiln_code below = open_listener(f);
    struct kiln_err first = f->err;
    snprintf(f->path, sizeof(f->path), "%s/kilnd.sock", f->directory);
    enum kiln_code next_to_it = open_listener(f);

    assert_int_equal(seteuid(0), 0);
    assert_int_equal(below, KILN_DENIED);
    assert_int_equal(next_to_it, KILN_DENIED);
    assert_says(first.text, "XDG_RUNTIME_DIR");
    assert_says(first.text, "--socket");
    assert_says(f->err.text, "XDG_RUNTIME_DIR");
}

TEST_F(listener, a_closed_listener_leaves_no_file)
{
    must(open_listener(f), f->err);

    listener_close(&f->listener);

    assert_int_equal(rmdir(f->directory), 0);
    assert_int_equal(mkdir(f->directory, 0700), 0);
}

TEST_F(listener, the_socket_of_a_dead_daemon_is_replaced)
{
    close(unix_bind(SOCK_STREAM, f->path));
    assert_true(file_exists(f->path));

    must(open_listener(f), f->err);

    close(unix_connect(SOCK_STREAM, f->path));
}

TEST_F(listener, a_daemon_killed_with_its_lock_is_replaced)
{
    pid_t child = fork();
    if (child == 0) {
        struct listener left;
        _exit(listener_open(f->path, "", &left, &f->err) == KILN_OK ? 0 : 1);
    }
    assert_int_equal(await_child(child), 0);
    assert_true(file_exists(f->path));

    must(open_listener(f), f->err);
}

TEST_F(listener, the_socket_of_a_live_daemon_is_refused_with_its_pid)
{
    struct listener second = LISTENER_CLOSED;
    char pid[32];
    snprintf(pid, sizeof(pid), "pid %d", (int)getpid());
    must(open_listener(f), f->err);

    assert_int_equal(listener_open(f->path, "", &second, &f->err), KILN_BUSY);

    assert_says(f->err.text, pid);
    assert_says(f->err.text, f->path);
    close(unix_connect(SOCK_STREAM, f->path));
}

/* If kilnd is killed right after fork(2), the child still holds kilnd's socket and lock. */
TEST_F(listener, a_killed_daemon_whose_socket_is_still_open_is_not_named)
{
    int open_end[2];
    char byte, pid[32];
    assert_int_equal(pipe2(open_end, O_CLOEXEC), 0);
    pid_t killed = fork();
    if (killed == 0) {
        struct listener left;
        close(open_end[1]);
        if (listener_open(f->path, "", &left, &f->err))
            _exit(1);
        _exit(fork() == 0 && read(open_end[0], &byte, 1) > 0);
    }
    close(open_end[0]);
    assert_int_equal(await_child(killed), 0);
    snprintf(pid, sizeof(pid), "pid %d", (int)killed);

    assert_int_equal(open_listener(f), KILN_BUSY);

    assert_says(f->err.text, "another daemon");
    assert_null(strstr(f->err.text, pid));
    close(open_end[1]);
}

TEST_F(listener, a_live_socket_without_a_lock_is_refused)
{
    char pid[32];
    snprintf(pid, sizeof(pid), "pid %d", (int)getpid());
    KILN_AUTO(fd) int fd = unix_bind(SOCK_STREAM, f->path);
    assert_int_equal(listen(fd, 1), 0);

    assert_int_equal(open_listener(f), KILN_BUSY);

    assert_says(f->err.text, pid);
    assert_true(file_exists(f->path));
}

TEST_F(listener, a_file_that_is_not_a_socket_is_refused_and_stays)
{
    fclose(fopen(f->path, "w"));

    assert_int_equal(open_listener(f), KILN_INVALID);

    assert_says(f->err.text, "a socket");
    assert_true(file_exists(f->path));
}

TEST_F(listener, a_socket_replaced_by_another_daemon_is_not_removed)
{
    must(open_listener(f), f->err);
    assert_int_equal(unlink(f->path), 0);
    close(unix_bind(SOCK_STREAM, f->path));

    listener_close(&f->listener);

    assert_true(file_exists(f->path));
}

TEST_F(listener, a_missing_socket_directory_is_made)
{
    snprintf(f->path, sizeof(f->path), "%s/run/kiln/kilnd.sock", f->directory);
    must(open_listener(f), f->err);
    close(unix_connect(SOCK_STREAM, f->path));
}

TEST_F(listener, a_path_too_long_for_a_socket_is_refused)
{
    char path[200];
    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(listener_open(path, "", &f->listener, &f->err), KILN_INVALID);
    assert_says(f->err.text, "longer");
}

TEST_F(listener, an_adopted_socket_keeps_its_file_when_closed)
{
    int fd = unix_listen(SOCK_STREAM, f->path, 8);
    must(listener_adopt(fd, &f->listener, &f->err), f->err);
    assert_int_equal(f->listener.fd, fd);
    assert_true(f->listener.inherited);
    assert_string_equal(f->listener.path, f->path);
    close(unix_connect(SOCK_STREAM, f->path));
    listener_close(&f->listener);
    assert_true(file_exists(f->path));
}

TEST_F(listener, an_inherited_socket_that_does_not_listen_is_refused)
{
    int fd = unix_bind(SOCK_STREAM, f->path);
    assert_int_equal(listener_adopt(fd, &f->listener, &f->err), KILN_INVALID);
    close(fd);
}

TEST_F(listener, an_inherited_descriptor_that_is_not_a_socket_is_refused)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_not_equal(listener_adopt(fd, &f->listener, &f->err), KILN_OK);
    close(fd);
}

/* Imitates kilnd's end while the service manager holds a copy of the socket. */
static struct inherited_fd store_socket(struct fixture *f)
{
    struct inherited_fd stored;
    must(open_listener(f), f->err);
    listener_name(&f->listener, stored.name);
    stored.fd = fcntl(f->listener.fd, F_DUPFD_CLOEXEC, 3);
    f->listener.kept = true;
    listener_close(&f->listener);
    return stored;
}

TEST_F(listener, a_stored_socket_stays_reachable_and_is_resumed)
{
    struct inherited_fd stored = store_socket(f);
    close(unix_connect(SOCK_STREAM, f->path));
    must(listener_resume(&stored, f->path, "", &f->listener, &f->err), f->err);
    assert_int_equal(stored.fd, -1);
    assert_true(f->listener.kept);
    assert_false(f->listener.inherited);
    struct listener second = LISTENER_CLOSED;
    assert_int_equal(listener_open(f->path, "", &second, &f->err), KILN_BUSY);
}

TEST_F(listener, a_resumed_socket_gets_the_configured_group)
{
    struct stat st;
    const struct group *nobody = getgrgid(65534);
    NEED_ROOT();
    SKIP_IF(!nobody, "this host has no group 65534");
    struct inherited_fd stored = store_socket(f);
    assert_int_equal(chmod(f->path, 0666), 0);
    must(listener_resume(&stored, f->path, nobody->gr_name, &f->listener, &f->err), f->err);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_gid, 65534);
    assert_int_equal(st.st_mode & 0777, 0660);
    assert_false(f->listener.root_only);

    stored.fd = fcntl(f->listener.fd, F_DUPFD_CLOEXEC, 3);
    listener_close(&f->listener);
    must(listener_resume(&stored, f->path, "no-such-group", &f->listener, &f->err), f->err);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_gid, getegid());
    assert_true(f->listener.root_only);
}

TEST_F(listener, a_stored_socket_is_refused_if_its_file_was_replaced)
{
    struct inherited_fd stored = store_socket(f);
    assert_int_equal(unlink(f->path), 0);
    close(unix_bind(SOCK_STREAM, f->path));
    assert_int_equal(listener_resume(&stored, f->path, "", &f->listener, &f->err), KILN_NOT_FOUND);
    assert_says(f->err.text, f->path);
    close(stored.fd);
}

TEST_F(listener, a_stored_socket_is_refused_if_the_path_has_changed)
{
    struct inherited_fd stored = store_socket(f);
    assert_int_equal(listener_resume(&stored, "/elsewhere", "", &f->listener, &f->err),
                     KILN_NOT_FOUND);
    assert_says(f->err.text, "'/elsewhere'");
    close(stored.fd);
}

TEST_F(listener, a_stored_socket_with_an_invalid_name_is_refused)
{
    static const char *const names[] = { "kiln-listen-", "kiln-listen-1", "kiln-listen-1-2x",
                                         "kiln-listen-x-y" };
    struct inherited_fd stored = store_socket(f);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct inherited_fd misnamed = { .fd = stored.fd };
        strcpy(misnamed.name, names[i]);
        assert_int_equal(listener_resume(&misnamed, f->path, "", &f->listener, &f->err),
                         KILN_INVALID);
    }
    close(stored.fd);
}
