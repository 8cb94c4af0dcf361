/* SPDX-License-Identifier: MIT */
#include "common/protocol/server_socket.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Maximum number of connections that wait to be accepted.  Beyond it, connect() blocks. kilnd
 * accepts connections in the order of their arrival, whichever user they belong to. */
#define BACKLOG 128
/* Maximum number of attempts to lock the file.  Another process may remove the file after this
 * process opened it; then the next attempt creates a new one. */
#define LOCK_TRIES 8

static bool is_same_file(int fd, const char *path)
{
    struct stat by_fd, by_name;
    return fstat(fd, &by_fd) == 0 && lstat(path, &by_name) == 0 && by_fd.st_dev == by_name.st_dev &&
           by_fd.st_ino == by_name.st_ino;
}

enum kiln_code server_lock_take(const char *path, int *ret_fd, pid_t *ret_holder,
                                struct kiln_err *err)
{
    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        struct fs_lock lock;
        enum kiln_code rc = fs_lock_at(AT_FDCWD, path, O_RDWR | O_CREAT, &lock, err);
        *ret_holder = lock.holder;
        if (!rc && !is_same_file(lock.fd, path)) {
            close(lock.fd);
            continue;
        }
        if (!rc)
            *ret_fd = lock.fd;
        return rc;
    }
    return kiln_fail(err, KILN_BUSY,
                     "cannot lock '%s': other daemons start and stop there continuously", path);
}

static enum kiln_code listen_at(int fd, const char *path, mode_t mode, gid_t gid,
                                struct kiln_err *err)
{
    if (lchown(path, (uid_t)-1, gid) < 0)
        return kiln_fail_errno(err, errno, "cannot change the group of the socket '%s'", path);
    if (chmod(path, mode) < 0)
        return kiln_fail_errno(err, errno, "cannot change the mode of the socket '%s'", path);
    if (listen(fd, BACKLOG) < 0)
        return kiln_fail_errno(err, errno, "cannot listen on '%s'", path);
    return KILN_OK;
}

enum kiln_code server_socket_listen(const char *path, mode_t mode, gid_t gid, int *ret_fd,
                                    struct kiln_err *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, path);
    KILN_AUTO(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot make a socket");
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return kiln_fail_errno(err, errno, "cannot bind the socket '%s'", path);
    enum kiln_code rc = listen_at(fd, path, mode, gid, err);
    if (rc) {
        unlink(path);
        return rc;
    }
    *ret_fd = fd;
    fd = -1;
    return KILN_OK;
}
