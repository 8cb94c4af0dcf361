/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Files, folders and memfds: the operating-system calls that more than one part needs.
 *
 * Ownership  descriptors returned are the caller's; all are close-on-exec from birth
 * Threading  safe from any thread
 */
#include "common/bytes.h"
#include "common/err.h"

#include <sys/types.h>

/* Makes |path| and its missing parents, mode 0700; existing folders are left as they are. */
KILN_MUST_CHECK enum kiln_code fs_make_folders(const char *path, struct kiln_err *err);
/* Removes |name|, a file or a folder with all that is in it; |parent_fd| as for unlinkat(2).
 * Follows no symbolic link.  Best effort: what cannot be removed stays.  May block. */
void fs_remove_tree(int parent_fd, const char *name);
/* The same for all that is in the folder |path|, which itself stays. */
void fs_empty_folder(const char *path);
/* Whole file, at most |limit| bytes; KILN_NOT_FOUND with a sentence when it is absent. */
KILN_MUST_CHECK enum kiln_code fs_read_file(const char *path, size_t limit,
                                            struct buffer *ret_content, struct kiln_err *err);
/* Whole descriptor from its start, by pread; at most |limit| bytes. */
KILN_MUST_CHECK enum kiln_code fs_read_fd(int fd, size_t limit, struct buffer *ret_content,
                                          struct kiln_err *err);
/* All of |content|, through short writes and EINTR. */
KILN_MUST_CHECK enum kiln_code fs_write_all(int fd, struct bytes content, struct kiln_err *err);

/* Makes our pid all that the lock file |fd| holds, for the sentence that another process prints;
 * best effort. */
void fs_write_pid(int fd);

/* Makes |path| hold |content| in one step (a file beside it, renamed), synced to disk with its
 * folder. */
KILN_MUST_CHECK enum kiln_code fs_replace_file(const char *path, struct bytes content, mode_t mode,
                                               struct kiln_err *err);

/* An empty memfd that can be sealed. */
KILN_MUST_CHECK enum kiln_code fs_memfd(const char *name, int *ret_fd, struct kiln_err *err);
/* Shrink, grow, write and seal from now on; KILN_BUSY while someone still maps it for writing. */
KILN_MUST_CHECK enum kiln_code fs_seal(int fd, struct kiln_err *err);
/* True when |fd| is a memfd with all four seals. */
bool fs_is_sealed(int fd);

/* KILN_UNSUPPORTED when |path| lies on a network filesystem; the sentence names the filesystem
 * and |setting|, what to set instead. */
KILN_MUST_CHECK enum kiln_code fs_refuse_network(const char *path, const char *setting,
                                                 struct kiln_err *err);
/* "nfs", "lustre", ... for the f_type of statfs(2) of a network filesystem; NULL for others. */
const char *fs_network_name(long f_type);
