/* SPDX-License-Identifier: MIT */
#include "daemon/server/descriptors.h"

#include "common/log.h"
#include "daemon/manager/parcel.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Nobody's, so that nothing else of it is in flight. */
#define SOMEBODY 61234
#define FILES_MOST 4096
#define SHARES ((struct descriptor_shares){ .connections = 64, .hot_count = 64 })

static size_t most_with(rlim_t soft)
{
    struct rlimit files;
    size_t most = 0;
    int ends[2], status;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        if (getrlimit(RLIMIT_NOFILE, &files) < 0)
            _exit(90);
        files.rlim_cur = soft;
        if (setrlimit(RLIMIT_NOFILE, &files) < 0)
            _exit(91);
        descriptors_share(SHARES);
        descriptors_share(SHARES); /* as at a reload, with the limit raised */
        most = descriptors_in_flight_most();
        _exit(write(ends[1], &most, sizeof(most)) != sizeof(most));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &most, sizeof(most)), sizeof(most));
    close(ends[0]);
    close(ends[1]);
    return most;
}

static void say_nothing(enum log_level level, const char *message)
{
    (void)level;
    (void)message;
}

static bool limits_reach(rlim_t wanted)
{
    struct rlimit files;
    return getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max >= wanted;
}

TEST(plain, the_limit_we_were_started_with_counts_not_the_raised_one)
{
    if (!limits_reach(8000))
        skip();
    assert_int_equal(most_with(1024), 256);
    assert_int_equal(most_with(4096), 1024);
    assert_int_equal(most_with(8000), 3600);
}

/* ---- another program of the same user ---- */

static bool can_send_a_descriptor(void)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    char byte = 0;
    struct iovec text = { .iov_base = &byte, .iov_len = 1 };
    struct msghdr m = { .msg_iov = &text,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof(control) };
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &ends[0], sizeof(int));
    return sendmsg(ends[1], &m, MSG_NOSIGNAL) == 1;
}

/* As kilnd while one image takes the place of another. */
static int fill_and_send(void)
{
    static int files[FILES_MOST];
    struct rlimit limit;
    struct kiln_err err = KILN_ERR_INIT;
    int first[2], second[2];
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 90;
    limit.rlim_cur = 1024;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || setresuid(SOMEBODY, SOMEBODY, SOMEBODY) < 0)
        return 91;
    descriptors_share(SHARES);
    size_t most = descriptors_in_flight_most();
    if (most > FILES_MOST)
        return 92;
    for (size_t i = 0; i < most; i++)
        files[i] = STDIN_FILENO;
    if (parcel_pack(bytes_of_text("index"), files, most, first, &err) ||
        parcel_pack(bytes_of_text("index"), files, most, second, &err))
        return 93;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0) /* as a process that did not raise it */
        return 94;
    return can_send_a_descriptor() ? 0 : 95;
}

TEST(plain, two_images_leave_room_for_other_programs_of_the_user)
{
    int status;
    if (geteuid() != 0 || !limits_reach(8000))
        skip();
    pid_t child = fork();
    if (child == 0)
        _exit(fill_and_send());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- shares; the last, as it raises the limit of this process ---- */

TEST(plain, many_workers_leave_less_for_the_others)
{
    const struct descriptor_shares wanted = { .connections = 10000000, .hot_count = 10000000 };
    struct descriptor_shares with_many = wanted;
    if (!limits_reach(8000))
        skip();
    log_set_sink(say_nothing);
    struct descriptor_shares alone = descriptors_share(wanted);
    with_many.workers = 500;
    with_many = descriptors_share(with_many);
    log_set_sink(NULL);
    assert_int_equal(with_many.connections + with_many.hot_count + 500 * DESCRIPTORS_A_WORKER,
                     alone.connections + alone.hot_count);
}
