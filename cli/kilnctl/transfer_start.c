/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/transfer_start.h"

#include "common/base/cleanup.h"

#include <errno.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKET_FD 3

/* Both ends of the socket are close-on-exec. The child gets a copy of its end as descriptor 3,
 * which stays open. */
static int spawn_program(const char *program, char *const argv[], int socket, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    int errnum = posix_spawn_file_actions_init(&actions);
    if (errnum)
        return errnum;
    errnum = posix_spawn_file_actions_adddup2(&actions, socket, SOCKET_FD);
    if (!errnum)
        errnum = posix_spawn(ret_pid, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return errnum;
}

int transfer_start(const char *program, char *const argv[], int *ret_socket, pid_t *ret_pid,
                   struct kiln_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return cli_fail_errno(err, errno, "cannot talk to '%s'", program);
    KILN_AUTO(fd) int ours = pair[0];
    int errnum = spawn_program(program, argv, pair[1], ret_pid);
    close(pair[1]);
    if (errnum)
        return cli_fail_errno(err, errnum, "cannot start '%s'", program);
    *ret_socket = ours;
    ours = -1;
    return KILN_E_OK;
}
