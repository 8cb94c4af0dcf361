/* SPDX-License-Identifier: MIT */
#include "daemon/server/request_files.h"

#include <string.h>
#include <unistd.h>

void request_files_expect(struct request_files *files, struct msghdr *message)
{
    message->msg_control = files->room;
    message->msg_controllen = sizeof(files->room);
}

static bool keep(struct request_files *files, int fd)
{
    if (files->count == LIMIT_REQUEST_FILES) {
        close(fd);
        return false;
    }
    files->fds[files->count++] = fd;
    return true;
}

bool request_files_received(struct request_files *files, const struct msghdr *message)
{
    bool fits = !(message->msg_flags & MSG_CTRUNC);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c;
         c = CMSG_NXTHDR((struct msghdr *)(uintptr_t)message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
            fits = keep(files, fd) && fits;
        }
    }
    return fits;
}

void request_files_drop(struct request_files *files)
{
    while (files->count > 0)
        close(files->fds[--files->count]);
}
