/* SPDX-License-Identifier: MIT */
#include "daemon/server/peer.h"

#include "tests/support/test.h"

#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOMEBODY 65534
#define PUBLISHERS 45001
#define ADMINS 45002
#define OTHERS 45003

struct fixture {
    int listener;
    struct sockaddr_un address;
    struct kiln_err err;
};

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                          .address = { .sun_family = AF_UNIX },
                          .err = KILN_ERR_INIT };
    assert_true(f.listener >= 0);
    /* An abstract name, which goes with the socket: whoever it is may connect. */
    snprintf(f.address.sun_path + 1, sizeof(f.address.sun_path) - 1, "kiln-test-peer-%d",
             (int)getpid());
    assert_int_equal(bind(f.listener, (struct sockaddr *)&f.address, sizeof(f.address)), 0);
    assert_int_equal(listen(f.listener, 1), 0);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    close(f->listener);
    return 0;
}

static void connect_as(const struct fixture *f, gid_t gid, gid_t second)
{
    char byte;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_other = setgroups(1, &second) == 0 && setgid(gid) == 0 && setuid(SOMEBODY) == 0;
    if (!is_other || connect(fd, (const struct sockaddr *)&f->address, sizeof(f->address)) != 0)
        _exit(1);
    ssize_t ignored = read(fd, &byte, 1); /* until the other end is closed */
    (void)ignored;
    _exit(0);
}

static enum role role_of(struct fixture *f, gid_t gid, gid_t second)
{
    const struct peer_groups groups = { .admin = ADMINS, .publish = PUBLISHERS };
    struct peer peer;
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        connect_as(f, gid, second);
    int fd = accept(f->listener, NULL, NULL);
    assert_true(fd >= 0);
    must(peer_of(fd, &groups, &peer, &f->err), f->err);
    close(fd);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(peer.uid, SOMEBODY);
    return peer.role;
}

static void groups_say_who_may_administrate_and_who_may_publish(void **state)
{
    struct fixture *f = *state;
    if (geteuid() != 0) {
        print_message("SKIPPED: only root can become somebody else\n");
        skip();
    }
    assert_int_equal(role_of(f, OTHERS, OTHERS), ROLE_USE);
    assert_int_equal(role_of(f, PUBLISHERS, OTHERS), ROLE_PUBLISH);
    assert_int_equal(role_of(f, OTHERS, PUBLISHERS), ROLE_PUBLISH);
    assert_int_equal(role_of(f, ADMINS, OTHERS), ROLE_ADMIN);
    assert_int_equal(role_of(f, PUBLISHERS, ADMINS), ROLE_ADMIN);
}

static void no_name_and_one_that_the_host_has_not_are_no_group(void **state)
{
    (void)state;
    assert_true(peer_publish_group(NULL) == PEER_NO_GROUP);
    assert_true(peer_publish_group("") == PEER_NO_GROUP);
    assert_true(peer_publish_group("no-such-group-of-kiln") == PEER_NO_GROUP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(groups_say_who_may_administrate_and_who_may_publish, set_up,
                                        tear_down),
        cmocka_unit_test(no_name_and_one_that_the_host_has_not_are_no_group),
    };
    return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
