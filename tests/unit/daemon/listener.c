/* SPDX-License-Identifier: MIT */
#include "daemon/server/listener.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct fixture {
    char directory[64];
    char path[100];
    struct listener listener;
    struct kiln_err err;
};

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .directory = "/tmp/kiln_listener_XXXXXX",
                          .listener = LISTENER_CLOSED,
                          .err = KILN_ERR_INIT };
    assert_non_null(mkdtemp(f.directory));
    snprintf(f.path, sizeof(f.path), "%s/kilnd.sock", f.directory);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    listener_close(&f->listener);
    fs_remove_tree(AT_FDCWD, f->directory);
    return 0;
}

FIXTURE(listener, set_up, tear_down);

static enum kiln_code open_it(struct fixture *f)
{
    return listener_open(f->path, "", &f->listener, &f->err);
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    return address;
}

static int bound_socket(const char *path)
{
    struct sockaddr_un address = address_of(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static bool can_connect(const char *path)
{
    struct sockaddr_un address = address_of(path);
    KILN_AUTO(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

TEST(listener, makes_a_socket_that_only_its_owner_and_root_s_group_may_open)
{
    struct fixture *f = *state;
    struct stat st;

    assert_int_equal(open_it(f), KILN_OK);

    assert_true(can_connect(f->path));
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, geteuid() == 0 ? 0660 : 0600);
}

TEST(listener, a_group_that_the_host_lacks_leaves_the_socket_to_root_and_says_so)
{
    struct fixture *f = *state;
    struct stat st;

    assert_int_equal(listener_open(f->path, "no-such-group", &f->listener, &f->err), KILN_OK);

    assert_int_equal(f->listener.root_only, geteuid() == 0);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_gid, getegid());
}

TEST(listener, a_group_that_the_host_has_may_open_the_socket_of_root)
{
    struct fixture *f = *state;
    struct stat st;
    const struct group *nobody = getgrgid(65534);
    if (geteuid() != 0 || !nobody)
        skip();

    assert_int_equal(listener_open(f->path, nobody->gr_name, &f->listener, &f->err), KILN_OK);

    assert_false(f->listener.root_only);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_gid, 65534);
    assert_int_equal(st.st_mode & 0777, 0660);
}

TEST(listener, without_a_group_only_root_is_meant)
{
    struct fixture *f = *state;
    assert_int_equal(open_it(f), KILN_OK);
    assert_false(f->listener.root_only);
}

TEST(listener, a_socket_directory_that_cannot_be_made_is_reported_with_its_setting)
{
    struct fixture *f = *state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(f->directory, 0755), 0);
    snprintf(f->path, sizeof(f->path), "%s/user/kiln/kilnd.sock", f->directory);
    assert_int_equal(seteuid(65534), 0);

    enum kiln_code below = open_it(f);
    struct kiln_err first = f->err;
    snprintf(f->path, sizeof(f->path), "%s/kilnd.sock", f->directory);
    enum kiln_code beside = open_it(f);

    assert_int_equal(seteuid(0), 0);
    assert_int_equal(below, KILN_DENIED);
    assert_int_equal(beside, KILN_DENIED);
    assert_says(first.text, "XDG_RUNTIME_DIR");
    assert_says(first.text, "--socket");
    assert_says(f->err.text, "XDG_RUNTIME_DIR");
}

TEST(listener, leaves_nothing_behind_when_closed)
{
    struct fixture *f = *state;
    assert_int_equal(open_it(f), KILN_OK);

    listener_close(&f->listener);

    assert_int_equal(rmdir(f->directory), 0);
    assert_int_equal(mkdir(f->directory, 0700), 0);
}

TEST(listener, takes_over_the_socket_of_a_dead_daemon)
{
    struct fixture *f = *state;
    close(bound_socket(f->path));
    assert_true(exists(f->path));

    assert_int_equal(open_it(f), KILN_OK);

    assert_true(can_connect(f->path));
}

TEST(listener, takes_over_after_a_daemon_that_was_killed_with_its_lock)
{
    struct fixture *f = *state;
    pid_t child = fork();
    if (child == 0) {
        struct listener left;
        _exit(listener_open(f->path, "", &left, &f->err) == KILN_OK ? 0 : 1);
    }
    assert_int_equal(await_child(child), 0);
    assert_true(exists(f->path));

    assert_int_equal(open_it(f), KILN_OK);
}

TEST(listener, refuses_the_place_of_a_live_daemon_with_its_pid)
{
    struct fixture *f = *state;
    struct listener second = LISTENER_CLOSED;
    char pid[32];
    snprintf(pid, sizeof(pid), "pid %d", (int)getpid());
    assert_int_equal(open_it(f), KILN_OK);

    assert_int_equal(listener_open(f->path, "", &second, &f->err), KILN_BUSY);

    assert_non_null(strstr(f->err.text, pid));
    assert_non_null(strstr(f->err.text, f->path));
    assert_true(can_connect(f->path));
}

TEST(listener, refuses_a_live_socket_that_holds_no_lock)
{
    struct fixture *f = *state;
    char pid[32];
    snprintf(pid, sizeof(pid), "pid %d", (int)getpid());
    KILN_AUTO(fd) int fd = bound_socket(f->path);
    assert_int_equal(listen(fd, 1), 0);

    assert_int_equal(open_it(f), KILN_BUSY);

    assert_non_null(strstr(f->err.text, pid));
    assert_true(exists(f->path));
}

TEST(listener, refuses_a_file_that_is_not_a_socket_and_leaves_it)
{
    struct fixture *f = *state;
    fclose(fopen(f->path, "w"));

    assert_int_equal(open_it(f), KILN_INVALID);

    assert_non_null(strstr(f->err.text, "is not a socket"));
    assert_true(exists(f->path));
}

