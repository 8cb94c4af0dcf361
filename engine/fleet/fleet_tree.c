/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_tree.h"

#include "common/base/fs.h"
#include "engine/fleet/fleet_names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

enum kiln_code fleet_tree_open(const char *path, int *ret_root, struct kiln_err *err)
{
    enum kiln_code rc = fs_make_directories_mode(path, 0755, err);
    if (rc)
        return rc;
    *ret_root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_root < 0 ? kiln_fail_errno(err, errno, "cannot open the directory '%s'", path)
                         : KILN_OK;
}

/* Creates the directories of |name|, and opens the last one. */
static enum kiln_code open_parent(int root, const char *name, int *ret_parent, struct kiln_err *err)
{
    char path[FLEET_NAME_MAX];
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(path, sizeof(path), "%.*s", (int)(slash - name), name);
        if (mkdirat(root, path, 0755) != 0 && errno != EEXIST)
            return kiln_fail_errno(err, errno, "cannot create the directory '%s'", path);
    }
    *ret_parent = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_parent < 0 ? kiln_fail_errno(err, errno, "cannot open the directory '%s'", path)
                           : KILN_OK;
}

static const char *name_within(const char *name) { return strrchr(name, '/') + 1; }

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
    snprintf(t->name, sizeof(t->name), ".writing-%016llx", (unsigned long long)random);
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
    struct temporary t = { .parent = -1 };
    enum kiln_code rc = open_parent(root, name, &t.parent, err);
    if (!rc)
        rc = name_temporary(&t, err);
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

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

enum kiln_code fleet_tree_list(int root, const char *name,
                               enum kiln_code (*each)(void *context, const char *entry,
                                                      struct kiln_err *err),
                               void *context, struct kiln_err *err)
{
    struct dirent **entries = NULL;
    enum kiln_code rc = KILN_OK;
    int count = scandirat(root, name, &entries, is_visible, by_name);
    if (count < 0 && errno != ENOENT)
        return kiln_fail_errno(err, errno, "cannot list '%s' of the fleet's tree", name);
    for (int i = 0; i < count; i++) {
        if (!rc)
            rc = each(context, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    return rc;
}
