/* SPDX-License-Identifier: MIT */
#include "engine/transfer/copy_file.h"

#include "common/base/fs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (256u << 10)

static enum kiln_code read_at(int fd, uint8_t *chunk, uint64_t at, size_t *ret_size,
                              struct kiln_err *err)
{
    ssize_t got;
    do
        got = pread(fd, chunk, CHUNK, (off_t)at);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return kiln_fail_errno(err, errno, "cannot read the file");
    *ret_size = (size_t)got;
    return KILN_OK;
}

static enum kiln_code check_regular(int fd, uint64_t *ret_size, struct kiln_err *err)
{
    struct stat seen;
    if (fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot examine the file");
    if (!S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_INVALID,
                         "it is not a regular file: a package cannot come from a pipe, a directory "
                         "or a device");
    *ret_size = (uint64_t)seen.st_size;
    return KILN_OK;
}

static enum kiln_code refuse_size(const struct copy_limit *limit, struct kiln_err *err)
{
    return kiln_fail(err, KILN_FULL, "the file is larger than %llu bytes, %s",
                     (unsigned long long)limit->bytes, limit->name);
}

enum kiln_code copy_file(int from_fd, int to_fd, const struct copy_limit *limit,
                         const struct transfer_sink *sink, struct kiln_err *err)
{
    uint64_t at = 0, total = 0;
    enum kiln_code rc = check_regular(from_fd, &total, err);
    if (!rc && total > limit->bytes)
        return refuse_size(limit, err);
    KILN_AUTO(mem) uint8_t *chunk = malloc(CHUNK);
    if (!chunk)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to copy the file");
    while (!rc) {
        size_t size = 0;
        rc = read_at(from_fd, chunk, at, &size, err);
        if (rc || size == 0)
            break;
        if (size > limit->bytes - at)
            return refuse_size(limit, err);
        rc = fs_write_all(to_fd, bytes_of(chunk, size), err);
        if (rc)
            return kiln_while(err, "copying into the package directory");
        at += size;
        transfer_report(sink, "fetching", at, total);
    }
    return rc;
}
