/* SPDX-License-Identifier: MIT */
/* Removing what others have filled, as ill as they may mean. */
#include "common/cleanup.h"
#include "common/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Each level costs a descriptor while it is emptied; what lies deeper is moved up first. */
#define DEPTH_MAX 32

struct removal {
    int top;         /* owned: the directory that is emptied, where what lies deep is moved to */
    unsigned most;   /* entries */
    unsigned seen;   /* of them */
    unsigned lifted; /* those that were moved up */
    unsigned names;  /* tried for that */
    bool is_full;    /* no more is removed */
    enum kiln_code rc;
    struct kiln_err *err;
};

static void empty(struct removal *r, int directory_fd, unsigned depth);

/* Only the first thing that stays is told: what it lies in stays for its sake. */
static void note(struct removal *r, const char *name, int number)
{
    if (!r->rc)
        r->rc = kiln_fail_errno(r->err, number, "cannot remove '%.200s'", name);
}

static bool may_go_on(struct removal *r)
{
    r->is_full = r->is_full || r->seen++ >= r->most;
    if (r->is_full && !r->rc)
        r->rc = kiln_fail(r->err, KILN_FULL, "there are more than %u files, and the rest stays",
                          r->most);
    return !r->is_full;
}

static int open_directory(int parent_fd, const char *name)
{
    return openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Whoever filled it may have taken its own permissions away. */
static int open_closed_directory(int parent_fd, const char *name)
{
    int fd = open_directory(parent_fd, name);
    if (fd >= 0)
        fchmod(fd, 0700);
    else if (errno == EACCES && fchmodat(parent_fd, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
        fd = open_directory(parent_fd, name);
    return fd;
}

/* To where it is seen with the next look. */
static void lift(struct removal *r, int parent_fd, const char *name)
{
    char lifted[32];
    int rc;
    do {
        snprintf(lifted, sizeof(lifted), ".lifted-%u", r->names++);
        rc = renameat2(parent_fd, name, r->top, lifted, RENAME_NOREPLACE);
    } while (rc != 0 && errno == EEXIST && may_go_on(r));
    if (rc != 0)
        note(r, name, errno);
    else
        r->lifted++;
}

static void remove_directory(struct removal *r, int parent_fd, const char *name, unsigned depth)
{
    int fd = open_closed_directory(parent_fd, name);
    if (fd < 0) {
        note(r, name, errno == ENOTDIR || errno == ELOOP ? EPERM : errno);
        return;
    }
    if (depth == DEPTH_MAX) {
        close(fd);
        lift(r, parent_fd, name);
        return;
    }
    empty(r, fd, depth + 1);
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        note(r, name, errno);
}

static void remove_entry(struct removal *r, int parent_fd, const char *name, unsigned depth)
{
    if (!may_go_on(r) || unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
        return;
    if (errno == EISDIR || errno == EPERM)
        remove_directory(r, parent_fd, name, depth);
    else
        note(r, name, errno);
}

/* Takes |directory_fd|. */
static void empty(struct removal *r, int directory_fd, unsigned depth)
{
    DIR *dir = fdopendir(directory_fd);
    if (!dir) {
        close(directory_fd);
        return; /* its removal says that something is in it */
    }
    for (struct dirent *e; !r->is_full && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove_entry(r, dirfd(dir), e->d_name, depth);
    }
    closedir(dir);
}

/* |top| is borrowed. */
static enum kiln_code empty_top(int top, unsigned most, struct kiln_err *err)
{
    struct removal r = { .top = top, .most = most, .err = err };
    unsigned before;
    do {
        before = r.lifted;
        int again = open_directory(top, ".");
        if (again < 0)
            return kiln_fail_errno(err, errno, "cannot list what is to be removed");
        empty(&r, again, 0);
    } while (r.lifted > before && !r.is_full);
    return r.rc;
}

enum kiln_code fs_remove_some(int parent_fd, const char *name, unsigned most, struct kiln_err *err)
{
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
        return KILN_OK;
    int number = errno;
    KILN_AUTO(fd)
    int top = number == EISDIR || number == EPERM ? open_closed_directory(parent_fd, name) : -1;
    if (top < 0)
        return kiln_fail_errno(err, number == EISDIR ? errno : number, "cannot remove '%s'", name);
    enum kiln_code rc = empty_top(top, most, err);
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
