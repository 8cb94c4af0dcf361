/* SPDX-License-Identifier: MIT */
#include "engine/package/package_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define HEADER_SIZE 100
#define PATH_LENGTH_MAX 4096

bool package_failure_is_temporary(enum kiln_code code)
{
    return code == KILN_NO_MEMORY || code == KILN_IO;
}

bool file_identity_equal(const struct file_identity *a, const struct file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns &&
           a->log_size == b->log_size;
}

static int64_t nanoseconds(struct timespec t) { return t.tv_sec * INT64_C(1000000000) + t.tv_nsec; }

static struct file_identity identity_of(const struct stat *seen)
{
    return (struct file_identity){
        .device = seen->st_dev,
        .inode = seen->st_ino,
        .size = (uint64_t)seen->st_size,
        .modified_ns = nanoseconds(seen->st_mtim),
        .changed_ns = nanoseconds(seen->st_ctim),
    };
}

static uint64_t log_size_at(int directory_fd, const char *name)
{
    char log[PATH_LENGTH_MAX];
    struct stat seen;
    int size = snprintf(log, sizeof(log), "%s-wal", name);
    bool there =
        size > 0 && (size_t)size < sizeof(log) && fstatat(directory_fd, log, &seen, 0) == 0;
    return there ? (uint64_t)seen.st_size : 0;
}

bool file_identity_at(int directory_fd, const char *name, struct file_identity *ret_identity)
{
    struct stat seen;
    if (fstatat(directory_fd, name, &seen, 0) != 0 || !S_ISREG(seen.st_mode))
        return false;
    *ret_identity = identity_of(&seen);
    ret_identity->log_size = log_size_at(directory_fd, name);
    return true;
}

static uint32_t number_at(const uint8_t *header, size_t offset)
{
    const uint8_t *at = header + offset;
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Returns the size that the header states, or 0 if it cannot be used: SQLite before 3.7 did not
 * update it. */
static uint64_t stated_size(const uint8_t *header)
{
    uint64_t page = (uint64_t)header[16] << 8 | header[17];
    if (page == 1)
        page = 65536;
    bool valid = number_at(header, 24) == number_at(header, 92);
    return valid ? page * number_at(header, 28) : 0;
}

static const char sqlite_magic[16] = "SQLite format 3";

static enum kiln_code refuse_other(const char *path, const uint8_t *header, struct kiln_err *err)
{
    return kiln_fail(err, KILN_CORRUPT, "'%s' is not a package: it is not a SQLite file%s", path,
                     header[0] == '<' ? ", but seems to be a web page: is the URL right, or does "
                                        "it need a login?"
                                      : "");
}

static enum kiln_code check_header(const char *path, const uint8_t *header,
                                   const struct file_identity *identity, struct kiln_err *err)
{
    if (memcmp(header, sqlite_magic, sizeof(sqlite_magic)) != 0)
        return refuse_other(path, header, err);
    uint64_t stated = stated_size(header);
    if (identity->size < stated)
        return kiln_fail(err, KILN_BUSY,
                         "'%s' is incomplete: it has %llu of %llu bytes; if it is not being "
                         "copied now, fetch it again",
                         path, (unsigned long long)identity->size, (unsigned long long)stated);
    bool logged = header[18] == 2 || header[19] == 2;
    if (logged && identity->log_size > 0)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "'%s' has a write-ahead log (MIOpen may be using it): kilnctl pkg "
                         "install '%s' makes a package of both",
                         path, path);
    return KILN_OK;
}

static enum kiln_code read_header(int fd, const char *path, uint8_t header[HEADER_SIZE],
                                  struct kiln_err *err)
{
    size_t have = 0;
    while (have < HEADER_SIZE) {
        ssize_t got = pread(fd, header + have, HEADER_SIZE - have, (off_t)have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kiln_fail_errno(err, errno, "cannot read '%s'", path);
        size_t compared = have < sizeof(sqlite_magic) ? have : sizeof(sqlite_magic);
        if (got == 0 && memcmp(header, sqlite_magic, compared) != 0)
            return refuse_other(path, header, err);
        if (got == 0)
            return kiln_fail(err, KILN_BUSY,
                             "'%s' is incomplete: it has only %zu bytes; if it is not being "
                             "copied now, fetch it again",
                             path, have);
        have += (size_t)got;
    }
    return KILN_OK;
}

static struct file_header header_of(const struct file_identity *identity, const uint8_t *bytes)
{
    return (struct file_header){ .identity = *identity,
                                 .version = number_at(bytes, 60),
                                 .application_id = number_at(bytes, 68) };
}

enum kiln_code package_file_header(const char *path, struct file_header *ret_header,
                                   struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat seen;
    if (fd < 0 || fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", path);
    if (!S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_CORRUPT, "'%s' is not a package: it is not a regular file",
                         path);
    struct file_identity identity = identity_of(&seen);
    identity.log_size = log_size_at(AT_FDCWD, path);
    uint8_t header[HEADER_SIZE];
    enum kiln_code rc = read_header(fd, path, header, err);
    if (!rc)
        rc = check_header(path, header, &identity, err);
    if (rc)
        return rc;
    *ret_header = header_of(&identity, header);
    return KILN_OK;
}

enum kiln_code package_image_header(struct bytes image, const char *name,
                                    struct file_header *ret_header, struct kiln_err *err)
{
    const struct file_identity identity = { .size = image.size };
    if (image.size < HEADER_SIZE)
        return kiln_fail(err, KILN_CORRUPT, "'%s' is not a package: it has only %zu bytes", name,
                         image.size);
    enum kiln_code rc = check_header(name, image.data, &identity, err);
    if (rc)
        return rc;
    *ret_header = header_of(&identity, image.data);
    return KILN_OK;
}
