/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_SIZE (1u << 20)

const char *new_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int write_bytes(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t put = write(fd, at, size);
        if (put < 0 && errno != EINTR)
            return errno;
        if (put > 0) {
            at += put;
            size -= (size_t)put;
        }
    }
    return 0;
}

static int copy_bytes(int fd, int from)
{
    char *part = malloc(COPY_SIZE);
    int errnum = part ? 0 : ENOMEM;
    for (off_t at = 0; !errnum;) {
        ssize_t got = pread(from, part, COPY_SIZE, at);
        if (got == 0)
            break;
        if (got < 0)
            errnum = errno == EINTR ? 0 : errno;
        else
            errnum = write_bytes(fd, part, (size_t)got);
        at += got > 0 ? got : 0;
    }
    free(part);
    return errnum;
}

static int fill_file(int fd, const struct new_file *file)
{
    mode_t mask = umask(0);
    umask(mask);
    mode_t mode = file->mode ? file->mode : 0666 & ~mask;
    int errnum =
        file->from >= 0 ? copy_bytes(fd, file->from) : write_bytes(fd, file->data, file->size);
    if (!errnum && (fchmod(fd, mode) != 0 || fsync(fd) != 0))
        errnum = errno;
    return errnum;
}

/* Renames the temporary file. If the filesystem cannot rename without replacing an existing file,
 * uses a hard link instead, which most of these filesystems support. */
static int move_file(const char *from, const struct new_file *file)
{
    if (file->replace)
        return rename(from, file->path) == 0 ? 0 : errno;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, file->path, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    if (link(from, file->path) != 0)
        return errno;
    unlink(from);
    return 0;
}

/* Syncs the file's directory, so that the rename survives a power failure. Ignores errors, because
 * not every directory can be synced. */
static void sync_directory(const char *path)
{
    char directory[PATH_MAX];
    snprintf(directory, sizeof(directory), "%.*s.", (int)(new_file_name(path) - path), path);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

static int fail_write(const struct new_file *file, int errnum, struct kiln_error *err)
{
    if (errnum == EEXIST)
        return cli_fail(err, KILN_E_IO, "'%s' exists already", file->path);
    cli_fail_errno(err, errnum, "cannot write '%s'", file->path);
    if (errnum == ENOSPC || errnum == EDQUOT)
        err->code = KILN_E_FULL;
    return err->code;
}

int new_file_write(const struct new_file *file, struct kiln_error *err)
{
    char temporary[PATH_MAX];
    const char *name = new_file_name(file->path);
    int size = snprintf(temporary, sizeof(temporary), "%.*s.%.200s.XXXXXX",
                        (int)(name - file->path), file->path, name);
    struct stat seen;
    if (!*name || size < 0 || (size_t)size >= sizeof(temporary))
        return cli_fail(err, KILN_E_INVALID, "'%s' is not a valid file name", file->path);
    bool there = lstat(file->path, &seen) == 0;
    if (there && !S_ISREG(seen.st_mode)) /* a rename would replace the device or the link itself */
        return cli_fail(err, KILN_E_INVALID, "'%s' exists and is not a regular file", file->path);
    if (there && !file->replace)
        return fail_write(file, EEXIST, err);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return fail_write(file, errno, err);
    int errnum = fill_file(fd, file);
    if (close(fd) != 0 && !errnum)
        errnum = errno;
    if (!errnum)
        errnum = move_file(temporary, file);
    if (errnum) {
        unlink(temporary);
        return fail_write(file, errnum, err);
    }
    sync_directory(file->path);
    return KILN_E_OK;
}
