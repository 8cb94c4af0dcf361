/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/mounts.h"

#include "common/cleanup.h"
#include "engine/sandbox/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 16384u /* in a directory of bounded room */

/* What the host mounts and unmounts later is so here too, and nothing of ours is so there. */
static bool follow_only(void) { return mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) == 0; }

static void bound_processes(unsigned most)
{
    char text[16];
    int size = snprintf(text, sizeof(text), "%u", most);
    KILN_AUTO(fd) int fd = open("/proc/sys/kernel/pid_max", O_WRONLY | O_CLOEXEC);
    ssize_t done = fd >= 0 ? write(fd, text, (size_t)size) : 0;
    (void)done; /* RLIMIT_NPROC is the other bound */
}

enum kiln_code mounts_own_proc(unsigned processes, struct kiln_err *err)
{
    if (!follow_only() ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        return kiln_fail_errno(err, errno, "cannot mount a /proc of its own");
    if (kernel_since(6,
                     14)) /* before that the number is the whole host's, and not ours to change */
        bound_processes(processes);
    return KILN_OK;
}

/* In memory; of whoever the directory is, or of ourselves where nobody else exists for us. */
static bool mount_room(const char *directory, uint64_t room)
{
    char options[128];
    struct stat seen;
    if (stat(directory, &seen) != 0)
        return false;
    bool is_root = geteuid() == 0;
    snprintf(options, sizeof(options), "size=%" PRIu64 ",nr_inodes=%u,mode=0700,uid=%u,gid=%u",
             room, FILES_MAX, (unsigned)(is_root ? seen.st_uid : geteuid()),
             (unsigned)(is_root ? seen.st_gid : getegid()));
    return mount("kiln", directory, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0;
}

enum kiln_code mounts_read_only_but(const char *directory, uint64_t room, struct kiln_err *err)
{
    struct mount_attr lock = { .attr_set = MOUNT_ATTR_RDONLY };
    struct mount_attr open_again = { .attr_clr = MOUNT_ATTR_RDONLY };
    if (follow_only() &&
        (room ? mount_room(directory, room)
              : mount(directory, directory, NULL, MS_BIND, NULL) == 0) &&
        mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &lock, sizeof(lock)) == 0 &&
        mount_setattr(AT_FDCWD, directory, 0, &open_again, sizeof(open_again)) == 0 &&
        chdir(directory) == 0)
        return KILN_OK;
    return kiln_fail_errno(err, errno, "cannot mount all but '%s' read-only", directory);
}
