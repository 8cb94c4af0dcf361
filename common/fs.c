/* SPDX-License-Identifier: MIT */
#include "common/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)
/* Deeper than any compiler nests; each level costs a descriptor while it is emptied. */
#define TREE_DEPTH_MOST 64

enum kiln_code fs_make_folders(const char *path, struct kiln_err *err)
{
    KILN_AUTO(mem) char *partial = strdup(path);
    if (!partial)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the folder '%s'", path);
    for (char *at = partial + 1;; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        char cut = *at;
        *at = '\0';
        if (mkdir(partial, 0700) != 0 && errno != EEXIST)
            return kiln_fail_errno(err, errno, "cannot make the folder '%s'", partial);
        *at = cut;
        if (cut == '\0')
            break;
    }
    struct stat seen;
    if (stat(path, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot look at the folder '%s'", path);
    if (!S_ISDIR(seen.st_mode))
        return kiln_fail(err, KILN_INVALID, "'%s' is not a folder", path);
    return KILN_OK;
}

static void empty(int folder_fd, unsigned depth);

static int open_folder(int parent_fd, const char *name)
{
    return openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void remove_entry(int parent_fd, const char *name, unsigned depth)
{
    if (unlinkat(parent_fd, name, 0) == 0 || (errno != EISDIR && errno != EPERM))
        return;
    int fd = depth < TREE_DEPTH_MOST ? open_folder(parent_fd, name) : -1;
    if (fd >= 0)
        empty(fd, depth + 1);
    unlinkat(parent_fd, name, AT_REMOVEDIR);
}

/* Takes |folder_fd|. */
static void empty(int folder_fd, unsigned depth)
{
    fchmod(folder_fd, 0700); /* whoever filled it may have taken its own permissions away */
    DIR *dir = fdopendir(folder_fd);
    if (!dir) {
        close(folder_fd);
        return;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove_entry(dirfd(dir), e->d_name, depth);
    }
    closedir(dir);
}

void fs_remove_tree(int parent_fd, const char *name) { remove_entry(parent_fd, name, 0); }

void fs_empty_folder(const char *path)
{
    int fd = open_folder(AT_FDCWD, path);
    if (fd >= 0)
        empty(fd, 0);
}

enum kiln_code fs_read_fd(int fd, size_t limit, struct buffer *ret_content, struct kiln_err *err)
{
    uint8_t chunk[16384];
    off_t at = 0;
    for (;;) {
        ssize_t got = pread(fd, chunk, sizeof(chunk), at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kiln_fail_errno(err, errno, "cannot read");
        if (got == 0)
            return KILN_OK;
        at += got;
        if ((size_t)at > limit)
            return kiln_fail(err, KILN_FULL, "content exceeds %zu bytes", limit);
        buffer_put(ret_content, chunk, (size_t)got);
        if (ret_content->failed)
            return kiln_fail(err, KILN_NO_MEMORY, "cannot hold %lld bytes", (long long)at);
    }
}

enum kiln_code fs_read_file(const char *path, size_t limit, struct buffer *ret_content,
                            struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open '%s'", path);
    enum kiln_code rc = fs_read_fd(fd, limit, ret_content, err);
    return rc ? kiln_while(err, "reading '%s'", path) : KILN_OK;
}

enum kiln_code fs_write_all(int fd, struct bytes content, struct kiln_err *err)
{
    size_t done = 0;
    while (done < content.size) {
        ssize_t put = write(fd, content.data + done, content.size - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return kiln_fail_errno(err, errno, "cannot write %zu bytes", content.size - done);
        done += (size_t)put;
    }
    return KILN_OK;
}

void fs_write_pid(int fd)
{
    char text[32];
    int size = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)size, 0) < 0)
        return;
}

/* Of the folder that |path| lies in: so that the new name is there after a power cut. */
static enum kiln_code sync_folder_of(const char *path, struct kiln_err *err)
{
    KILN_AUTO(mem) char *copy = strdup(path);
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot write '%s'", path);
    KILN_AUTO(fd) int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        return kiln_fail_errno(err, errno, "cannot sync the folder of '%s'", path);
    return KILN_OK;
}

enum kiln_code fs_replace_file(const char *path, struct bytes content, mode_t mode,
                               struct kiln_err *err)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary))
        return kiln_fail(err, KILN_INVALID, "the path '%.80s...' is too long", path);
    KILN_AUTO(fd) int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot make a file beside '%s'", path);
    enum kiln_code rc = fs_write_all(fd, content, err);
    if (!rc && (fchmod(fd, mode) != 0 || fsync(fd) != 0 || rename(temporary, path) != 0))
        rc = kiln_fail_errno(err, errno, "cannot replace '%s'", path);
    if (rc) {
        unlink(temporary);
        return kiln_while(err, "writing '%s'", path);
    }
    return sync_folder_of(path, err);
}

enum kiln_code fs_memfd(const char *name, int *ret_fd, struct kiln_err *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot make the memory file '%s'", name);
    *ret_fd = fd;
    return KILN_OK;
}

enum kiln_code fs_seal(int fd, struct kiln_err *err)
{
    if (fcntl(fd, F_ADD_SEALS, ALL_SEALS) != 0)
        return kiln_fail_errno(err, errno, "cannot seal a memory file");
    return KILN_OK;
}

bool fs_is_sealed(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & ALL_SEALS) == ALL_SEALS;
}

const char *fs_network_name(long f_type)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {
        { 0x6969, "nfs" },       { 0x517b, "smb" },        { 0xfe534d42, "smb2" },
        { 0xff534d42, "cifs" },  { 0x0bd00bd0, "lustre" }, { 0x00c36400, "ceph" },
        { 0x5346414f, "afs" },   { 0x6b414653, "afs" },    { 0x47504653, "gpfs" },
        { 0xaad7aaea, "panfs" }, { 0x19830326, "beegfs" }, { 0x73757245, "coda" },
        { 0x7461636f, "ocfs2" }, { 0x01161970, "gfs2" },   { 0x01021997, "9p" },
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].magic == ((unsigned long)f_type & 0xffffffffu))
            return known[i].name;
    }
    return NULL;
}

enum kiln_code fs_refuse_network(const char *path, const char *setting, struct kiln_err *err)
{
    struct statfs seen;
    if (statfs(path, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot ask which filesystem '%s' is on", path);
    const char *name = fs_network_name((long)seen.f_type);
    if (!name)
        return KILN_OK;
    return kiln_fail(err, KILN_UNSUPPORTED,
                     "'%s' is on a network filesystem (%s), where databases get damaged: set %s to "
                     "a folder on a local disk",
                     path, name, setting);
}
