/* SPDX-License-Identifier: MIT */
#include "engine/db/folder.h"

#include "common/clock.h"
#include "common/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#define COPIES_OF_A_SECOND 1000u

/* What SQLite keeps beside a database; the file itself comes first. */
static const char *const suffixes[] = { "", "-wal", "-shm" };
#define SUFFIXES (sizeof(suffixes) / sizeof(suffixes[0]))

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static enum kiln_code advise(const struct db_folder_options *o, const char *first,
                             struct kiln_err *err)
{
    struct kiln_err why = *err;
    bool is_root = geteuid() == 0;
    return kiln_fail(err, why.code, "%s; %sset another %s with %s%s%s", why.text, first, o->what,
                     o->setting, is_root ? "" : " or ", is_root ? "" : o->variable);
}

/* A folder that only its owners may take files from (sticky) is no better than one that all may
 * write to: a log put beside the file is believed. */
static enum kiln_code refuse_others(const struct db_folder_options *o, const char *what,
                                    const char *name, const struct stat *seen, struct kiln_err *err)
{
    char advice[64];
    const char *slash = *name ? "/" : "";
    if (seen->st_uid != 0 && seen->st_uid != geteuid()) {
        kiln_fail(err, KILN_DENIED, "%s '%s%s%s' belongs to user %u", what, o->path, slash, name,
                  (unsigned)seen->st_uid);
        snprintf(advice, sizeof(advice), "give it to us (chown %u), or ", (unsigned)geteuid());
        return advise(o, advice, err);
    }
    if (seen->st_mode & (S_IWGRP | S_IWOTH)) {
        kiln_fail(err, KILN_DENIED, "others than its owner may write to %s '%s%s%s'", what, o->path,
                  slash, name);
        return advise(o, "make it private (chmod go-w), or ", err);
    }
    return KILN_OK;
}

static enum kiln_code refuse_network(const struct db_folder_options *o, struct kiln_err *err)
{
    char setting[96];
    snprintf(setting, sizeof(setting), "the %s (%s%s%s)", o->what, o->setting,
             geteuid() == 0 ? "" : " or ", geteuid() == 0 ? "" : o->variable);
    return o->allow_network_fs ? KILN_OK : fs_refuse_network(o->path, setting, err);
}

