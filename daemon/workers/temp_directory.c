/* SPDX-License-Identifier: MIT */
#include "daemon/workers/temp_directory.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "common/log/log.h"
#include "daemon/config/directories.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define PREFIX "kilnd-temp-"
#define RANDOM_LETTERS 6
#define NAME_LETTERS (sizeof(PREFIX) - 1 + RANDOM_LETTERS)
/* Name of the file that marks a directory as kilnd's.  When kilnd starts, it removes the
 * directories of dead daemons (the sweep), but never a directory with files and without this
 * marker, which belongs to a user. */
#define MARKER ".made-by-kilnd"
/* Maximum number of attempts to create the directory: another daemon's sweep may remove it before
 * it is locked. */
#define TRIES_MAX 8

static void dir_auto(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

/* Opens and locks the directory.  Returns -1 with errno set on failure; errno is EAGAIN if the
 * directory belongs to another user, or if another process has locked it. */
static int lock_directory(int base_fd, const char *name)
{
    KILN_AUTO(fd) int fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    if (st.st_uid != geteuid())
        errno = EAGAIN;
    if (st.st_uid != geteuid() || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -1;
    int locked = fd;
    fd = -1;
    return locked;
}

static bool mark_directory(const struct temp_root *root)
{
    KILN_AUTO(fd) int fd = openat(root->fd, MARKER, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    return fd >= 0;
}

static bool is_named_so(const char *name)
{
    return strncmp(name, PREFIX, sizeof(PREFIX) - 1) == 0 && strlen(name) == NAME_LETTERS;
}

static bool is_marked(int fd)
{
    struct stat st;
    return fstatat(fd, MARKER, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_uid == geteuid();
}

static bool is_mark_or_link(const char *name)
{
    return strcmp(name, MARKER) == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static enum kiln_code remove_content(int fd, struct kiln_err *err)
{
    fchmod(fd, 0700); /* the compilers' user may have removed this permission */
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    __attribute__((cleanup(dir_auto))) DIR *dir = again >= 0 ? fdopendir(again) : NULL;
    enum kiln_code rc = KILN_OK;
    if (!dir) {
        kiln_fail_errno(err, errno, "cannot list the directory");
        if (again >= 0)
            close(again);
        return err->code;
    }
    for (struct dirent *e; rc != KILN_FULL && (e = readdir(dir));) {
        struct kiln_err why = KILN_ERR_INIT;
        if (is_mark_or_link(e->d_name) || !fs_remove(fd, e->d_name, &why))
            continue;
        *err = why;
        rc = why.code;
    }
    return rc;
}

/* Removes the marker last: if kilnd is killed half way, the next sweep still recognises the
 * directory. */
static void remove_ours(int parent_fd, const char *path, int fd)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = remove_content(fd, &err);
    if (rc)
        kiln_while(&err, "removing the directory '%s'", path);
    else
        rc = fs_remove(parent_fd, path, &err);
    if (rc)
        log_event(LOG_EVENT_directory_left, NULL, "files of compilers cannot be removed: %s",
                  err.text);
}

static void sweep_directories(const char *base)
{
    __attribute__((cleanup(dir_auto))) DIR *dir = opendir(base);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!is_named_so(e->d_name))
            continue;
        KILN_AUTO(fd) int fd = lock_directory(dirfd(dir), e->d_name);
        if (fd >= 0 && is_marked(fd))
            remove_ours(dirfd(dir), e->d_name, fd);
        /* A directory without a marker may belong to a kilnd that was killed before it wrote the
         * marker.  Such a directory is empty.  unlinkat fails if the directory is not empty. */
        else if (fd >= 0)
            unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
    }
}

static bool still_there(const char *path, int fd)
{
    struct stat by_name, by_fd;
    if (lstat(path, &by_name) < 0 || fstat(fd, &by_fd) < 0)
        return false;
    /* lets the caller try again: a sweep removed the directory, and another process has created a
     * new one */
    errno = EAGAIN;
    return by_name.st_ino == by_fd.st_ino && by_name.st_dev == by_fd.st_dev;
}

static bool claim_directory(struct temp_root *root)
{
    root->fd = lock_directory(AT_FDCWD, root->path);
    if (root->fd >= 0 && still_there(root->path, root->fd) && mark_directory(root))
        return true;
    /* lets the caller try again if a sweep has just removed the directory */
    int why = errno == ENOENT ? EAGAIN : errno;
    if (root->fd >= 0)
        close(root->fd);
    rmdir(root->path);
    errno = why;
    return false;
}

static enum kiln_code advise_temp_dir(const char *base, struct kiln_err *err)
{
    struct kiln_err why = *err;
    if (why.code != KILN_FULL)
        return why.code;
    return kiln_fail(err, why.code,
                     "%s: the filesystem of '%s' is full: free space there (bytes and inodes), or "
                     "set another directory with --temp-dir",
                     why.text, base);
}

static enum kiln_code let_in(const struct temp_root *root, struct kiln_err *err)
{
    if (!root->user.other)
        return KILN_OK;
    if (fchmod(root->fd, 0711) < 0)
        return kiln_fail_errno(err, errno, "cannot set the mode of '%s'", root->path);
    if (worker_user_may_enter(&root->user, root->path))
        return KILN_OK;
    return kiln_fail(err, KILN_DENIED,
                     "compilers run as user '%s', which may not enter '%s': run chmod o+x on every "
                     "directory of that path, or set another directory with --temp-dir",
                     root->user.name, root->path);
}

enum kiln_code temp_root_open(const char *base, const struct worker_user *user,
                              struct temp_root *ret_root, struct kiln_err *err)
{
    if (fs_make_directories_mode(base, temp_base_mode(user), err)) {
        kiln_while(err, "making the directory for temporary files");
        return advise_temp_dir(base, err);
    }
    sweep_directories(base);
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        struct temp_root root = { .fd = -1, .user = *user };
        int length = snprintf(root.path, sizeof(root.path), "%s/" PREFIX "XXXXXX", base);
        if (length < 0 || (size_t)length >= sizeof(root.path))
            return kiln_fail(err, KILN_INVALID, "temp_dir '%s' is too long", base);
        if (!mkdtemp(root.path)) {
            kiln_fail_errno(err, errno, "cannot make a temporary directory in '%s'", base);
            return advise_temp_dir(base, err);
        }
        if (claim_directory(&root)) {
            enum kiln_code rc = let_in(&root, err);
            if (rc)
                temp_root_close(&root);
            else
                *ret_root = root;
            return rc;
        }
    }
    kiln_fail_errno(err, errno, "cannot lock and mark a temporary directory in '%s'", base);
    return advise_temp_dir(base, err);
}

void temp_root_close(struct temp_root *root)
{
    if (root->fd < 0 || root->path[0] == '\0')
        return;
    remove_ours(AT_FDCWD, root->path, root->fd);
    close(root->fd);
    *root = (struct temp_root){ .fd = -1 };
}

enum kiln_code temp_directory_make(struct temp_root *root, char path[PATH_TEXT_MAX],
                                   struct kiln_err *err)
{
    int length = snprintf(path, PATH_TEXT_MAX, "%s/worker-%u", root->path, ++root->made);
    if (length < 0 || length >= PATH_TEXT_MAX)
        return kiln_fail(err, KILN_INVALID, "temp_dir '%s' is too long", root->path);
    if (mkdir(path, 0700) < 0)
        return kiln_fail_errno(err, errno, "cannot make the directory '%s'", path);
    if (root->user.other && chown(path, root->user.uid, root->user.gid) < 0) {
        kiln_fail_errno(err, errno, "cannot give the directory '%s' to user '%s'", path,
                        root->user.name);
        rmdir(path);
        return err->code;
    }
    return KILN_OK;
}
