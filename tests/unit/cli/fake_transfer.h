/* SPDX-License-Identifier: MIT */
#pragma once

/* A fake kiln-transfer --snapshot: the command under test starts the test program again, as the
 * fake. Only one file of a test may include this header. test_setenv(FAKE_TRANSFER, ...) selects
 * the behaviour of the fake. If the variable is not set, kiln-transfer seems not to be
 * installed. */
#include "cli/kilnctl/snapshot_program.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAKE_TRANSFER "KILN_TEST_TRANSFER"

bool snapshot_program_find(char ret_path[PATH_MAX])
{
    ssize_t size = readlink("/proc/self/exe", ret_path, PATH_MAX - 1);
    if (size > 0)
        ret_path[size] = '\0';
    return getenv(FAKE_TRANSFER) && size > 0;
}

static int fake_transfer_answer(const char *text, int fd)
{
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = { 0 };
    struct iovec part = { .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    if (fd >= 0) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof(control.space);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    }
    return sendmsg(3, &message, MSG_NOSIGNAL) > 0 ? 0 : 1;
}

static int fake_transfer_be(const char *path)
{
    const char *behaviour = getenv(FAKE_TRANSFER);
    int fd = open(path, O_RDONLY);
    if (strcmp(behaviour, "merge") == 0)
        return fake_transfer_answer(
            "{\"code\":0,\"text\":\"\",\"merged\":true,\"note\":\"one\\npage\"}", fd);
    if (strcmp(behaviour, "refuse") == 0)
        return fake_transfer_answer("{\"code\":9,\"text\":\"cannot open it\"}", -1);
    if (strcmp(behaviour, "forget") == 0)
        return fake_transfer_answer("{\"code\":0,\"text\":\"\"}", -1);
    if (strcmp(behaviour, "babble") == 0)
        return fake_transfer_answer("{", fd);
    if (strcmp(behaviour, "directory") == 0)
        return fake_transfer_answer("{\"code\":0}", open("/", O_RDONLY | O_DIRECTORY));
    if (strcmp(behaviour, "die") == 0)
        raise(SIGKILL);
    if (strcmp(behaviour, "hang") == 0)
        pause();
    return 7;
}

/* Must be the first line in main() of a test. If the command under test has started this process
 * as kiln-transfer, acts as the fake and returns from main(). */
#define FAKE_TRANSFER_MAIN(argc, argv)                           \
    do {                                                         \
        if ((argc) >= 3 && strcmp((argv)[1], "--snapshot") == 0) \
            return fake_transfer_be((argv)[2]);                  \
    } while (0)
