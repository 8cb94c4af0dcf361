/* SPDX-License-Identifier: MIT */
#include "daemon/loop/spawn.h"

#include "common/base/detached.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#define FIRST_CLOSED 4 /* the child gets no descriptor with this number or a higher one */

static int set_files(posix_spawn_file_actions_t *actions, int fd_2, int fd_3)
{
    int rc = fd_2 < 0
                 ? posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_RDWR, 0)
                 : posix_spawn_file_actions_adddup2(actions, fd_2, STDERR_FILENO);
    if (!rc)
        rc = posix_spawn_file_actions_adddup2(actions, fd_3, FIRST_CLOSED - 1);
    if (!rc)
        rc = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    if (!rc)
        rc = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_RDWR, 0);
    if (!rc)
        rc = posix_spawn_file_actions_addclosefrom_np(actions, FIRST_CLOSED);
    return rc;
}

static int spawn_with(const struct loop_spawn *spawn, int fd_2, int fd_3, pid_t *ret_pid)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    int rc = posix_spawnattr_init(&attributes);
    if (rc)
        return rc;
    rc = posix_spawn_file_actions_init(&actions);
    if (!rc) {
        rc = detached_set_signals(&attributes);
        if (!rc)
            rc = set_files(&actions, fd_2, fd_3);
        if (!rc)
            rc = posix_spawn(ret_pid, spawn->program, &actions, &attributes,
                             (char *const *)(uintptr_t)spawn->arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attributes);
    return rc;
}

/* Returns a descriptor for |fd| that the later calls of dup2 do not overwrite: |fd| itself if its
 * number is |child| or is not used in the child, else a copy.  Returns -1 with errno set on
 * failure. */
static int copy_above_childs(int fd, int child)
{
    return fd >= FIRST_CLOSED || fd == child ? fd : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_CLOSED);
}

static void close_copy(int copy, int original)
{
    if (copy != original && copy >= 0)
        close(copy);
}

int spawn_process(const struct loop_spawn *spawn, pid_t *ret_pid)
{
    int fd_2 = spawn->fd_2 < 0 ? -1 : copy_above_childs(spawn->fd_2, STDERR_FILENO);
    if (fd_2 < 0 && spawn->fd_2 >= 0)
        return errno;
    int fd_3 = copy_above_childs(spawn->fd_3, FIRST_CLOSED - 1);
    int rc = fd_3 < 0 ? errno : spawn_with(spawn, fd_2, fd_3, ret_pid);
    close_copy(fd_3, spawn->fd_3);
    close_copy(fd_2, spawn->fd_2);
    return rc;
}
