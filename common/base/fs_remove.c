/* SPDX-License-Identifier: MIT */
/*
 * Removes directories that other users made, possibly with malicious intent: they may be very deep,
 * very large, or without permissions.
 *
 * Each level of recursion keeps a descriptor open, so the depth is limited.  A directory at depth
 * DEPTH_MAX is moved to the top directory under a temporary name.  The next pass over the top
 * directory removes it.
 */
#include "common/base/cleanup.h"
#include "common/base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 32

struct removal {
    int top;
    unsigned max;
    unsigned seen;
    unsigned lifted;
    unsigned names;
    bool is_full;
    enum kiln_code rc;
    struct kiln_err *err;
};

static void empty_directory(struct removal *r, int directory_fd, unsigned depth);

/* Records only the first failure.  Later failures follow from it, because the directories above
 * cannot be removed either. */
static void note_failure(struct removal *r, const char *name, int number)
{
    if (!r->rc)
        r->rc = kiln_fail_errno(r->err, number, "cannot remove '%.200s'", name);
}

static void note_unreadable(struct removal *r, int number)
{
    if (!r->rc)
        r->rc = kiln_fail_errno(r->err, number, "cannot list the files to remove");
}

static bool may_remove_more(struct removal *r)
{
    r->is_full = r->is_full || r->seen++ >= r->max;
    if (r->is_full && !r->rc)
        r->rc = kiln_fail(r->err, KILN_FULL,
                          "there are more than %u files: the rest was not removed", r->max);
    return !r->is_full;
}

static int open_directory(int parent_fd, const char *name)
{
    return openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int open_closed_directory(int parent_fd, const char *name)
{
    int fd = open_directory(parent_fd, name);
    if (fd >= 0)
        fchmod(fd, 0700);
    else if (errno == EACCES && fchmodat(parent_fd, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
        fd = open_directory(parent_fd, name);
    return fd;
}

static void move_entry_up(struct removal *r, int parent_fd, const char *name)
{
    char lifted[32];
    int rc;
    do {
        snprintf(lifted, sizeof(lifted), ".lifted-%u", r->names++);
        rc = renameat2(parent_fd, name, r->top, lifted, RENAME_NOREPLACE);
    } while (rc != 0 && errno == EEXIST && may_remove_more(r));
    if (rc != 0)
        note_failure(r, name, errno);
    else
        r->lifted++;
}

static void remove_directory(struct removal *r, int parent_fd, const char *name, unsigned depth)
{
    int fd = open_closed_directory(parent_fd, name);
    if (fd < 0) {
        note_failure(r, name, errno == ENOTDIR || errno == ELOOP ? EPERM : errno);
        return;
    }
    if (depth == DEPTH_MAX) {
        close(fd);
        move_entry_up(r, parent_fd, name);
        return;
    }
    empty_directory(r, fd, depth + 1);
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        note_failure(r, name, errno);
}

static void remove_entry(struct removal *r, int parent_fd, const char *name, unsigned depth)
{
    if (!may_remove_more(r) || unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
        return;
    if (errno == EISDIR || errno == EPERM)
        remove_directory(r, parent_fd, name, depth);
    else
        note_failure(r, name, errno);
}

/* Closes |directory_fd|. */
static void empty_directory(struct removal *r, int directory_fd, unsigned depth)
{
    DIR *dir = fdopendir(directory_fd);
    struct dirent *e = NULL;
    if (!dir) {
        note_unreadable(r, errno);
        close(directory_fd);
        return;
    }
    while (!r->is_full && (e = fs_next_entry(dir))) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove_entry(r, dirfd(dir), e->d_name, depth);
    }
    if (!r->is_full && errno)
        note_unreadable(r, errno);
    closedir(dir);
}

static enum kiln_code empty_top(int top, unsigned max, struct kiln_err *err)
{
    struct removal r = { .top = top, .max = max, .err = err };
    unsigned before;
    do {
        before = r.lifted;
        int again = open_directory(top, ".");
        if (again < 0)
            return kiln_fail_errno(err, errno, "cannot open the directory to remove");
        empty_directory(&r, again, 0);
    } while (r.lifted > before && !r.is_full);
    return r.rc;
}

enum kiln_code fs_remove_some(int parent_fd, const char *name, unsigned max, struct kiln_err *err)
{
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
        return KILN_OK;
    int number = errno;
    KILN_AUTO(fd)
    int top = number == EISDIR || number == EPERM ? open_closed_directory(parent_fd, name) : -1;
    if (top < 0)
        return kiln_fail_errno(err, number == EISDIR ? errno : number, "cannot remove '%s'", name);
    enum kiln_code rc = empty_top(top, max, err);
    if (rc)
        return kiln_while(err, "removing the directory '%s'", name);
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return KILN_OK;
    return kiln_fail_errno(err, errno, "cannot remove the directory '%s'", name);
}

void fs_remove_tree(int parent_fd, const char *name)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    fs_remove(parent_fd, name, &ignored);
}

enum kiln_code fs_empty(const char *path, struct kiln_err *err)
{
    KILN_AUTO(fd) int top = open_directory(AT_FDCWD, path);
    if (top < 0 && errno == ENOENT)
        return KILN_OK;
    if (top < 0)
        return kiln_fail_errno(err, errno, "cannot open the directory '%s'", path);
    enum kiln_code rc = empty_top(top, FS_REMOVED_MAX, err);
    return rc ? kiln_while(err, "emptying the directory '%s'", path) : KILN_OK;
}

void fs_empty_directory(const char *path)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    fs_empty(path, &ignored);
}
