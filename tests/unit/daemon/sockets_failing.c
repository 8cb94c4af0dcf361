/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "daemon/programs/launch.h"
#include "daemon/server/listener.h"
#include "daemon/server/peer.h"
#include "tests/support/child.h"
#include "tests/support/failing_calls.h"
#include "tests/support/test.h"
#include "tests/support/unix_socket.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct fixture {
    const char *directory;
    char path[100];
    const char *group;
    struct kiln_err err;
};

SET_UP(set_up)
{
    *f = (struct fixture){ .directory = test_directory(), .group = "", .err = KILN_ERR_INIT };
    snprintf(f->path, sizeof(f->path), "%s/kilnd.sock", f->directory);
}

FIXTURE(socket, set_up, NULL);

static enum kiln_code open_and_close(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    struct listener l = LISTENER_CLOSED;
    enum kiln_code rc = listener_open(f->path, f->group, &l, err);
    listener_close(&l);
    return rc;
}

/* Opens and closes a listener, and checks that no socket file is left, even after a failure. */
static enum kiln_code open_leaving_nothing(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    struct stat seen;
    enum kiln_code rc = open_and_close(context, err);
    if (fstatat(AT_FDCWD, f->path, &seen, AT_SYMLINK_NOFOLLOW) == 0)
        fail_msg("'%s' is left: %s", f->path, rc ? err->text : "no failure");
    return rc;
}

/* A killed daemon left its socket. */
static enum kiln_code open_over_dead_socket(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    remove(f->path);
    close(unix_bind(SOCK_STREAM, f->path));
    return open_and_close(context, err);
}

TEST_F(socket, a_socket_that_cannot_be_opened_is_reported)
{
    expect_failures(open_leaving_nothing, f, FAILING("strdup", ENOMEM), KILN_NO_MEMORY,
                    "directory");
    expect_failures(open_leaving_nothing, f, FAILING("openat", ENFILE), KILN_IO, "lock '");
    expect_failures(open_leaving_nothing, f, FAILING("flock", EWOULDBLOCK), KILN_BUSY,
                    "listens on");
    expect_failures(open_leaving_nothing, f, FAILING("socket", EMFILE), KILN_IO, "make a");
    expect_failures(open_leaving_nothing, f, FAILING("bind", EACCES), KILN_DENIED, "bind");
    expect_failures(open_leaving_nothing, f, FAILING("chmod", EPERM), KILN_DENIED, "mode");
    expect_failures(open_leaving_nothing, f, FAILING("listen", EIO), KILN_IO, "listen on");
    expect_failures(open_leaving_nothing, f, FAILING("lchown", EPERM), KILN_DENIED, "group");
}

TEST_F(socket, the_file_at_the_sockets_path_is_checked)
{
    must(open_over_dead_socket(f, &f->err), f->err);
    expect_failure(open_over_dead_socket, f, FAILING("connect", EAGAIN), KILN_BUSY,
                   "another daemon");
    expect_failure(open_over_dead_socket, f, FAILING("connect", EACCES), KILN_DENIED,
                   "kilnd.sock'");
    expect_failure(open_over_dead_socket, f, FAILING("connect", ENOENT), KILN_OK, "");
    expect_failure(open_over_dead_socket, f, FAILING_NTH("socket", 2, EMFILE), KILN_IO, "make a");
    expect_failure(open_over_dead_socket, f, FAILING("unlink", EACCES), KILN_DENIED, "remove");
    expect_failure(open_over_dead_socket, f, FAILING_NTH("lstat", 2, EACCES), KILN_DENIED,
                   "attributes");
}

TEST_F(socket, a_lock_file_that_is_removed_during_locking_is_made_again)
{
    expect_no_harm(open_and_close, f, "fstat", EIO);
    expect_failure(open_and_close, f, FAILING_ALWAYS("fstat", EIO), KILN_BUSY, "daemon");
    expect_failure(open_and_close, f, FAILING("lstat", ENOENT), KILN_OK, "");
    expect_failure(open_leaving_nothing, f, FAILING_NTH("lstat", 3, EACCES), KILN_DENIED,
                   "attributes");
}

TEST_F(socket, a_daemon_that_does_not_listen_yet_is_named_by_its_pid)
{
    char lock[128], pid[32];
    snprintf(lock, sizeof(lock), "%s" LISTENER_LOCK_SUFFIX, f->path);
    snprintf(pid, sizeof(pid), "pid %d", (int)getpid());
    KILN_AUTO(fd) int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(fs_write_all(fd, bytes_of_text(pid + strlen("pid ")), &f->err), f->err);
    expect_failure(open_and_close, f, FAILING("flock", EWOULDBLOCK), KILN_BUSY, pid);
}

