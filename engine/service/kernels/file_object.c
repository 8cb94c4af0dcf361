/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/file_object.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum kiln_code object_of_file(const char *path, struct object **ret_object, struct kiln_err *err)
{
    static const struct digest unknown;
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat seen;
    if (fd < 0 || fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot read '%s'", path);
    int given = fd;
    fd = -1;
    enum kiln_code rc =
        object_from_checked(given, (uint64_t)seen.st_size, &unknown, ret_object, err);
    return rc ? kiln_while(err, "exporting '%s'", path) : KILN_OK;
}
