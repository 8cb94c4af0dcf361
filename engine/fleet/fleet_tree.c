/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_tree.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#define TEMPORARY_BEGINNING ".writing-"
#define LOCK_NAME ".lock"

enum kiln_code fleet_tree_open(const char *path, int *ret_root, struct kiln_err *err)
{
    *ret_root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_root >= 0)
        return KILN_OK;
    if (errno == ENOENT)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "there is no directory '%s': correct the name, or make the directory of a "
                         "new tree with 'mkdir'",
                         path);
    return kiln_fail_errno(err, errno, "cannot open the directory '%s'", path);
}

/* Opens a directory of the tree. If |creates|, creates it, and those above it. Follows no symbolic
 * link: otherwise, another user with write access to the tree could make kilnctl, if it runs as
 * root, write or delete files elsewhere. */
static int open_directory(int root, const char *name, bool creates)
{
    KILN_AUTO(fd) int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && *name) {
        char part[FLEET_NAME_MAX];
        size_t size = strcspn(name, "/");
        snprintf(part, sizeof(part), "%.*s", (int)size, name);
        bool is_there = !creates || mkdirat(fd, part, 0755) == 0 || errno == EEXIST;
        int next =
            is_there ? openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        int errnum = errno;
        close(fd);
        errno = errnum;
        fd = next;
        name += size + (name[size] == '/');
    }
    int result = fd;
    fd = -1;
    return result;
}

static const char *name_within(const char *name) { return strrchr(name, '/') + 1; }

/* Opens the directory of the file |name|. */
static int open_parent(int root, const char *name, bool creates)
{
    char directory[FLEET_NAME_MAX];
    snprintf(directory, sizeof(directory), "%.*s", (int)(name_within(name) - 1 - name), name);
    return open_directory(root, directory, creates);
}

struct temporary {
    int parent; /* owned */
    char name[64];
};

static void temporary_done(struct temporary *t)
{
    if (t->name[0])
        unlinkat(t->parent, t->name, 0);
    fd_close(&t->parent);
}

static enum kiln_code write_file(int fd, struct bytes content, struct kiln_err *err)
{
    enum kiln_code rc = fs_write_all(fd, content, err);
    if (!rc && (fchmod(fd, 0644) != 0 || fsync(fd) != 0))
        rc = kiln_fail_errno(err, errno, "cannot write it to the disk");
    return rc;
}

/* Chooses a random name, because several hosts may write the same file at the same time. */
static enum kiln_code name_temporary(struct temporary *t, struct kiln_err *err)
{
    uint64_t random;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return kiln_fail(err, KILN_IO, "the system provides no random bytes");
    snprintf(t->name, sizeof(t->name), TEMPORARY_BEGINNING "%016llx", (unsigned long long)random);
    return KILN_OK;
}

