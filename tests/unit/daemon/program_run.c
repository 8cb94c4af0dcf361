/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/program_run.h"

#include "tests/support/child.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOCKET_FD 3
#define HIGH_FD 100 /* above the descriptors of the program */

static void set_up_fd_3(enum program_fd_3 kind, int end)
{
    int own[2];
    switch (kind) {
    case FD_3_NONE: close(SOCKET_FD); break;
    case FD_3_NO_SOCKET: dup2(open("/dev/null", O_RDWR | O_CLOEXEC), SOCKET_FD); break;
    case FD_3_SOCKET: dup2(end, SOCKET_FD); break;
    case FD_3_FOREIGN:
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, own) == 0)
            dup2(fcntl(own[0], F_DUPFD_CLOEXEC, HIGH_FD), SOCKET_FD);
        break;
    }
}

static void run_program(const struct program_steps *steps, const char *const *arguments, int output,
                        int end)
{
    int count = 0;
    while (arguments[count])
        count++;
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    set_up_fd_3(steps->fd_3, end);
    if (steps->before)
        steps->before();
    int status = steps->run(count, (char **)(uintptr_t)arguments);
    fflush(NULL);
    _exit(status);
}

static int move_up(int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    assert_true(moved >= 0);
    close(fd);
    return moved;
}

struct program_end program_run(const struct program_steps *steps, const char *const *arguments)
{
    struct program_end end;
    int ends[2], output = move_up(memfd_create("output", MFD_CLOEXEC));
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    ends[0] = move_up(ends[0]);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        run_program(steps, arguments, output, ends[0]);
    int status = await_child(child);
    end.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    ssize_t got = pread(output, end.text, sizeof(end.text) - 1, 0);
    assert_true(got >= 0);
    end.text[got] = '\0';
    close(output);
    close(ends[0]);
    close(ends[1]);
    return end;
}
