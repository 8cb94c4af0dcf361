/* SPDX-License-Identifier: MIT */
#include "engine/service/file_object.h"

#include "common/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

static enum kiln_code copy(int from, int to, uint64_t size, struct kiln_err *err)
{
    for (uint64_t done = 0; done < size;) {
        ssize_t put = sendfile(to, from, /* offset= */ NULL, size - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return kiln_fail_errno(err, errno, "cannot copy it into memory");
        if (put == 0)
            return kiln_fail(err, KILN_IO, "it became shorter while it was read");
        done += (uint64_t)put;
    }
    return KILN_OK;
}

enum kiln_code object_of_file(const char *path, struct object **ret_object, struct kiln_err *err)
{
    KILN_AUTO(fd) int from = open(path, O_RDONLY | O_CLOEXEC);
    struct stat seen;
    if (from < 0 || fstat(from, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot read '%s'", path);
    if ((uint64_t)seen.st_size > LIMIT_CODE_OBJECT)
        return kiln_fail(err, KILN_FULL,
                         "the file would have %lld bytes, %u are the most that can be handed over: "
                         "ask for less at once",
                         (long long)seen.st_size, LIMIT_CODE_OBJECT);
    KILN_AUTO(fd) int to = -1;
    enum kiln_code rc = fs_memfd("kiln-file", &to, err);
    if (!rc)
        rc = copy(from, to, (uint64_t)seen.st_size, err);
    if (rc)
        return kiln_while(err, "handing over '%s'", path);
    int given = to;
    to = -1;
    return object_from_memfd(given, /* compile_ns= */ 0, ret_object, err);
}
