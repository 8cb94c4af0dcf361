/* SPDX-License-Identifier: MIT */
#include "daemon/server/peer.h"

#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/test_files.h"
#include "tests/support/unix_socket.h"
#include "tests/support/wait.h"

#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOMEBODY 45000
#define OVERFLOW 65534
#define PUBLISHERS 45001
#define ADMINS 45002
#define OTHERS 45003

struct fixture {
    int listener;
    const char *path;
    struct kiln_err err;
};

SET_UP(set_up)
{
    const char *directory = test_directory();
    f->path = test_path(directory, "socket");
    f->listener = unix_listen(SOCK_STREAM, f->path, 1);
    /* Every user may connect. */
    assert_int_equal(chmod(directory, 0711) | chmod(f->path, 0777), 0);
}

TEAR_DOWN(tear_down) { close(f->listener); }

FIXTURE(peer, set_up, tear_down);

static void connect_as(const struct fixture *f, uid_t uid, gid_t gid, gid_t second)
{
    char byte;
    bool is_changed =
        seteuid(0) == 0 && setgroups(1, &second) == 0 && setgid(gid) == 0 && setuid(uid) == 0;
    int fd = is_changed ? unix_try_connect(SOCK_STREAM, f->path) : -1;
    if (fd < 0)
        _exit(1);
    ssize_t ignored = read(fd, &byte, 1); /* blocks until the other end is closed */
    (void)ignored;
    _exit(0);
}

static struct peer peer_as(struct fixture *f, uid_t uid, gid_t gid, gid_t second,
                           const struct peer_groups *groups)
{
    const struct peer_overflow overflow = { .uid = OVERFLOW, .gid = OVERFLOW };
    struct peer peer;
    int fd;
    pid_t child = fork();
    if (child == 0)
        connect_as(f, uid, gid, second);
    IN_TIME(fd = accept(f->listener, NULL, NULL));
    assert_true(fd >= 0);
    must(peer_of(fd, groups, &overflow, &peer, &f->err), f->err);
    close(fd);
    assert_int_equal(await_child(child), 0);
    return peer;
}

static enum role role_of(struct fixture *f, gid_t gid, gid_t second)
{
    const struct peer_groups groups = { .admin = ADMINS, .publish = PUBLISHERS };
    struct peer peer = peer_as(f, SOMEBODY, gid, second, &groups);
    assert_int_equal(peer.uid, SOMEBODY);
    assert_false(peer.is_anonymous);
    return peer.role;
}

TEST_F(peer, groups_decide_if_a_user_may_administrate_or_publish)
{
    NEED_ROOT();
    assert_int_equal(role_of(f, OTHERS, OTHERS), ROLE_USE);
    assert_int_equal(role_of(f, PUBLISHERS, OTHERS), ROLE_PUBLISH);
    assert_int_equal(role_of(f, OTHERS, PUBLISHERS), ROLE_PUBLISH);
    assert_int_equal(role_of(f, ADMINS, OTHERS), ROLE_ADMIN);
    assert_int_equal(role_of(f, PUBLISHERS, ADMINS), ROLE_ADMIN);
}

/* Several unmapped users may share this uid, so its groups do not count. */
TEST_F(peer, the_overflow_uid_is_anonymous_and_has_no_role)
{
    const struct peer_groups groups = { .admin = ADMINS, .publish = PUBLISHERS };
    NEED_ROOT();
    struct peer peer = peer_as(f, OVERFLOW, ADMINS, PUBLISHERS, &groups);
    assert_true(peer.is_anonymous);
    assert_int_equal(peer.uid, OVERFLOW);
    assert_int_equal(peer.role, ROLE_USE);
}

TEST_F(peer, the_user_of_the_daemon_is_no_admin_if_it_is_the_overflow_uid)
{
    const struct peer_groups groups = { .admin = PEER_NO_GROUP, .publish = PEER_NO_GROUP };
    NEED_ROOT();
    assert_int_equal(seteuid(SOMEBODY), 0);
    struct peer own = peer_as(f, SOMEBODY, OTHERS, OTHERS, &groups);
    assert_int_equal(seteuid(0) | seteuid(OVERFLOW), 0);
    struct peer unmapped = peer_as(f, OVERFLOW, OTHERS, OTHERS, &groups);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(own.role, ROLE_ADMIN);
    assert_int_equal(unmapped.role, ROLE_USE);
}

/* Every group without a number in kilnd's user namespace appears as the overflow group. */
TEST_F(peer, the_overflow_group_grants_no_role)
{
    const struct peer_groups groups = { .admin = OVERFLOW, .publish = OVERFLOW };
    NEED_ROOT();
    assert_int_equal(peer_as(f, SOMEBODY, OVERFLOW, OTHERS, &groups).role, ROLE_USE);
    assert_int_equal(peer_as(f, SOMEBODY, OTHERS, OVERFLOW, &groups).role, ROLE_USE);
}

/* In a user namespace without a map, every user appears as 65534. */
TEST_F(peer, a_user_unmapped_in_the_user_namespace_is_anonymous)
{
    const struct peer_groups groups = { .admin = ADMINS, .publish = PUBLISHERS };
    int ends[2];
    NEED_ROOT();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct peer_overflow overflow = peer_overflow();
        struct peer peer;
        if (unshare(CLONE_NEWUSER) != 0)
            _exit(77);
        if (peer_of(ends[0], &groups, &overflow, &peer, &f->err))
            _exit(1);
        _exit(peer.is_anonymous && peer.role == ROLE_USE ? 0 : 2);
    }
    close(ends[0]);
    close(ends[1]);
    int status = await_child(child);
    SKIP_IF(WIFEXITED(status) && WEXITSTATUS(status) == 77, "this host allows no user namespace");
    assert_int_equal(status, 0);
}

TEST(plain, the_overflow_uid_is_read_from_the_kernel)
{
    FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
    unsigned uid = 0;
    assert_true(file && fscanf(file, "%u", &uid) == 1);
    fclose(file);
    assert_int_equal(peer_overflow().uid, uid);
}

TEST(plain, an_empty_or_unknown_name_is_no_group)
{
    static const char *const names[] = { NULL, "", "no-such-group-of-kiln" };
    for (size_t i = 0; i < 3; i++) {
        struct kiln_err err = KILN_ERR_INIT;
        struct peer_groups groups = { .publish = 1 };
        must(peer_groups_find(names[i], &groups, &err), err);
        assert_true(groups.publish == PEER_NO_GROUP);
    }
}