TEST(listener, a_socket_replaced_by_another_daemon_is_not_removed)
{
    struct fixture *f = *state;
    assert_int_equal(open_it(f), KILN_OK);
    assert_int_equal(unlink(f->path), 0);
    close(bound_socket(f->path));

    listener_close(&f->listener);

    assert_true(exists(f->path));
}

TEST(listener, a_missing_socket_directory_is_made)
{
    struct fixture *f = *state;
    snprintf(f->path, sizeof(f->path), "%s/run/kiln/kilnd.sock", f->directory);
    assert_int_equal(open_it(f), KILN_OK);
    assert_true(can_connect(f->path));
}

TEST(listener, a_path_too_long_for_a_socket_is_refused)
{
    struct fixture *f = *state;
    char path[200];
    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(listener_open(path, "", &f->listener, &f->err), KILN_INVALID);
    assert_non_null(strstr(f->err.text, "longer than"));
}

static int listening_socket(const char *path)
{
    int fd = bound_socket(path);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

TEST(listener, takes_the_socket_of_the_service_manager_and_leaves_its_file)
{
    struct fixture *f = *state;
    int fd = listening_socket(f->path);
    assert_int_equal(listener_adopt(fd, &f->listener, &f->err), KILN_OK);
    assert_int_equal(f->listener.fd, fd);
    assert_true(f->listener.inherited);
    assert_string_equal(f->listener.path, f->path);
    assert_true(can_connect(f->path));
    listener_close(&f->listener);
    assert_true(exists(f->path));
}

TEST(listener, refuses_an_inherited_socket_that_does_not_listen)
{
    struct fixture *f = *state;
    int fd = bound_socket(f->path);
    assert_int_equal(listener_adopt(fd, &f->listener, &f->err), KILN_INVALID);
    close(fd);
}

TEST(listener, refuses_an_inherited_descriptor_that_is_no_socket)
{
    struct fixture *f = *state;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_not_equal(listener_adopt(fd, &f->listener, &f->err), KILN_OK);
    close(fd);
}

/* ---- kept for the next kilnd ---- */

/* As a kilnd that ends while the service manager keeps its socket. */
static struct inherited_fd store_socket(struct fixture *f)
{
    struct inherited_fd kept;
    assert_int_equal(open_it(f), KILN_OK);
    listener_name(&f->listener, kept.name);
    kept.fd = fcntl(f->listener.fd, F_DUPFD_CLOEXEC, 3);
    f->listener.kept = true;
    listener_close(&f->listener);
    return kept;
}

TEST(listener, a_socket_that_is_kept_stays_reachable_and_is_taken_up_again)
{
    struct fixture *f = *state;
    struct inherited_fd kept = store_socket(f);
    assert_true(can_connect(f->path));
    assert_int_equal(listener_resume(&kept, f->path, "", &f->listener, &f->err), KILN_OK);
    assert_int_equal(kept.fd, -1);
    assert_true(f->listener.kept);
    assert_false(f->listener.inherited);
    struct listener second = LISTENER_CLOSED;
    assert_int_equal(listener_open(f->path, "", &second, &f->err), KILN_BUSY); /* it is locked */
}

TEST(listener, a_kept_socket_is_for_the_group_that_is_set_now)
{
    struct fixture *f = *state;
    struct stat st;
    const struct group *nobody = getgrgid(65534);
    if (geteuid() != 0 || !nobody)
        skip();
    struct inherited_fd kept = store_socket(f);
    assert_int_equal(chmod(f->path, 0666), 0);
    assert_int_equal(listener_resume(&kept, f->path, nobody->gr_name, &f->listener, &f->err),
                     KILN_OK);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_gid, 65534);
    assert_int_equal(st.st_mode & 0777, 0660);
    assert_false(f->listener.root_only);

    kept.fd = fcntl(f->listener.fd, F_DUPFD_CLOEXEC, 3);
    listener_close(&f->listener);
    assert_int_equal(listener_resume(&kept, f->path, "no-such-group", &f->listener, &f->err),
                     KILN_OK);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_gid, getegid());
    assert_true(f->listener.root_only);
}

TEST(listener, a_kept_socket_is_refused_where_its_file_is_another_one)
{
    struct fixture *f = *state;
    struct inherited_fd kept = store_socket(f);
    assert_int_equal(unlink(f->path), 0);
    close(bound_socket(f->path));
    assert_int_equal(listener_resume(&kept, f->path, "", &f->listener, &f->err), KILN_NOT_FOUND);
    assert_non_null(strstr(f->err.text, f->path));
    close(kept.fd);
}

TEST(listener, a_kept_socket_is_refused_where_another_path_is_wanted)
{
    struct fixture *f = *state;
    struct inherited_fd kept = store_socket(f);
    assert_int_equal(listener_resume(&kept, "/elsewhere", "", &f->listener, &f->err),
                     KILN_NOT_FOUND);
    assert_non_null(strstr(f->err.text, "'/elsewhere'"));
    close(kept.fd);
}

TEST(listener, a_kept_socket_with_a_strange_name_is_refused)
{
    struct fixture *f = *state;
    static const char *const names[] = { "kiln-listen-", "kiln-listen-1", "kiln-listen-1-2x",
                                         "kiln-listen-x-y" };
    struct inherited_fd kept = store_socket(f);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct inherited_fd misnamed = { .fd = kept.fd };
        strcpy(misnamed.name, names[i]);
        assert_int_equal(listener_resume(&misnamed, f->path, "", &f->listener, &f->err),
                         KILN_INVALID);
    }
    close(kept.fd);
}
