/* SPDX-License-Identifier: MIT */
#include "daemon/workers/keeper.h"

#include "daemon/loop/orphan.h"
#include "daemon/workers/launch.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static enum kiln_code start(struct keeper *k, struct kiln_err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return kiln_fail_errno(err, errno, "cannot make a socket for '%s'", k->program);
    static const char *const arguments[] = { "kiln-launch", "--keep", NULL };
    const struct loop_spawn spawn = {
        .program = k->program, .arguments = arguments, .fd_2 = -1, .fd_3 = ends[1]
    };
    enum kiln_code rc = loop_orphan_start(&spawn, err);
    close(ends[1]);
    if (rc)
        close(ends[0]);
    else
        k->control = ends[0];
    return rc;
}

enum kiln_code keeper_pass(struct keeper *k, const char *program, int connection, int fd_2,
                           struct kiln_err *err)
{
    const char *const arguments[] = { program, NULL };
    const struct launch_request request = { .arguments = arguments,
                                            .fd_3 = connection,
                                            .folder = fd_2 };
    if (k->control >= 0 && launch_send_request(k->control, &request, err) == KILN_OK)
        return KILN_OK;
    keeper_close(k);
    enum kiln_code rc = start(k, err);
    return rc ? rc : launch_send_request(k->control, &request, err);
}

void keeper_close(struct keeper *k)
{
    if (k->control >= 0)
        close(k->control);
    k->control = -1;
}
