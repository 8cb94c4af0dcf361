/* SPDX-License-Identifier: MIT */
#include "engine/db/directory.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/own_directory.h"
#include "engine/db/sqlite_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define DAMAGED_COPIES_MAX 1000u

static enum kiln_code add_advice(const struct db_directory_options *o, const char *first,
                                 struct kiln_err *err)
{
    struct kiln_err why = *err;
    bool is_root = geteuid() == 0;
    return kiln_fail(err, why.code, "%s; %sset another %s with %s%s%s", why.text, first, o->what,
                     o->setting, is_root ? "" : " or ", is_root ? "" : o->variable);
}

/* Refuses a file or directory that another user owns or can write to. The sticky bit does not help:
 * other users could still create a log for the database in the directory, and SQLite would apply
 * this log. */
static enum kiln_code refuse_foreign_access(const struct db_directory_options *o, const char *what,
                                            const char *name, const struct stat *seen,
                                            struct kiln_err *err)
{
    char advice[64];
    const char *slash = *name ? "/" : "";
    if (seen->st_uid != 0 && seen->st_uid != geteuid()) {
        kiln_fail(err, KILN_DENIED, "%s '%s%s%s' belongs to user %u", what, o->path, slash, name,
                  (unsigned)seen->st_uid);
        snprintf(advice, sizeof(advice), "change its owner (chown %u), or ", (unsigned)geteuid());
        return add_advice(o, advice, err);
    }
    if (seen->st_mode & (S_IWGRP | S_IWOTH)) {
        kiln_fail(err, KILN_DENIED, "other users than its owner may write to %s '%s%s%s'", what,
                  o->path, slash, name);
        return add_advice(o, "make it private (chmod go-w), or ", err);
    }
    return KILN_OK;
}

/* Refuses a path if another user can replace one of its directories: SQLite opens files by their
 * path, and would then open other files. */
static enum kiln_code refuse_foreign_path(const struct db_directory_options *o,
                                          struct kiln_err *err)
{
    KILN_AUTO(mem) char *real = realpath(o->path, NULL);
    if (!real) {
        kiln_fail_errno(err, errno, "cannot open the %s '%s'", o->what, o->path);
        return add_advice(o, "make the directory readable, or ", err);
    }
    if (own_directory_check(o->path[0] == '/' ? o->path : real, err) == KILN_OK)
        return KILN_OK;
    kiln_while(err, "the %s '%s'", o->what, o->path);
    return add_advice(o, "", err);
}

static enum kiln_code refuse_network(const struct db_directory_options *o, struct kiln_err *err)
{
    char setting[96];
    snprintf(setting, sizeof(setting), "the %s (%s%s%s)", o->what, o->setting,
             geteuid() == 0 ? "" : " or ", geteuid() == 0 ? "" : o->variable);
    return o->allow_network_fs ? KILN_OK : fs_refuse_network(o->path, setting, err);
}

