/* SPDX-License-Identifier: MIT */
#include "tests/support/child.h"

#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

int await_child(pid_t pid)
{
    int status = 0;
    WAIT_FOR(waitpid(pid, &status, WNOHANG) == pid);
    return status;
}

bool run_in_child(bool (*run)(void *context), void *context)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(run(context) ? 0 : 1);
    return await_child(pid) == 0;
}

void await_progress(int fd, unsigned count)
{
    char byte;
    for (unsigned i = 0; i < count; i++) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        if (poll(&p, 1, WAIT_MAX_S * 1000) != 1 || read(fd, &byte, 1) != 1)
            fail_msg("a child process made no progress after %u of %u steps", i, count);
    }
}
