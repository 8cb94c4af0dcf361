/* SPDX-License-Identifier: MIT */
#include "common/base/whole_file.h"

#include "common/base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static enum kiln_code fill_file(int fd, const struct whole_file *file, struct kiln_err *err)
{
    if (fchmod(fd, file->mode) != 0)
        return kiln_fail_errno(err, errno, "cannot set its permissions");
    enum kiln_code rc = fs_write_all(fd, file->content, err);
    if (!rc && fsync(fd) != 0)
        rc = kiln_fail_errno(err, errno, "cannot sync it");
    return rc;
}

/* Uses rename(2) to replace an existing file.  Otherwise uses link(2), which fails if the name
 * exists. */
static enum kiln_code move_into_place(int directory_fd, const char *temp,
                                      const struct whole_file *file, struct kiln_err *err)
{
    int failed = file->replace ? renameat(directory_fd, temp, directory_fd, file->name)
                               : linkat(directory_fd, temp, directory_fd, file->name, 0);
    if (failed && errno == EEXIST)
        return kiln_fail(err, KILN_BUSY, "it exists already");
    if (failed)
        return kiln_fail_errno(err, errno, "cannot move it into place");
    return KILN_OK;
}

static enum kiln_code write_file(int directory_fd, const struct whole_file *file,
                                 struct kiln_err *err)
{
    char temp[300];
    int size = snprintf(temp, sizeof(temp), ".%s.tmp", file->name);
    if (size < 0 || (size_t)size >= sizeof(temp))
        return kiln_fail(err, KILN_INVALID, "its name is too long");
    unlinkat(directory_fd, temp, 0);
    KILN_AUTO(fd)
    int fd = openat(directory_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot create a temporary file");
    enum kiln_code rc = fill_file(fd, file, err);
    if (!rc)
        rc = move_into_place(directory_fd, temp, file, err);
    unlinkat(directory_fd, temp, 0);
    if (!rc && fsync(directory_fd) != 0) {
        rc = kiln_fail_errno(err, errno, "cannot sync its directory");
        if (!file->replace)
            unlinkat(directory_fd, file->name, 0);
    }
    return rc;
}

static enum kiln_code open_directory(const char *directory, int *ret_fd, struct kiln_err *err)
{
    *ret_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd < 0 ? kiln_fail_errno(err, errno, "cannot open the directory '%s'", directory)
                       : KILN_OK;
}

enum kiln_code whole_file_write(const struct whole_file *file, struct kiln_err *err)
{
    KILN_AUTO(fd) int directory_fd = -1;
    enum kiln_code rc = open_directory(file->directory, &directory_fd, err);
    if (!rc)
        rc = write_file(directory_fd, file, err);
    return rc ? kiln_while(err, "writing '%s/%s'", file->directory, file->name) : KILN_OK;
}

enum kiln_code whole_file_sync_directory(const char *directory, struct kiln_err *err)
{
    KILN_AUTO(fd) int directory_fd = -1;
    enum kiln_code rc = open_directory(directory, &directory_fd, err);
    if (!rc && fsync(directory_fd) != 0)
        rc = kiln_fail_errno(err, errno, "cannot sync the directory '%s'", directory);
    return rc;
}