/* Tells backup programs that nothing here is worth keeping (bford.info/cachedir). */
static void tag_as_cache(int folder)
{
    static const char tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                              "# This folder is a cache of kiln; it may be deleted at any time.\n";
    KILN_AUTO(fd)
    int fd = openat(folder, "CACHEDIR.TAG", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    struct kiln_err ignored = KILN_ERR_INIT;
    if (fd >= 0 && fs_write_all(fd, bytes_of_text(tag), &ignored) != KILN_OK)
        unlinkat(folder, "CACHEDIR.TAG", 0);
}

static enum kiln_code open_directory(struct db_folder *folder, struct kiln_err *err)
{
    const struct db_folder_options *o = &folder->options;
    struct stat seen;
    enum kiln_code rc = refuse_network(o, err);
    if (rc)
        return rc;
    folder->fd = open(o->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0 || fstat(folder->fd, &seen) != 0) {
        kiln_fail_errno(err, errno, "cannot open the %s '%s'", o->what, o->path);
        return advise(o, "make the folder writable, or ", err);
    }
    char what[64];
    snprintf(what, sizeof(what), "the %s", o->what);
    rc = refuse_others(o, what, "", &seen, err);
    if (rc)
        close_fd(&folder->fd); /* so that nobody takes it for one that passed */
    return rc;
}

static enum kiln_code make_directory(struct db_folder *folder, struct kiln_err *err)
{
    if (fs_make_folders(folder->options.path, err) != KILN_OK)
        return advise(&folder->options, "", err);
    enum kiln_code rc = open_directory(folder, err);
    if (!rc && folder->options.is_cache)
        tag_as_cache(folder->fd);
    return rc;
}

static bool is_absent(const char *path)
{
    struct stat seen;
    return stat(path, &seen) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* ---- the lock ---- */

static enum kiln_code refuse_locked(const struct db_folder_options *o, int fd, struct kiln_err *err)
{
    char text[32] = { 0 };
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
    long pid = got > 0 ? strtol(text, NULL, 10) : 0;
    char who[48] = "another kilnd";
    if (pid > 0)
        snprintf(who, sizeof(who), "a kilnd with pid %ld", pid);
    return kiln_fail(err, KILN_BUSY,
                     "%s uses the %s '%s': stop it and wait until it has ended, or set another "
                     "folder with %s",
                     who, o->what, o->path, o->setting);
}

/* The file stays when we end: removing it would need care against one who just opened it. */
static enum kiln_code take_lock(struct db_folder *folder, bool writing, struct kiln_err *err)
{
    const struct db_folder_options *o = &folder->options;
    int flags = (writing ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW;
    KILN_AUTO(fd) int fd = openat(folder->fd, o->lock, flags, 0600);
    if (fd < 0 && !writing && errno == ENOENT)
        return KILN_OK; /* no process has the folder, and none will learn that this one does */
    if (fd < 0) {
        kiln_fail_errno(err, errno, "cannot open '%s/%s'", o->path, o->lock);
        return advise(o, "make the folder writable, or ", err);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? refuse_locked(o, fd, err)
                   : kiln_fail_errno(err, errno, "cannot lock '%s/%s'", o->path, o->lock);
    if (writing)
        fs_write_pid(fd);
    folder->lock = fd;
    fd = -1;
    return KILN_OK;
}

/* ---- what may be removed while it is open ---- */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool directory_is_in_place(const struct db_folder *folder)
{
    struct stat opened, named;
    return folder->fd >= 0 && fstat(folder->fd, &opened) == 0 &&
           stat(folder->options.path, &named) == 0 && is_same_file(&opened, &named);
}

static bool lock_is_in_place(const struct db_folder *folder)
{
    struct stat opened, named;
    return folder->lock >= 0 && fstat(folder->lock, &opened) == 0 &&
           fstatat(folder->fd, folder->options.lock, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           is_same_file(&opened, &named);
}

enum kiln_code db_folder_refresh(struct db_folder *folder, bool writing, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (!directory_is_in_place(folder)) {
        db_folder_close(folder);
        if (!writing && is_absent(folder->options.path))
            return KILN_OK;
        rc = writing ? make_directory(folder, err) : open_directory(folder, err);
    }
    if (rc || lock_is_in_place(folder))
        return rc;
    close_fd(&folder->lock);
    return take_lock(folder, writing, err);
}

void db_folder_init(struct db_folder *folder, const struct db_folder_options *options)
{
    *folder = (struct db_folder){ .options = *options, .fd = -1, .lock = -1 };
}

enum kiln_code db_folder_open(const struct db_folder_options *options, struct db_folder *ret_folder,
                              struct kiln_err *err)
{
    struct db_folder folder;
    db_folder_init(&folder, options);
    enum kiln_code rc = db_folder_refresh(&folder, /* writing= */ true, err);
    if (rc) {
        db_folder_close(&folder);
        return rc;
    }
    *ret_folder = folder;
    return KILN_OK;
}

void db_folder_close(struct db_folder *folder)
{
    close_fd(&folder->lock);
    close_fd(&folder->fd);
}

/* ---- files in it ---- */

enum kiln_code db_folder_look(const struct db_folder *folder, const char *name,
                              struct stat *ret_seen, struct kiln_err *err)
{
    const struct db_folder_options *o = &folder->options;
    struct stat seen;
    if (fstatat(folder->fd, name, &seen, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT
                   ? KILN_NOT_FOUND
                   : kiln_fail_errno(err, errno, "cannot look at '%s/%s'", o->path, name);
    if (!S_ISREG(seen.st_mode)) {
        kiln_fail(err, KILN_INVALID, "'%s/%s' is not a file", o->path, name);
        return advise(o, "remove it, or ", err);
    }
    enum kiln_code rc = refuse_others(o, o->file, name, &seen, err);
    if (!rc)
        *ret_seen = seen;
    return rc;
}

/* A name that neither a file nor its log has yet. */
static bool find_free_name(const struct db_folder *folder, const char *name, char aside[96])
{
    struct stat seen;
    unsigned long long now = clock_wall_s();
    for (unsigned n = 0; n < COPIES_OF_A_SECOND; n++) {
        char log[112];
        if (n == 0)
            snprintf(aside, 96, "%.48s.damaged-%llu", name, now);
        else
            snprintf(aside, 96, "%.48s.damaged-%llu.%u", name, now, n);
        snprintf(log, sizeof(log), "%s-wal", aside);
        if (fstatat(folder->fd, aside, &seen, AT_SYMLINK_NOFOLLOW) != 0 &&
            fstatat(folder->fd, log, &seen, AT_SYMLINK_NOFOLLOW) != 0)
            return true;
    }
    return false;
}

enum kiln_code db_folder_move_aside(const struct db_folder *folder, const char *name,
                                    char ret_aside[96], struct kiln_err *err)
{
    const struct db_folder_options *o = &folder->options;
    char aside[96];
    if (!find_free_name(folder, name, aside))
        return kiln_fail(err, KILN_BUSY,
                         "'%s' holds too many damaged copies of this second: try again", o->path);
    for (size_t i = 0; i < SUFFIXES; i++) {
        char from[64], to[112];
        snprintf(from, sizeof(from), "%.48s%s", name, suffixes[i]);
        snprintf(to, sizeof(to), "%s%s", aside, suffixes[i]);
        if (renameat(folder->fd, from, folder->fd, to) != 0 && errno != ENOENT)
            return kiln_fail_errno(err, errno, "cannot move '%s/%s' aside", o->path, from);
    }
    memcpy(ret_aside, aside, sizeof(aside));
    return KILN_OK;
}

void db_folder_remove(const struct db_folder *folder, const char *name)
{
    for (size_t i = 0; i < SUFFIXES; i++) {
        char full[64];
        snprintf(full, sizeof(full), "%.48s%s", name, suffixes[i]);
        unlinkat(folder->fd, full, 0);
    }
}

enum kiln_code db_folder_sync(const struct db_folder *folder, struct kiln_err *err)
{
    if (fsync(folder->fd) != 0)
        return kiln_fail_errno(err, errno, "cannot write the folder '%s' to the disk",
                               folder->options.path);
    return KILN_OK;
}
