/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"

#include "common/base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

enum kiln_code fs_make_directories_mode(const char *path, mode_t mode, struct kiln_err *err)
{
    KILN_AUTO(mem) char *partial = strdup(path);
    if (!partial)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to make the directory '%s'", path);
    for (char *at = partial + 1;; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        char cut = *at;
        *at = '\0';
        bool is_made = mkdir(partial, 0700) == 0;
        if (!is_made && errno != EEXIST)
            return kiln_fail_errno(err, errno, "cannot make the directory '%s'", partial);
        if (is_made && mode != 0700 && chmod(partial, mode) != 0)
            return kiln_fail_errno(err, errno, "cannot set the mode of '%s'", partial);
        *at = cut;
        if (cut == '\0')
            break;
    }
    struct stat seen;
    if (stat(path, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot read the attributes of '%s'", path);
    if (!S_ISDIR(seen.st_mode))
        return kiln_fail(err, KILN_INVALID, "'%s' is not a directory", path);
    return KILN_OK;
}

enum kiln_code fs_make_directories(const char *path, struct kiln_err *err)
{
    return fs_make_directories_mode(path, 0700, err);
}

int fs_cut_to_existing(char *path)
{
    struct stat seen;
    while (lstat(path, &seen) != 0) {
        if (errno != ENOENT || strcmp(path, "/") == 0 || strcmp(path, ".") == 0)
            return -1;
        const char *above = dirname(path); /* the result may be a static text, such as "." */
        memmove(path, above, strlen(above) + 1);
    }
    return 0;
}

ssize_t fs_read_at(int fd, void *to, size_t size, off_t at)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(fd, (char *)to + done, size - done, at + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

struct dirent *fs_next_entry(DIR *directory)
{
    errno = 0;
    return readdir(directory);
}

enum kiln_code fs_read_fd(int fd, size_t limit, struct buffer *ret_content, struct kiln_err *err)
{
    uint8_t chunk[16384];
    off_t at = 0;
    for (;;) {
        ssize_t got = pread(fd, chunk, sizeof(chunk), at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kiln_fail_errno(err, errno, "cannot read");
        if (got == 0)
            return KILN_OK;
        at += got;
        if ((size_t)at > limit)
            return kiln_fail(err, KILN_FULL, "it has more than the %zu bytes that are allowed",
                             limit);
        buffer_put(ret_content, chunk, (size_t)got);
        if (ret_content->failed)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for %lld bytes", (long long)at);
    }
}

enum kiln_code fs_read_file(const char *path, size_t limit, struct buffer *ret_content,
                            struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", path);
    enum kiln_code rc = fs_read_fd(fd, limit, ret_content, err);
    return rc ? kiln_while(err, "reading '%s'", path) : KILN_OK;
}

enum kiln_code fs_write_all(int fd, struct bytes content, struct kiln_err *err)
{
    size_t done = 0;
    while (done < content.size) {
        ssize_t put = write(fd, content.data + done, content.size - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return kiln_fail_errno(err, errno, "cannot write %zu bytes", content.size - done);
        done += (size_t)put;
    }
    return KILN_OK;
}

enum kiln_code fs_lock_at(int directory_fd, const char *name, int flags, struct fs_lock *ret_lock,
                          struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = openat(directory_fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    *ret_lock = (struct fs_lock){ .fd = -1 };
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open the lock '%s'", name);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        ret_lock->fd = fd;
        fd = -1;
        return KILN_OK;
    }
    if (errno != EWOULDBLOCK)
        return kiln_fail_errno(err, errno, "cannot lock '%s'", name);
    char text[32] = "";
    uint64_t pid = 0;
    if (pread(fd, text, sizeof(text) - 1, 0) > 0)
        text[strcspn(text, "\n")] = '\0';
    (void)units_parse_number(text, INT_MAX, &pid);
    ret_lock->holder = (pid_t)pid;
    return kiln_fail(err, KILN_BUSY, "another process holds the lock '%s'", name);
}

void fs_write_pid(int fd)
{
    char text[32];
    int size = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)size, 0) < 0)
        return;
}

static enum kiln_code sync_directory_of(const char *path, struct kiln_err *err)
{
    KILN_AUTO(mem) char *copy = strdup(path);
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to sync the directory of '%s'", path);
    KILN_AUTO(fd) int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        return kiln_fail_errno(err, errno, "cannot sync the directory of '%s'", path);
    return KILN_OK;
}

enum kiln_code fs_replace_file_by(const char *path, mode_t mode, fs_writer *write, void *context,
                                  struct kiln_err *err)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary))
        return kiln_fail(err, KILN_INVALID, "the path '%.80s...' is too long", path);
    KILN_AUTO(fd) int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno,
                               "cannot create a temporary file in the directory of '%s'", path);
    enum kiln_code rc = write(context, fd, err);
    if (!rc && (fchmod(fd, mode) != 0 || fsync(fd) != 0 || rename(temporary, path) != 0))
        rc = kiln_fail_errno(err, errno, "cannot replace '%s'", path);
    if (rc) {
        unlink(temporary);
        return kiln_while(err, "writing '%s'", path);
    }
    return sync_directory_of(path, err);
}

static enum kiln_code write_content(void *content, int fd, struct kiln_err *err)
{
    return fs_write_all(fd, *(const struct bytes *)content, err);
}

enum kiln_code fs_replace_file(const char *path, struct bytes content, mode_t mode,
                               struct kiln_err *err)
{
    return fs_replace_file_by(path, mode, write_content, &content, err);
}

enum kiln_code fs_memfd(const char *name, int *ret_fd, struct kiln_err *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot make the memory file '%s'", name);
    *ret_fd = fd;
    return KILN_OK;
}

enum kiln_code fs_seal(int fd, struct kiln_err *err)
{
    if (fcntl(fd, F_ADD_SEALS, ALL_SEALS) != 0)
        return kiln_fail_errno(err, errno, "cannot seal a memory file");
    return KILN_OK;
}

bool fs_is_sealed(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & ALL_SEALS) == ALL_SEALS;
}