static enum kiln_code create_temporary(const struct temporary *t, struct bytes content,
                                       struct kiln_err *err)
{
    KILN_AUTO(fd)
    int fd = openat(t->parent, t->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? kiln_fail_errno(err, errno, "cannot create it") : write_file(fd, content, err);
}

static enum kiln_code write_temporary(int root, const char *name, struct bytes content,
                                      struct temporary *ret_temporary, struct kiln_err *err)
{
    struct temporary t = { .parent = open_parent(root, name, /* creates= */ true) };
    enum kiln_code rc = t.parent < 0
                            ? kiln_fail_errno(err, errno, "cannot open or create its directory")
                            : name_temporary(&t, err);
    if (!rc)
        rc = create_temporary(&t, content, err);
    if (rc)
        temporary_done(&t);
    else
        *ret_temporary = t;
    return rc;
}

static enum kiln_code sync_parent(const struct temporary *t, struct kiln_err *err)
{
    return fsync(t->parent) == 0 ? KILN_OK
                                 : kiln_fail_errno(err, errno, "cannot sync its directory");
}

enum kiln_code fleet_tree_add(int root, const char *name, struct bytes content, bool *ret_added,
                              struct kiln_err *err)
{
    struct temporary t;
    bool added = false;
    if (ret_added)
        *ret_added = false;
    if (faccessat(root, name, F_OK, 0) == 0)
        return KILN_OK;
    enum kiln_code rc = write_temporary(root, name, content, &t, err);
    if (!rc) {
        added = linkat(t.parent, t.name, t.parent, name_within(name), 0) == 0;
        if (!added && errno != EEXIST)
            rc = kiln_fail_errno(err, errno, "cannot link it");
        if (!rc)
            rc = sync_parent(&t, err);
        temporary_done(&t);
    }
    if (ret_added)
        *ret_added = added;
    return rc ? kiln_while(err, "adding '%s' to the fleet's tree", name) : KILN_OK;
}

enum kiln_code fleet_tree_replace(int root, const char *name, struct bytes content,
                                  struct kiln_err *err)
{
    struct temporary t;
    enum kiln_code rc = write_temporary(root, name, content, &t, err);
    if (!rc) {
        if (renameat(t.parent, t.name, t.parent, name_within(name)) == 0)
            t.name[0] = '\0';
        else
            rc = kiln_fail_errno(err, errno, "cannot rename it");
        if (!rc)
            rc = sync_parent(&t, err);
        temporary_done(&t);
    }
    return rc ? kiln_while(err, "replacing '%s' in the fleet's tree", name) : KILN_OK;
}

enum kiln_code fleet_tree_read(int root, const char *name, struct buffer *ret_content,
                               struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = openat(root, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return kiln_fail(err, KILN_NOT_FOUND, "the fleet's tree has no '%s'", name);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s' of the fleet's tree", name);
    enum kiln_code rc = fs_read_fd(fd, ret_content->limit, ret_content, err);
    return rc ? kiln_while(err, "reading '%s' of the fleet's tree", name) : KILN_OK;
}

enum kiln_code fleet_tree_read_range(int root, struct fleet_file *file, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = openat(root, file->name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return kiln_fail(err, KILN_NOT_FOUND, "the fleet's tree has no '%s'", file->name);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s' of the fleet's tree", file->name);
    struct buffer *content = &file->content;
    uint8_t *bytes = file->size <= content->limit ? realloc(content->data, file->size) : NULL;
    if (!bytes)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a part of '%s'", file->name);
    content->data = bytes;
    content->capacity = file->size;
    ssize_t got = fs_read_at(fd, bytes, file->size, (off_t)file->offset);
    content->size = got > 0 ? (size_t)got : 0;
    if (got < 0)
        return kiln_fail_errno(err, errno, "cannot read '%s' of the fleet's tree", file->name);
    return content->size == file->size
               ? KILN_OK
               : kiln_fail(err, KILN_CORRUPT, "'%s' of the fleet's tree is truncated", file->name);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.' ||
           strncmp(entry->d_name, TEMPORARY_BEGINNING, strlen(TEMPORARY_BEGINNING)) == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Returns false if the file is gone. */
static bool examine(int directory, const char *name, struct fleet_listed *ret_listed)
{
    struct stat seen;
    if (fstatat(directory, name, &seen, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    *ret_listed =
        (struct fleet_listed){ .name = name,
                               .is_directory = S_ISDIR(seen.st_mode),
                               .bytes = (uint64_t)seen.st_size,
                               .modified = seen.st_mtime > 0 ? (uint64_t)seen.st_mtime : 0 };
    return true;
}

enum kiln_code fleet_tree_list(int root, const char *name, fleet_each *each, void *context,
                               struct kiln_err *err)
{
    struct dirent **entries = NULL;
    enum kiln_code rc = KILN_OK;
    KILN_AUTO(fd) int directory = open_directory(root, name, /* creates= */ false);
    int count = directory < 0 ? -1 : scandirat(directory, ".", &entries, is_visible, by_name);
    if (count < 0 && errno != ENOENT)
        return kiln_fail_errno(err, errno, "cannot list '%s' of the fleet's tree", name);
    for (int i = 0; i < count; i++) {
        struct fleet_listed listed;
        if (!rc && examine(directory, entries[i]->d_name, &listed))
            rc = each(context, &listed, err);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

enum kiln_code fleet_tree_remove(int root, const char *name, struct kiln_err *err)
{
    KILN_AUTO(fd) int parent = open_parent(root, name, /* creates= */ false);
    if ((parent >= 0 && unlinkat(parent, name_within(name), 0) == 0) || errno == ENOENT)
        return KILN_OK;
    return kiln_fail_errno(err, errno, "cannot delete '%s' of the fleet's tree", name);
}

enum kiln_code fleet_tree_lock(int root, int *ret_lock, struct kiln_err *err)
{
    *ret_lock = -1;
    KILN_AUTO(fd)
    int fd = openat(root, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot create '%s' in the fleet's tree", LOCK_NAME);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return kiln_fail(err, KILN_BUSY,
                             "another 'kilnctl fleet compact' or 'fleet gc' works on this tree");
        return errno == ENOLCK || errno == EOPNOTSUPP || errno == EINVAL
                   ? KILN_OK /* the file system has no locks */
                   : kiln_fail_errno(err, errno, "cannot lock the fleet's tree");
    }
    *ret_lock = fd;
    fd = -1;
    return KILN_OK;
}