static enum kiln_code resume_listener(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    struct listener kept = LISTENER_CLOSED, resumed = LISTENER_CLOSED;
    struct inherited_fd stored;
    enum kiln_code rc = listener_open(f->path, f->group, &kept, err);
    if (rc)
        return rc;
    stored.fd = kept.fd;
    listener_name(&kept, stored.name);
    close(kept.lock_fd); /* as if kilnd had ended while the service manager held its socket */
    rc = listener_resume(&stored, f->path, f->group, &resumed, err);
    if (!rc)
        assert_int_equal(resumed.fd, kept.fd);
    listener_close(&resumed);
    kept.lock_fd = -1;
    if (!rc)
        kept.fd = -1;
    listener_close(&kept);
    remove(f->path);
    return rc;
}

TEST_F(socket, a_stored_socket_that_cannot_be_resumed_is_reported)
{
    must(resume_listener(f, &f->err), f->err);
    expect_failure(resume_listener, f, FAILING("getsockopt", ENOTSOCK), KILN_IO, "a socket");
    expect_failure(resume_listener, f, FAILING("getsockname", EIO), KILN_IO, "a socket");
    expect_failures(resume_listener, f, FAILING("chmod", EPERM), KILN_DENIED, "mode");
    expect_failures(resume_listener, f, FAILING("lchown", EPERM), KILN_DENIED, "group");
    expect_failure(resume_listener, f, FAILING_NTH("flock", 2, EWOULDBLOCK), KILN_BUSY,
                   "listens on");
}

TEST_F(socket, sockets_of_other_kinds_are_not_adopted)
{
    struct listener l = LISTENER_CLOSED;
    struct sockaddr_un address = unix_address(f->path);
    for (unsigned i = 0; i < 4; i++) {
        int domain = i == 3 ? AF_INET : AF_UNIX;
        KILN_AUTO(fd) int fd = socket(domain, i == 1 ? SOCK_SEQPACKET : SOCK_STREAM, 0);
        if (i > 0 && i < 3) {
            remove(f->path);
            assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        }
        if (i != 2)
            assert_int_equal(listen(fd, 1), i == 0 ? -1 : 0);
        assert_int_equal(listener_adopt(fd, &l, &f->err), KILN_INVALID);
        assert_says(f->err.text, "stream socket");
    }
}

TEST_F(socket, a_peer_that_cannot_be_identified_is_refused)
{
    const struct peer_groups groups = { .admin = PEER_NO_GROUP, .publish = PEER_NO_GROUP };
    const struct peer_overflow overflow = peer_overflow();
    struct peer peer;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    fail_call("getsockopt", 1, EIO);
    assert_int_equal(peer_of(ends[0], &groups, &overflow, &peer, &f->err), KILN_IO);
    assert_true(calls_failed());
    assert_says(f->err.text, "user of");
    must(peer_of(ends[0], &groups, &overflow, &peer, &f->err), f->err);
    assert_int_equal(peer.pid, getpid());
    assert_int_equal(peer_pid(ends[0]), getpid());
    assert_int_equal(peer_pid(-1), 0);
    close(ends[0]);
    close(ends[1]);
}

#define SOMEBODY 45013
#define GROUP 45014
#define GROUPS 100 /* more than peer_of reads without allocating */

static void connect_as_somebody(const struct sockaddr_un *address)
{
    char byte;
    gid_t groups[GROUPS];
    for (unsigned i = 0; i < GROUPS; i++)
        groups[i] = i == 0 ? GROUP : 46000 + i;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_changed =
        setgroups(GROUPS, groups) == 0 && setgid(SOMEBODY) == 0 && setuid(SOMEBODY) == 0;
    if (!is_changed || connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0)
        _exit(1);
    _exit(read(fd, &byte, 1) == 0 ? 0 : 1); /* blocks until the other end is closed */
}

TEST_F(socket, a_user_in_very_many_groups_gets_the_role_of_each)
{
    const struct peer_overflow overflow = peer_overflow();
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const struct peer_groups groups = { .admin = GROUP, .publish = PEER_NO_GROUP };
    struct peer peer;
    int fd;
    NEED_ROOT();
    snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "kiln-test-groups-%d",
             (int)getpid());
    KILN_AUTO(fd) int listens = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listens, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listens, 1), 0);
    pid_t child = fork();
    if (child == 0)
        connect_as_somebody(&address);
    IN_TIME(fd = accept(listens, NULL, NULL));
    must(peer_of(fd, &groups, &overflow, &peer, &f->err), f->err);
    assert_int_equal(peer.role, ROLE_ADMIN);
    static const struct {
        const char *call;
        unsigned nth;
    } cases[] = { { "getsockopt", 2 }, { "malloc", 1 }, { "getsockopt", 3 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        /* If memory runs out while kilnd determines the role of a user, the user gets the lowest
         * role. */
        fail_call(cases[i].call, cases[i].nth, ENOMEM);
        must(peer_of(fd, &groups, &overflow, &peer, &f->err), f->err);
        assert_true(calls_failed());
        assert_int_equal(peer.role, ROLE_USE);
    }
    close(fd);
    assert_int_equal(await_child(child), 0);
}

struct launch {
    const char *const *arguments;
    bool with_directory;
};

