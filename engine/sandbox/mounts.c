/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/mounts.h"

#include "common/base/cleanup.h"
#include "engine/sandbox/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES_MAX 16384u

/* Makes all mounts slaves: mounts that the host makes later appear in this namespace, too, but
 * mounts made here do not appear on the host (mount_namespaces(7)). */
static bool make_mounts_slaves(void)
{
    return mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) == 0;
}

static void limit_processes(unsigned max)
{
    char text[16];
    int size = snprintf(text, sizeof(text), "%u", max);
    KILN_AUTO(fd) int fd = open("/proc/sys/kernel/pid_max", O_WRONLY | O_CLOEXEC);
    ssize_t done = fd >= 0 ? write(fd, text, (size_t)size) : 0;
    (void)done; /* if this failed, RLIMIT_NPROC still limits the processes */
}

enum kiln_code mounts_own_proc(unsigned processes, struct kiln_err *err)
{
    if (!make_mounts_slaves() ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        return kiln_fail_errno(err, errno, "cannot mount a private /proc");
    if (kernel_since(6, 14)) /* before Linux 6.14, pid_max was one number for the whole host, which
                              * must not be changed */
        limit_processes(processes);
    return KILN_OK;
}

/* Mounts a tmpfs at |directory|. If this process is root, the owner of |directory| also owns the
 * tmpfs. Otherwise this process's user owns the tmpfs, because the user namespace has no other
 * users. */
static bool mount_tmpfs(const char *directory, uint64_t bytes)
{
    char options[128];
    struct stat seen;
    if (stat(directory, &seen) != 0)
        return false;
    bool is_root = geteuid() == 0;
    snprintf(options, sizeof(options), "size=%" PRIu64 ",nr_inodes=%u,mode=0700,uid=%u,gid=%u",
             bytes, FILES_MAX, (unsigned)(is_root ? seen.st_uid : geteuid()),
             (unsigned)(is_root ? seen.st_gid : getegid()));
    return mount("kiln", directory, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0;
}

/* Used instead of glibc's mount_setattr, which only exists since glibc 2.36. */
static bool set_attributes(const char *path, unsigned flags, const struct mount_attr *attributes)
{
    return syscall(SYS_mount_setattr, AT_FDCWD, path, flags, attributes, sizeof(*attributes)) == 0;
}

enum kiln_code mounts_read_only_but(const char *directory, uint64_t free_space,
                                    struct kiln_err *err)
{
    struct mount_attr lock = { .attr_set = MOUNT_ATTR_RDONLY };
    struct mount_attr open_again = { .attr_clr = MOUNT_ATTR_RDONLY };
    if (make_mounts_slaves() &&
        (free_space ? mount_tmpfs(directory, free_space)
                    : mount(directory, directory, NULL, MS_BIND, NULL) == 0) &&
        set_attributes("/", AT_RECURSIVE, &lock) && set_attributes(directory, 0, &open_again) &&
        chdir(directory) == 0)
        return KILN_OK;
    return kiln_fail_errno(err, errno, "cannot mount all but '%s' read-only", directory);
}
