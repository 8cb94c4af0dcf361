/* SPDX-License-Identifier: MIT */
#include "engine/transfer/snapshot.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "engine/db/snapshot.h"
#include "engine/transfer/check_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC "SQLite format 3"
#define WRITE_VERSION 18 /* offset of the byte in the header that is 2 in WAL mode */
#define HEADER_READ 20

static off_t size_of_companion(const char *path, const char *suffix)
{
    char companion[PATH_MAX];
    struct stat seen;
    int length = snprintf(companion, sizeof(companion), "%s%s", path, suffix);
    bool there = length > 0 && (size_t)length < sizeof(companion) && stat(companion, &seen) == 0;
    return there ? seen.st_size : 0;
}

static bool may_be_live(const char *path, int fd)
{
    uint8_t head[HEADER_READ];
    if (size_of_companion(path, "-wal") > 0 || size_of_companion(path, "-journal") > 0)
        return true;
    return fs_read_at(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
           memcmp(head, MAGIC, sizeof(MAGIC)) == 0 && head[WRITE_VERSION] == 2;
}

static enum kiln_code open_file(const char *path, int *ret_fd, struct kiln_err *err)
{
    struct stat seen;
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", path);
    if (!S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_INVALID, "'%s' is not a regular file", path);
    *ret_fd = fd;
    fd = -1;
    return KILN_OK;
}

static void note_damage(struct snapshot *s, const char *path, const struct kiln_err *why)
{
    off_t log = size_of_companion(path, "-wal");
    int used = snprintf(s->note, sizeof(s->note), "'%s' is damaged and is read as it is: %.200s",
                        s->name, why->text);
    if (log > 0 && used > 0 && (size_t)used < sizeof(s->note))
        snprintf(s->note + used, sizeof(s->note) - (size_t)used,
                 "; changes that are only in its write-ahead log (%lld bytes) are lost",
                 (long long)log);
}

static void note_lost(struct snapshot *s, uint64_t pages)
{
    if (pages > 0)
        snprintf(s->note, sizeof(s->note),
                 "the write-ahead log of '%s' is damaged: %llu of its pages are lost, with the "
                 "records in them",
                 s->name, (unsigned long long)pages);
}

static enum kiln_code make_copy(struct snapshot *s, const char *path, const char *to, int *ret_fd,
                                struct kiln_err *err)
{
    struct log_state log = { 0 };
    enum kiln_code rc = db_snapshot(path, to, s->salvage, err);
    if (!rc)
        rc = s->salvage ? db_snapshot_save(to, &log, err) : db_snapshot_merge(to, err);
    if (!rc)
        rc = open_file(to, ret_fd, err);
    db_snapshot_remove(to);
    note_lost(s, log.lost);
    return rc;
}

static enum kiln_code copy_database(struct snapshot *s, const char *path, const char *directory,
                                    struct kiln_err *err)
{
    char to[PATH_MAX];
    int fd = -1;
    if ((size_t)snprintf(to, sizeof(to), "%s/" SNAPSHOT_COPY, directory) >= sizeof(to))
        return kiln_fail(err, KILN_INVALID, "the path of the directory '%s' is too long",
                         directory);
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = make_copy(s, path, to, &fd, &why);
    if (rc == KILN_CORRUPT && !s->salvage)
        return fail_damaged_cache(s->name, &why, err);
    if (rc == KILN_CORRUPT) {
        note_damage(s, path, &why);
        return KILN_OK;
    }
    if (rc) {
        *err = why;
        return kiln_while(err, "copying '%s' to '%s'", path, directory);
    }
    close(s->fd);
    s->fd = fd;
    s->merged = true;
    return KILN_OK;
}

enum kiln_code snapshot_take(const char *path, const char *directory, bool salvage,
                             struct snapshot *ret_snapshot, struct kiln_err *err)
{
    struct snapshot s = { .fd = -1, .salvage = salvage };
    const char *slash = strrchr(path, '/');
    snprintf(s.name, sizeof(s.name), "%s", slash ? slash + 1 : path);
    enum kiln_code rc = open_file(path, &s.fd, err);
    if (!rc && may_be_live(path, s.fd))
        rc = copy_database(&s, path, directory, err);
    if (rc) {
        fd_auto(&s.fd);
        return rc;
    }
    *ret_snapshot = s;
    return KILN_OK;
}
