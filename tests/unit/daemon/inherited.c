/* SPDX-License-Identifier: MIT */
#include "daemon/manager/inherited.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct result {
    int code;
    size_t count;
    char names[3][INHERITED_NAME_MAX];
    bool closes_on_exec, forgotten;
    char text[512];
};

static void take_inherited(const char *count, const char *names, bool for_us, struct result *result)
{
    char pid[32];
    struct inherited in = { 0 };
    struct kiln_err err = KILN_ERR_INIT;
    for (int fd = 3; fd < 6; fd++) {
        int source = open("/dev/null", O_RDONLY);
        if (source != fd && dup2(source, fd) == fd)
            close(source);
    }
    snprintf(pid, sizeof(pid), "%d", for_us ? (int)getpid() : 1);
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", count, 1);
    unsetenv("LISTEN_FDNAMES");
    if (names)
        setenv("LISTEN_FDNAMES", names, 1);
    result->code = inherited_take(&in, &err);
    result->count = in.count;
    for (size_t i = 0; i < in.count && i < 3; i++)
        snprintf(result->names[i], INHERITED_NAME_MAX, "%s", in.items[i].name);
    result->closes_on_exec = in.count > 0 && fcntl(3, F_GETFD) == FD_CLOEXEC;
    result->forgotten = !getenv("LISTEN_FDS") && !getenv("LISTEN_PID") && !getenv("LISTEN_FDNAMES");
    snprintf(result->text, sizeof(result->text), "%s", err.text);
    inherited_done(&in);
}

/* Calls take_inherited in a child process, because take_inherited replaces descriptors 3 to 5. */
static struct result started_with(const char *count, const char *names, bool for_us)
{
    struct result result = { 0 };
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int far = fcntl(ends[1], F_DUPFD_CLOEXEC, 100);
    pid_t child = fork();
    if (child == 0) {
        take_inherited(count, names, for_us, &result);
        _exit(write(far, &result, sizeof(result)) == (ssize_t)sizeof(result) ? 0 : 1);
    }
    close(far);
    close(ends[1]);
    assert_int_equal(await_child(child), 0);
    assert_int_equal(read(ends[0], &result, sizeof(result)), sizeof(result));
    close(ends[0]);
    return result;
}

TEST(plain, passed_descriptors_are_taken_with_their_names)
{
    struct result o = started_with("2", "kilnd.socket:kiln-hot-a", true);
    assert_int_equal(o.code, KILN_OK);
    assert_int_equal(o.count, 2);
    assert_string_equal(o.names[0], "kilnd.socket");
    assert_string_equal(o.names[1], "kiln-hot-a");
    assert_true(o.closes_on_exec);
    assert_true(o.forgotten);
}

TEST(plain, passed_descriptors_without_names_are_unknown)
{
    struct result o = started_with("1", NULL, true);
    assert_int_equal(o.code, KILN_OK);
    assert_string_equal(o.names[0], "unknown");
}

TEST(plain, descriptors_passed_to_another_process_are_not_taken)
{
    struct result o = started_with("1", "kilnd.socket", false);
    assert_int_equal(o.code, KILN_OK);
    assert_int_equal(o.count, 0);
    assert_true(o.forgotten);
}

TEST(plain, fewer_or_more_names_than_descriptors_are_refused)
{
    static const char *const names[] = { "one", "one:two:three", "" };
    for (size_t i = 0; i < 3; i++) {
        struct result o = started_with("2", names[i], true);
        assert_int_equal(o.code, KILN_INVALID);
        assert_says(o.text, "LISTEN_FDNAMES");
    }
}

TEST(plain, a_passed_descriptor_that_is_not_open_is_refused_by_number)
{
    struct result o = started_with("60", NULL, true);
    assert_int_not_equal(o.code, KILN_OK);
    assert_says(o.text, "descriptor 6");
}

TEST(plain, too_many_passed_descriptors_are_refused)
{
    struct result o = started_with("100000", NULL, true);
    assert_int_equal(o.code, KILN_INVALID);
    assert_says(o.text, "LISTEN_FDS=100000");
}

TEST(plain, an_invalid_number_of_passed_descriptors_means_none)
{
    assert_int_equal(started_with("two", NULL, true).count, 0);
    assert_int_equal(started_with("-1", NULL, true).count, 0);
    assert_int_equal(started_with("+1", NULL, true).count, 0);
    assert_int_equal(started_with(" 1", NULL, true).count, 0);
    assert_int_equal(started_with("", NULL, true).count, 0);
}
