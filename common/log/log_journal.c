/* SPDX-License-Identifier: MIT */
#include "common/log/log_journal.h"

#include "common/base/fd_message.h"
#include "common/base/fs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum kiln_code journal_open(const char *path, int *ret_fd, struct kiln_err *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(address.sun_path))
        return kiln_fail(err, KILN_INVALID, "the path of journald's socket '%s' is too long", path);
    strcpy(address.sun_path, path);
    KILN_AUTO(fd) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot make a socket for journald");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return kiln_fail_errno(err, errno, "cannot reach journald at '%s'", path);
    *ret_fd = fd;
    fd = -1;
    return KILN_OK;
}

static bool send_as_file(int socket, struct bytes record)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    KILN_AUTO(fd) int fd = -1;
    if (fs_memfd("kiln-log", &fd, &ignored) || fs_write_all(fd, record, &ignored) ||
        fs_seal(fd, &ignored))
        return false;
    return fd_message_send(socket, bytes_of(NULL, 0), &fd, 1, 0) >= 0;
}

bool journal_send(int fd, struct bytes record)
{
    if (send(fd, record.data, record.size, MSG_NOSIGNAL) >= 0)
        return true;
    return (errno == EMSGSIZE || errno == ENOBUFS) && send_as_file(fd, record);
}

bool journal_is_stream(const char *variable, int fd)
{
    unsigned long long device, inode;
    char rest;
    struct stat seen;
    return variable && sscanf(variable, "%llu:%llu%c", &device, &inode, &rest) == 2 &&
           fstat(fd, &seen) == 0 && seen.st_dev == (dev_t)device && seen.st_ino == (ino_t)inode;
}
