/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define LOCK_NAME "kilnd.lock"

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static enum kiln_code advise(const char *first, struct kiln_err *err)
{
    struct kiln_err why = *err;
    return kiln_fail(err, why.code, "%s; %sset another cache folder with %s", why.text, first,
                     geteuid() == 0 ? "--cache-dir" : "--cache-dir or XDG_CACHE_HOME");
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

/* Whoever may change or swap the file decides what runs on everybody's GPU.  A folder that only
 * its owners may take files from (sticky) is no better: a log put beside the file is believed. */
static enum kiln_code refuse_others(const char *what, const char *path, const struct stat *seen,
                                    struct kiln_err *err)
{
    char advice[64];
    if (seen->st_uid != 0 && seen->st_uid != geteuid()) {
        kiln_fail(err, KILN_DENIED, "%s '%s' belongs to user %u", what, path,
                  (unsigned)seen->st_uid);
        snprintf(advice, sizeof(advice), "give it to us (chown %u), or ", (unsigned)geteuid());
        return advise(advice, err);
    }
    if (seen->st_mode & (S_IWGRP | S_IWOTH)) {
        kiln_fail(err, KILN_DENIED, "others than its owner may write to %s '%s'", what, path);
        return advise("make it private (chmod go-w), or ", err);
    }
    return KILN_OK;
}

static enum kiln_code look_at_folder(struct kernel_store *store, struct kiln_err *err)
{
    const char *path = store->directory;
    enum kiln_code rc = KILN_OK;
    if (!store->allow_network_fs)
        rc = fs_refuse_network(path, "the cache folder (--cache-dir)", err);
    if (rc)
        return rc;
    store->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat seen;
    if (store->folder < 0 || fstat(store->folder, &seen) != 0) {
        kiln_fail_errno(err, errno, "cannot open the cache folder '%s'", path);
        return advise("make the folder writable, or ", err);
    }
    rc = refuse_others("the cache folder", path, &seen, err);
    if (rc)
        close_fd(&store->folder); /* so that nobody takes it for one that passed */
    return rc;
}

static enum kiln_code open_folder(struct kernel_store *store, struct kiln_err *err)
{
    if (fs_make_folders(store->directory, err) != KILN_OK)
        return advise("", err);
    enum kiln_code rc = look_at_folder(store, err);
    if (!rc)
        tag_as_cache(store->folder);
    return rc;
}

/* ---- the lock ---- */

static enum kiln_code refuse_locked(const struct kernel_store *store, int fd, struct kiln_err *err)
{
    char text[32] = { 0 };
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
    long pid = got > 0 ? strtol(text, NULL, 10) : 0;
    char who[48] = "another kilnd";
    if (pid > 0)
        snprintf(who, sizeof(who), "a kilnd with pid %ld", pid);
    return kiln_fail(err, KILN_BUSY,
                     "%s uses the cache folder '%s': stop it and wait until it has ended, or set "
                     "another folder with --cache-dir",
                     who, store->directory);
}

/* The file stays when we end: removing it would need care against one who just opened it. */
static enum kiln_code take_lock(struct kernel_store *store, bool writing, struct kiln_err *err)
{
    int flags = writing ? O_RDWR | O_CREAT : O_RDONLY;
    KILN_AUTO(fd) int fd = openat(store->folder, LOCK_NAME, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && !writing && errno == ENOENT)
        return KILN_OK; /* nobody can be told, nor is anybody there */
    if (fd < 0) {
        kiln_fail_errno(err, errno, "cannot open '%s/" LOCK_NAME "'", store->directory);
        return advise("make the folder writable, or ", err);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? refuse_locked(store, fd, err)
                                    : kiln_fail_errno(err, errno, "cannot lock '%s/" LOCK_NAME "'",
                                                      store->directory);
    if (writing)
        fs_write_pid(fd);
    store->lock = fd;
    fd = -1;
    return KILN_OK;
}

/* ---- what may vanish under us ---- */

static bool folder_is_in_place(const struct kernel_store *store)
{
    struct stat open_one, named;
    return store->folder >= 0 && fstat(store->folder, &open_one) == 0 &&
           stat(store->directory, &named) == 0 && is_same_file(&open_one, &named);
}

static bool lock_is_in_place(const struct kernel_store *store)
{
    struct stat open_one, named;
    return store->lock >= 0 && fstat(store->lock, &open_one) == 0 &&
           fstatat(store->folder, LOCK_NAME, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           is_same_file(&open_one, &named);
}

enum kiln_code store_folder_open(struct kernel_store *store, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (!folder_is_in_place(store)) {
        store_folder_close(store);
        rc = open_folder(store, err);
    }
    if (!rc && !lock_is_in_place(store)) {
        close_fd(&store->lock);
        rc = take_lock(store, /* writing= */ true, err);
    }
    return rc;
}

enum kiln_code store_folder_look(struct kernel_store *store, struct kiln_err *err)
{
    struct stat seen;
    enum kiln_code rc = KILN_OK;
    if (!folder_is_in_place(store)) {
        store_folder_close(store);
        if (stat(store->directory, &seen) != 0 && (errno == ENOENT || errno == ENOTDIR))
            return KILN_OK;
        rc = look_at_folder(store, err);
    }
    if (!rc && !lock_is_in_place(store)) {
        close_fd(&store->lock);
        rc = take_lock(store, /* writing= */ false, err);
    }
    return rc;
}

void store_folder_close(struct kernel_store *store)
{
    close_fd(&store->lock);
    close_fd(&store->folder);
}

bool store_file_is_in_place(const struct kernel_store *store)
{
    struct stat seen;
    if (stat(store->path, &seen) != 0)
        return errno != ENOENT && errno != ENOTDIR; /* what cannot be told is left alone */
    return seen.st_dev == store->device && seen.st_ino == store->inode;
}

bool store_file_size(const struct kernel_store *store, const char *name, uint64_t *ret_size)
{
    struct stat seen;
    if (store->folder < 0 || fstatat(store->folder, name, &seen, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    *ret_size = (uint64_t)seen.st_size;
    return true;
}

/* SQLite would make the file readable for all.  Only a file that is not there is opened here:
 * closing a descriptor drops this process's SQLite locks on it. */
enum kiln_code store_file_make(struct kernel_store *store, struct kiln_err *err)
{
    KILN_AUTO(fd)
    int fd = openat(store->folder, STORE_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST)
        return kiln_fail_errno(err, errno, "cannot make '%s'", store->path);
    store->made_file = fd >= 0;
    enum kiln_code rc = store_file_look(store, err);
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(err, KILN_UNAVAILABLE, "'%s' was removed while it was opened: try again",
                         store->path);
    return rc;
}

enum kiln_code store_file_look(struct kernel_store *store, struct kiln_err *err)
{
    struct stat seen;
    if (store->folder < 0)
        return KILN_NOT_FOUND;
    if (fstatat(store->folder, STORE_FILE, &seen, 0) != 0)
        return errno == ENOENT ? KILN_NOT_FOUND
                               : kiln_fail_errno(err, errno, "cannot look at '%s'", store->path);
    if (!S_ISREG(seen.st_mode))
        return kiln_fail(err, KILN_INVALID, "'%s' is not a file: remove it or set another folder",
                         store->path);
    enum kiln_code rc = refuse_others("the kernel cache", store->path, &seen, err);
    if (rc)
        return rc;
    store->device = seen.st_dev;
    store->inode = seen.st_ino;
    return KILN_OK;
}
