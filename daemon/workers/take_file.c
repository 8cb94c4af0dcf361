/* SPDX-License-Identifier: MIT */
#include "daemon/workers/take_file.h"

#include "common/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Size of the pieces in which a file is copied.  If the copy must be synced, each piece is written
 * to the disk before the next one is copied.  Otherwise the sync at the end would have to write the
 * whole file at once.  On a filesystem with reflinks, copy_file_range shares the blocks of a
 * piece. */
#define PIECE (4u << 20)

static enum kiln_code check_size(const struct stat *seen, uint64_t size_max, struct kiln_err *err)
{
    if ((uint64_t)seen->st_size <= size_max)
        return KILN_OK;
    return kiln_fail(err, KILN_FULL,
                     "kiln-transfer wrote a file of %llu bytes, but at most %llu are allowed "
                     "(setting package_limit)",
                     (unsigned long long)seen->st_size, (unsigned long long)size_max);
}

static enum kiln_code begin(struct file_take *t, struct kiln_err *err)
{
    struct stat seen;
    t->has_begun = true;
    t->from_fd = t->to_fd = -1;
    t->from_fd = open(t->from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (t->from_fd < 0 || fstat(t->from_fd, &seen) != 0 || !S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_IO, "kiln-transfer did not write the file '%s'", t->from);
    enum kiln_code rc = check_size(&seen, t->size_max, err);
    if (rc)
        return rc;
    t->to_fd = open(t->to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (t->to_fd < 0)
        return kiln_fail_errno(err, errno, "cannot make the file '%s'", t->to);
    t->left = seen.st_size;
    return KILN_OK;
}

/* Copies the next piece.  If the other user changes the size of the file meanwhile, the copy
 * differs from the file. kilnd then rejects the copy of a package, because the copy does not match
 * the digest that kiln-transfer reported.  From the copy of a user's import, kilnd reads everything
 * that is readable, as from a damaged file. */
static enum kiln_code copy_piece(struct file_take *t, struct kiln_err *err)
{
    ssize_t done;
    if (atomic_load(t->stopped))
        return KILN_CANCELLED;
    do {
        done = copy_file_range(t->from_fd, NULL, t->to_fd, NULL,
                               t->left < PIECE ? (size_t)t->left : PIECE, 0);
    } while (done < 0 && errno == EINTR);
    if (done < 0 || (t->is_synced && fdatasync(t->to_fd) != 0))
        return kiln_fail_errno(err, errno, "cannot copy the file that kiln-transfer wrote");
    t->left = done == 0 ? 0 : t->left - done;
    t->size += (uint64_t)done;
    return KILN_OK;
}

enum kiln_code take_copy(struct file_take *t, bool *ret_more, struct kiln_err *err)
{
    enum kiln_code rc = t->has_begun ? KILN_OK : begin(t, err);
    if (!rc && t->left > 0)
        rc = copy_piece(t, err);
    *ret_more = !rc && t->left > 0;
    if (*ret_more)
        return KILN_OK;
    if (!rc && t->is_synced && fsync(t->to_fd) != 0)
        rc = kiln_fail_errno(err, errno, "cannot write the file '%s'", t->to);
    if (rc && t->to_fd >= 0)
        unlink(t->to);
    fd_auto(&t->from_fd);
    fd_auto(&t->to_fd);
    return rc;
}
