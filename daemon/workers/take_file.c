/* SPDX-License-Identifier: MIT */
#include "daemon/workers/take_file.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

/* A stop waits until one piece has been copied and written, not a whole package. */
#define PIECE (64u << 20)

static enum kiln_code check_size(const struct stat *seen, uint64_t size_max, struct kiln_err *err)
{
    if ((uint64_t)seen->st_size <= size_max)
        return KILN_OK;
    return kiln_fail(err, KILN_FULL,
                     "kiln-transfer wrote a file of %llu bytes, but at most %llu are allowed "
                     "(setting package_limit)",
                     (unsigned long long)seen->st_size, (unsigned long long)size_max);
}

struct original { /* the file to copy; all borrowed */
    int fd;
    off_t size; /* when it was opened; the other user may change it */
    uint64_t size_max;
    const atomic_int *stopped;
};

/* If the file shrinks meanwhile, the copy ends early; if it grows, the copy is cut.  Both copies
 * are refused later, because they do not match the digest that kiln-transfer reported. */
static enum kiln_code copy_bytes(const struct original *from, int to, struct kiln_err *err)
{
    if (ioctl(to, FICLONE, from->fd) == 0)
        return KILN_OK;
    for (off_t left = from->size; left > 0;) {
        if (atomic_load(from->stopped))
            return KILN_CANCELLED;
        ssize_t done =
            copy_file_range(from->fd, NULL, to, NULL, left < PIECE ? (size_t)left : PIECE, 0);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 || fdatasync(to) != 0)
            return kiln_fail_errno(err, errno, "cannot copy the file that kiln-transfer wrote");
        if (done == 0)
            break;
        left -= done;
    }
    return KILN_OK;
}

/* Checks the size of the copy: FICLONE also shares blocks that were appended after the check of the
 * original. */
static enum kiln_code copy_file(const struct original *from, const char *to_path,
                                struct kiln_err *err)
{
    struct stat copied;
    KILN_AUTO(fd) int to = open(to_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0)
        return kiln_fail_errno(err, errno, "cannot make the file '%s'", to_path);
    enum kiln_code rc = copy_bytes(from, to, err);
    if (!rc && fstat(to, &copied) != 0)
        rc = kiln_fail_errno(err, errno, "cannot read the attributes of the file '%s'", to_path);
    if (!rc)
        rc = check_size(&copied, from->size_max, err);
    if (!rc && fsync(to) != 0)
        rc = kiln_fail_errno(err, errno, "cannot write the file '%s'", to_path);
    return rc;
}

enum kiln_code take_copy(const char *path, uint64_t size_max, const atomic_int *stopped,
                         struct kiln_err *err)
{
    char own[PATH_MAX];
    struct stat seen;
    KILN_AUTO(fd) int from = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (from < 0 || fstat(from, &seen) != 0 || !S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_IO, "kiln-transfer did not write the file '%s'", path);
    if ((size_t)snprintf(own, sizeof(own), "%s.own", path) >= sizeof(own))
        return kiln_fail(err, KILN_INVALID, "the path '%s' is too long", path);
    enum kiln_code rc = check_size(&seen, size_max, err);
    if (rc)
        return rc;
    const struct original original = {
        .fd = from, .size = seen.st_size, .size_max = size_max, .stopped = stopped
    };
    rc = copy_file(&original, own, err);
    if (!rc && rename(own, path) != 0)
        rc = kiln_fail_errno(err, errno, "cannot rename '%s'", own);
    if (rc)
        unlink(own);
    return rc;
}
