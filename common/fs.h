/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Files, directories and memfds: the operating-system calls that more than one part needs.
 *
 * Ownership  descriptors returned are the caller's; all are close-on-exec from birth
 * Threading  safe from any thread
 */
#include "common/bytes.h"
#include "common/err.h"

#include <sys/types.h>

/* Makes |path| and its missing parents, mode 0700; existing directories are left as they are. */
KILN_MUST_CHECK enum kiln_code fs_make_directories(const char *path, struct kiln_err *err);
/* Entries that are removed at one time: some seconds, where whoever filled a directory means ill.
 */
#define FS_REMOVED_MAX (1u << 18)

/* Removes |name|, a file or a directory with all that is in it; |parent_fd| as for unlinkat(2).
 * Follows no symbolic link; modes of directories, and how deep they lie in each other, are no
 * obstacle. What cannot be removed stays: the sentence names the first such thing and why.
 * KILN_FULL where more than |most| entries were in it: the rest is for another time.  May block. */
enum kiln_code fs_remove_some(int parent_fd, const char *name, unsigned most, struct kiln_err *err);
static inline enum kiln_code fs_remove(int parent_fd, const char *name, struct kiln_err *err)
{
    return fs_remove_some(parent_fd, name, FS_REMOVED_MAX, err);
}
/* The same where nobody is to hear of what stays. */
void fs_remove_tree(int parent_fd, const char *name);
/* As both of them, for all that is in the directory |path|, which itself stays. */
enum kiln_code fs_empty(const char *path, struct kiln_err *err);
void fs_empty_directory(const char *path);
/* Whole file, at most |limit| bytes; KILN_NOT_FOUND with a sentence when it is absent. */
KILN_MUST_CHECK enum kiln_code fs_read_file(const char *path, size_t limit,
                                            struct buffer *ret_content, struct kiln_err *err);
/* Whole descriptor from its start, by pread; at most |limit| bytes. */
KILN_MUST_CHECK enum kiln_code fs_read_fd(int fd, size_t limit, struct buffer *ret_content,
                                          struct kiln_err *err);
/* pread(2) until |size| bytes are there or none is left, through short reads and EINTR.  How many
 * came; -1 with errno. */
ssize_t fs_read_at(int fd, void *to, size_t size, off_t at);
/* All of |content|, through short writes and EINTR. */
KILN_MUST_CHECK enum kiln_code fs_write_all(int fd, struct bytes content, struct kiln_err *err);

/* Makes our pid all that the lock file |fd| holds, for the sentence that another process prints;
 * best effort. */
void fs_write_pid(int fd);

/* Makes |path| hold |content| in one step (a file beside it, renamed), synced to disk with its
 * directory. */
KILN_MUST_CHECK enum kiln_code fs_replace_file(const char *path, struct bytes content, mode_t mode,
                                               struct kiln_err *err);

/* An empty memfd that can be sealed. */
KILN_MUST_CHECK enum kiln_code fs_memfd(const char *name, int *ret_fd, struct kiln_err *err);
/* Shrink, grow, write and seal from now on; KILN_BUSY while someone still maps it for writing. */
KILN_MUST_CHECK enum kiln_code fs_seal(int fd, struct kiln_err *err);
/* True when |fd| is a memfd with all four seals. */
bool fs_is_sealed(int fd);

#define FS_TYPE_MAX 32

struct fs_place {           /* what a path lies on */
    char type[FS_TYPE_MAX]; /* "nfs", "fuse.sshfs"; "" for what is none of both below */
    bool network;           /* another machine's: databases get damaged there */
    bool unknown_fuse;      /* a FUSE filesystem that may be that, or not */
};
/* -1 with errno set where it cannot be told. */
int fs_look(const char *path, struct fs_place *ret_place);
/* KILN_UNSUPPORTED when |path| lies on a network filesystem; the sentence names the filesystem
 * and |setting|, what to set instead. */
KILN_MUST_CHECK enum kiln_code fs_refuse_network(const char *path, const char *setting,
                                                 struct kiln_err *err);
/* "nfs", "lustre", ... for the f_type of statfs(2) of a network filesystem; NULL for others. */
const char *fs_network_name(long f_type);