/* Makes backup programs skip the directory (https://bford.info/cachedir). */
static void tag_as_cache(int directory)
{
    static const char tag[] =
        "Signature: 8a477f597d28d172789f06886806bc55\n"
        "# This directory is a cache of kiln; it may be deleted at any time.\n";
    KILN_AUTO(fd)
    int fd = openat(directory, "CACHEDIR.TAG", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    struct kiln_err ignored = KILN_ERR_INIT;
    if (fd >= 0 && fs_write_all(fd, bytes_of_text(tag), &ignored) != KILN_OK)
        unlinkat(directory, "CACHEDIR.TAG", 0);
}

static enum kiln_code open_directory(struct db_directory *directory, struct kiln_err *err)
{
    const struct db_directory_options *o = &directory->options;
    struct stat seen;
    enum kiln_code rc = refuse_network(o, err);
    if (rc)
        return rc;
    directory->fd = open(o->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory->fd < 0 || fstat(directory->fd, &seen) != 0) {
        kiln_fail_errno(err, errno, "cannot open the %s '%s'", o->what, o->path);
        return add_advice(o, "make the directory writable, or ", err);
    }
    char what[64];
    snprintf(what, sizeof(what), "the %s", o->what);
    rc = refuse_foreign_access(o, what, "", &seen, err);
    if (!rc)
        rc = refuse_foreign_path(o, err);
    if (rc)
        fd_close(&directory->fd);
    return rc;
}

static enum kiln_code make_directory(struct db_directory *directory, struct kiln_err *err)
{
    if (fs_make_directories(directory->options.path, err) != KILN_OK)
        return add_advice(&directory->options, "", err);
    enum kiln_code rc = open_directory(directory, err);
    if (!rc && directory->options.is_cache)
        tag_as_cache(directory->fd);
    return rc;
}

static bool is_absent(const char *path)
{
    struct stat seen;
    return stat(path, &seen) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

static enum kiln_code refuse_locked(const struct db_directory_options *o, pid_t pid,
                                    struct kiln_err *err)
{
    char owner[48] = "another kilnd";
    if (pid > 0)
        snprintf(owner, sizeof(owner), "a kilnd with pid %d", (int)pid);
    return kiln_fail(err, KILN_BUSY,
                     "%s uses the %s '%s': stop it and wait until it has ended, or set another "
                     "directory with %s",
                     owner, o->what, o->path, o->setting);
}

/* Locks the directory. The lock file is never removed: another process may just have opened it, and
 * would then lock a file without a name. */
static enum kiln_code take_lock(struct db_directory *directory, bool writing, struct kiln_err *err)
{
    const struct db_directory_options *o = &directory->options;
    struct fs_lock lock;
    int flags = writing ? O_RDWR | O_CREAT : O_RDONLY;
    enum kiln_code rc = fs_lock_at(directory->fd, o->lock, flags, &lock, err);
    if (rc == KILN_NOT_FOUND && !writing) {
        *err = KILN_ERR_INIT;
        return KILN_OK; /* no writer uses the directory, and a reader may not create the lock */
    }
    if (rc == KILN_BUSY)
        return refuse_locked(o, lock.holder, err);
    if (rc) {
        kiln_while(err, "the %s '%s'", o->what, o->path);
        return add_advice(o, "make the directory writable, or ", err);
    }
    directory->lock = lock.fd;
    if (writing)
        fs_write_pid(lock.fd);
    return KILN_OK;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool directory_is_in_place(const struct db_directory *directory)
{
    struct stat opened, named;
    return directory->fd >= 0 && fstat(directory->fd, &opened) == 0 &&
           stat(directory->options.path, &named) == 0 && is_same_file(&opened, &named);
}

static bool lock_is_in_place(const struct db_directory *directory)
{
    struct stat opened, named;
    return directory->lock >= 0 && fstat(directory->lock, &opened) == 0 &&
           fstatat(directory->fd, directory->options.lock, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           is_same_file(&opened, &named);
}

enum kiln_code db_directory_refresh(struct db_directory *directory, bool writing,
                                    struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (!directory_is_in_place(directory)) {
        db_directory_close(directory);
        if (!writing && is_absent(directory->options.path))
            return KILN_OK;
        rc = writing ? make_directory(directory, err) : open_directory(directory, err);
    }
    if (rc || lock_is_in_place(directory))
        return rc;
    fd_close(&directory->lock);
    return take_lock(directory, writing, err);
}

void db_directory_init(struct db_directory *directory, const struct db_directory_options *options)
{
    *directory = (struct db_directory){ .options = *options, .fd = -1, .lock = -1 };
}

enum kiln_code db_directory_open(const struct db_directory_options *options,
                                 struct db_directory *ret_directory, struct kiln_err *err)
{
    struct db_directory directory;
    db_directory_init(&directory, options);
    enum kiln_code rc = db_directory_refresh(&directory, /* writing= */ true, err);
    if (rc) {
        db_directory_close(&directory);
        return rc;
    }
    *ret_directory = directory;
    return KILN_OK;
}

void db_directory_close(struct db_directory *directory)
{
    fd_close(&directory->lock);
    fd_close(&directory->fd);
}

enum kiln_code db_directory_check_file(const struct db_directory *directory, const char *name,
                                       struct stat *ret_seen, struct kiln_err *err)
{
    const struct db_directory_options *o = &directory->options;
    struct stat seen;
    if (fstatat(directory->fd, name, &seen, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT
                   ? KILN_NOT_FOUND
                   : kiln_fail_errno(err, errno, "cannot read the attributes of '%s/%s'", o->path,
                                     name);
    if (!S_ISREG(seen.st_mode)) {
        kiln_fail(err, KILN_INVALID, "'%s/%s' is not a regular file", o->path, name);
        return add_advice(o, "remove it, or ", err);
    }
    enum kiln_code rc = refuse_foreign_access(o, o->file, name, &seen, err);
    if (!rc)
        *ret_seen = seen;
    return rc;
}

static bool find_free_name(const struct db_directory *directory, const char *name, char aside[96])
{
    struct stat seen;
    unsigned long long now = clock_wall_s();
    for (unsigned n = 0; n < DAMAGED_COPIES_MAX; n++) {
        char log[112];
        if (n == 0)
            snprintf(aside, 96, "%.48s.damaged-%llu", name, now);
        else
            snprintf(aside, 96, "%.48s.damaged-%llu.%u", name, now, n);
        snprintf(log, sizeof(log), "%s-wal", aside);
        if (fstatat(directory->fd, aside, &seen, AT_SYMLINK_NOFOLLOW) != 0 &&
            fstatat(directory->fd, log, &seen, AT_SYMLINK_NOFOLLOW) != 0)
            return true;
    }
    return false;
}

enum kiln_code db_directory_move_aside(const struct db_directory *directory, const char *name,
                                       char ret_aside[96], struct kiln_err *err)
{
    const struct db_directory_options *o = &directory->options;
    char aside[96];
    if (!find_free_name(directory, name, aside))
        return kiln_fail(
            err, KILN_BUSY,
            "'%s' has too many damaged copies with the same time: try again in a second", o->path);
    for (size_t i = 0; i < SQLITE_SUFFIXES; i++) {
        char from[64], to[112];
        snprintf(from, sizeof(from), "%.48s%s", name, sqlite_suffixes[i]);
        snprintf(to, sizeof(to), "%s%s", aside, sqlite_suffixes[i]);
        if (renameat(directory->fd, from, directory->fd, to) != 0 && errno != ENOENT)
            return kiln_fail_errno(err, errno, "cannot move '%s/%s' aside", o->path, from);
    }
    memcpy(ret_aside, aside, sizeof(aside));
    return KILN_OK;
}

void db_directory_remove(const struct db_directory *directory, const char *name)
{
    for (size_t i = 0; i < SQLITE_SUFFIXES; i++) {
        char full[64];
        snprintf(full, sizeof(full), "%.48s%s", name, sqlite_suffixes[i]);
        unlinkat(directory->fd, full, 0);
    }
}

enum kiln_code db_directory_sync(const struct db_directory *directory, struct kiln_err *err)
{
    if (fsync(directory->fd) != 0)
        return kiln_fail_errno(err, errno, "cannot sync the directory '%s' to disk",
                               directory->options.path);
    return KILN_OK;
}
