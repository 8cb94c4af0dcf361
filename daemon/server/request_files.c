/* SPDX-License-Identifier: MIT */
#include "daemon/server/request_files.h"

void request_files_init(struct request_files *files, struct closer *closer, uid_t uid)
{
    *files = (struct request_files){ .closer = closer, .uid = uid };
}

void request_files_expect(struct request_files_buffer *control, struct msghdr *message)
{
    message->msg_control = control;
    message->msg_controllen = sizeof(*control);
}

static bool keep_file(struct request_files *files, int fd)
{
    if (files->count == LIMIT_REQUEST_FILES) {
        closer_take(files->closer, files->uid, fd);
        return false;
    }
    files->fds[files->count++] = fd;
    return true;
}

bool request_files_received(struct request_files *files, const struct msghdr *message)
{
    bool fits = !(message->msg_flags & MSG_CTRUNC);
    int fds[LIMIT_FRAME_DESCRIPTORS];
    size_t count = fd_message_take(message, fds, LIMIT_FRAME_DESCRIPTORS);
    if (count > 0)
        closer_charge(files->closer, files->uid, (unsigned)count);
    for (size_t i = 0; i < count; i++)
        fits = keep_file(files, fds[i]) && fits;
    files->is_cut |= !fits;
    return fits;
}

bool request_files_are(const struct request_files *files, unsigned announced)
{
    return files->count == announced && !files->is_cut;
}

void request_files_clear(struct request_files *files)
{
    files->count = 0;
    files->is_cut = false;
}

void request_files_drop(struct request_files *files)
{
    while (files->count > 0)
        closer_take(files->closer, files->uid, files->fds[--files->count]);
    files->is_cut = false;
}