static enum kiln_code send_launch_request(void *context, struct kiln_err *err)
{
    static struct launch_received received;
    const struct launch *launch = context;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return KILN_IO;
    const struct launch_request request = { .arguments = launch->arguments,
                                            .fd_3 = STDERR_FILENO,
                                            .directory =
                                                launch->with_directory ? STDERR_FILENO : -1 };
    received = (struct launch_received){ .fd_3 = -1, .directory = -1 };
    enum kiln_code rc = launch_send_request(ends[0], &request, err);
    if (!rc)
        rc = launch_receive_request(ends[1], &received, err);
    if (!rc) {
        assert_string_equal(received.arguments[0], launch->arguments[0]);
        assert_int_equal(received.directory >= 0, launch->with_directory);
    }
    fd_auto(&received.fd_3);
    fd_auto(&received.directory);
    close(ends[0]);
    close(ends[1]);
    return rc;
}

TEST_F(socket, a_launch_request_arrives_or_its_failure_is_reported)
{
    static const char *const few[] = { "program", "argument", NULL };
    static const char *many[LAUNCH_ARGUMENTS_MAX + 2];
    static char longer[LAUNCH_PACKET_MAX + 10];
    struct launch launch = { .arguments = few };
    for (unsigned i = 0; i < 2; i++, launch.with_directory = true) {
        expect_failures(send_launch_request, &launch, FAILING("sendmsg", ECONNREFUSED),
                        KILN_UNAVAILABLE, "'program'");
        expect_failures(send_launch_request, &launch, FAILING("recvmsg", EIO), KILN_IO, "receive");
        expect_no_harm(send_launch_request, &launch, "sendmsg", EINTR);
        expect_no_harm(send_launch_request, &launch, "recvmsg", EINTR);
    }
    expect_failures(send_launch_request, &launch, FAILING("recvmsg", ECONNRESET), KILN_NOT_FOUND,
                    "");
    for (size_t i = 0; i <= LAUNCH_ARGUMENTS_MAX; i++)
        many[i] = "x";
    launch.arguments = many;
    assert_int_equal(send_launch_request(&launch, &f->err), KILN_INVALID);
    assert_says(f->err.text, "'x'");
    many[LAUNCH_ARGUMENTS_MAX] = NULL;
    must(send_launch_request(&launch, &f->err), f->err);
    memset(longer, 'y', sizeof(longer) - 1);
    many[1] = longer;
    assert_int_equal(send_launch_request(&launch, &f->err), KILN_INVALID);
}

TEST_F(socket, an_invalid_request_launches_nothing)
{
    static struct launch_received received;
    char many[2 * (LAUNCH_ARGUMENTS_MAX + 1)] = "";
    const struct {
        const void *packet;
        size_t size;
    } cases[] = { { "without its end", 15 }, { many, sizeof(many) }, { "alone", 6 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        assert_int_equal(send(ends[0], cases[i].packet, cases[i].size, 0), cases[i].size);
        assert_int_equal(launch_receive_request(ends[1], &received, &f->err), KILN_INVALID);
        assert_says(f->err.text, "bytes");
        close(ends[0]);
        assert_int_equal(launch_receive_request(ends[1], &received, &f->err), KILN_NOT_FOUND);
        close(ends[1]);
    }
}

static enum kiln_code send_report(void *context, struct kiln_err *err)
{
    struct launch_report reported = { .kind = LAUNCH_ENDED, .status = 3 }, got;
    const int *ends = context;
    launch_send_report(ends[0], &reported);
    enum kiln_code rc = launch_receive_report(ends[1], &got);
    if (!rc)
        assert_int_equal(got.status, 3);
    return rc ? kiln_fail(err, rc, "no report") : rc;
}

TEST(socket, reports_of_launched_programs_survive_interruptions)
{
    int ends[2];
    struct launch_report got;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    expect_no_harm(send_report, ends, "send", EINTR);
    expect_no_harm(send_report, ends, "recv", EINTR);
    assert_int_equal(launch_receive_report(ends[1], &got), KILN_BUSY);
    const struct launch_report unheard_of = { .kind = 77 };
    launch_send_report(ends[0], &unheard_of);
    assert_int_equal(launch_receive_report(ends[1], &got), KILN_INVALID);
    assert_int_equal(send(ends[0], "short", 5, 0), 5);
    assert_int_equal(launch_receive_report(ends[1], &got), KILN_INVALID);
    close(ends[0]);
    assert_int_equal(launch_receive_report(ends[1], &got), KILN_UNAVAILABLE);
    close(ends[1]);
}

TEST_F(socket, a_service_that_cannot_be_reached_is_reported)
{
    char longer[200];
    int control = -1;
    fail_call("socket", 1, EMFILE);
    assert_int_equal(launch_connect(f->path, &control, &f->err), KILN_IO);
    assert_true(calls_failed());
    assert_says(f->err.text, "make a");
    assert_int_equal(launch_connect(f->path, &control, &f->err), KILN_UNAVAILABLE);
    assert_says(f->err.text, "socket unit");
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(launch_connect(longer, &control, &f->err), KILN_INVALID);
    assert_says(f->err.text, "107 bytes");
    assert_int_equal(control, -1);
}
