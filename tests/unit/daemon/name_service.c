/* SPDX-License-Identifier: MIT */

#include "daemon/name_service.h"
#include "tests/support/test.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct group *__real_getgrnam(const char *name);
struct group *__wrap_getgrnam(const char *name);
struct group *__wrap_getgrnam(const char *name)
{
    if (strcmp(name, "hang") == 0)
        pause();
    if (strcmp(name, "crash") == 0)
        raise(SIGKILL);
    if (strcmp(name, "no-memory") != 0)
        return __real_getgrnam(name);
    errno = ENOMEM;
    return NULL;
}

static bool is_hanging; /* whether the wait for the name service's answer times out at once */
static int answer_ms;   /* the timeout that kilnd passed to poll(2) */

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    answer_ms = timeout_ms;
    return __real_poll(fds, count, is_hanging ? 0 : timeout_ms);
}

static int ask_group(const char *name, gid_t *ret_gid, struct kiln_err *err)
{
    *err = KILN_ERR_INIT;
    return (int)name_service_group(name, ret_gid, err);
}

TEST(plain, root_is_found_by_name_and_by_number)
{
    struct name_service_user user;
    struct kiln_err err = KILN_ERR_INIT;
    gid_t gid = 1;
    must(name_service_user("root", &user, &err), err);
    assert_int_equal(user.uid, 0);
    must(name_service_user_of_uid(0, &user, &err), err);
    assert_string_equal(user.name, "root");
    must(name_service_group("root", &gid, &err), err);
    assert_int_equal(gid, 0);
}

TEST(plain, absent_names_and_numbers_are_not_found_without_a_message)
{
    struct name_service_user user;
    struct kiln_err err = KILN_ERR_INIT;
    gid_t gid;
    assert_int_equal(name_service_user("no-such-user-of-kiln", &user, &err), KILN_NOT_FOUND);
    assert_int_equal(name_service_user_of_uid(4000000000u, &user, &err), KILN_NOT_FOUND);
    assert_int_equal(ask_group("no-such-group-of-kiln", &gid, &err), KILN_NOT_FOUND);
    assert_string_equal(err.text, "");
}

TEST(plain, a_name_service_that_crashes_or_fails_is_not_an_absent_group)
{
    struct kiln_err err;
    gid_t gid;
    assert_int_equal(ask_group("crash", &gid, &err), KILN_UNAVAILABLE);
    assert_says(err.text, "'crash'");
    assert_says(err.text, "signal 9");
    assert_int_equal(ask_group("no-memory", &gid, &err), KILN_UNAVAILABLE);
    assert_says(err.text, strerror(ENOMEM));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(plain, a_name_service_that_hangs_is_ended)
{
    struct kiln_err err;
    gid_t gid;
    is_hanging = true;
    assert_int_equal(ask_group("hang", &gid, &err), KILN_UNAVAILABLE);
    is_hanging = false;
    assert_says(err.text, "30 s");
    assert_int_equal(answer_ms, 30000);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}
