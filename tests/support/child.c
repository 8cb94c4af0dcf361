/* SPDX-License-Identifier: MIT */
#include "tests/support/child.h"

#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAUSE_MS 5

int await_process(pid_t pid, const char *what, int max_s)
{
    int status = 0;
    pid_t ended;
    /* With a pidfd, poll() returns as soon as the process ends. Otherwise, poll() waits
     * PAUSE_MS, because it ignores the descriptor -1. */
    struct pollfd end = { .fd = pid > 0 ? pidfd_open(pid, 0) : -1, .events = POLLIN };
    for (int waited_ms = 0; (ended = waitpid(pid, &status, WNOHANG)) == 0; waited_ms += PAUSE_MS) {
        if (waited_ms >= max_s * 1000) {
            if (pid > 0)
                kill(pid, SIGKILL);
            fail_wait(max_s, what);
        }
        poll(&end, 1, PAUSE_MS);
    }
    if (end.fd >= 0)
        close(end.fd);
    assert_true(ended > 0);
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

/* Returns true if the pipe still has a writer after |timeout_ms|. poll(2) returns POLLHUP even
 * if no event is requested. */
static bool poll_writer(int reading_fd, int timeout_ms)
{
    struct pollfd end = { .fd = reading_fd };
    return poll(&end, 1, timeout_ms) == 0;
}

bool has_writer(int reading_fd) { return poll_writer(reading_fd, 0); }

void await_no_writer(int reading_fd)
{
    if (poll_writer(reading_fd, WAIT_MAX_S * 1000))
        fail_msg("waited %d s for a pipe to have no writer", WAIT_MAX_S);
}
