/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Files, directories and memfds: operating-system calls that several modules need.
 *
 * Ownership  the caller owns returned descriptors; all are opened close-on-exec
 * Threading  safe from any thread
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

#include <sys/types.h>

/* Creates |path| and its missing parents with mode 0700; existing directories are not changed. */
KILN_MUST_CHECK enum kiln_code fs_make_directories(const char *path, struct kiln_err *err);
/* Like fs_make_directories, but with |mode|, which the umask does not change. */
KILN_MUST_CHECK enum kiln_code fs_make_directories_mode(const char *path, mode_t mode,
                                                        struct kiln_err *err);
/* Shortens |path| to its deepest part that exists; if none does, to "/" or ".".  A symbolic link
 * counts as existing, whatever its target is.  Returns -1 with errno set if a part cannot be
 * examined. */
int fs_cut_to_existing(char *path);
/* The maximum number of entries that one call of fs_remove removes, so that a maliciously filled
 * directory costs only some seconds. */
#define FS_REMOVED_MAX (1u << 18)

/* Removes |name|, a file or a directory with its contents; |parent_fd| has the same meaning as for
 * unlinkat(2).  Follows no symbolic link.  The directories may have any mode and any depth.
 * Entries that cannot be removed stay; the message names the first one and the reason.  Returns
 * KILN_FULL if there were more than |max| entries; call it again for the rest.  May block. */
enum kiln_code fs_remove_some(int parent_fd, const char *name, unsigned max, struct kiln_err *err);
static inline enum kiln_code fs_remove(int parent_fd, const char *name, struct kiln_err *err)
{
    return fs_remove_some(parent_fd, name, FS_REMOVED_MAX, err);
}
/* Like fs_remove, but ignores failures. */
void fs_remove_tree(int parent_fd, const char *name);
/* Removes the contents of the directory |path|, but not the directory itself. */
enum kiln_code fs_empty(const char *path, struct kiln_err *err);
void fs_empty_directory(const char *path);
/* Reads a whole file, of at most |limit| bytes.  Returns KILN_NOT_FOUND with a message if it does
 * not exist. */
KILN_MUST_CHECK enum kiln_code fs_read_file(const char *path, size_t limit,
                                            struct buffer *ret_content, struct kiln_err *err);
/* Reads all of an open file from its start with pread.  The file may have at most |limit| bytes. */
KILN_MUST_CHECK enum kiln_code fs_read_fd(int fd, size_t limit, struct buffer *ret_content,
                                          struct kiln_err *err);
/* Reads |size| bytes, or up to the end of the file.  Repeats pread(2) after short reads and EINTR.
 * Returns the number of bytes, or -1 with errno. */
ssize_t fs_read_at(int fd, void *to, size_t size, off_t at);
/* Writes all of |content|.  Repeats write(2) after short writes and EINTR. */
KILN_MUST_CHECK enum kiln_code fs_write_all(int fd, struct bytes content, struct kiln_err *err);

struct fs_lock {
    int fd;       /* the locked file */
    pid_t holder; /* after KILN_BUSY: the process id stored in the file, or 0 */
};
/* Opens |name| with |flags| (openat(2)) and locks it.  Returns KILN_BUSY if another process holds
 * the lock, and KILN_NOT_FOUND if the file does not exist and |flags| lack O_CREAT.  Never waits
 * for the lock. */
KILN_MUST_CHECK enum kiln_code fs_lock_at(int directory_fd, const char *name, int flags,
                                          struct fs_lock *ret_lock, struct kiln_err *err);
/* Replaces the contents of the lock file |fd| with this process's id, which other processes show in
 * their messages.  Ignores failures. */
void fs_write_pid(int fd);

/* Replaces the contents of |path| atomically with |content|: writes a temporary file in the same
 * directory and renames it.  Syncs both the file and the directory to disk. */
KILN_MUST_CHECK enum kiln_code fs_replace_file(const char *path, struct bytes content, mode_t mode,
                                               struct kiln_err *err);
/* Like fs_replace_file, but the content is what |write| writes to the descriptor. */
typedef enum kiln_code fs_writer(void *context, int fd, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code fs_replace_file_by(const char *path, mode_t mode, fs_writer *write,
                                                  void *context, struct kiln_err *err);

/* Creates an empty memfd that can be sealed. */
KILN_MUST_CHECK enum kiln_code fs_memfd(const char *name, int *ret_fd, struct kiln_err *err);
/* Seals a memfd against shrinking, growing, writing and further seals.  Returns KILN_BUSY while a
 * writable mapping of it exists. */
KILN_MUST_CHECK enum kiln_code fs_seal(int fd, struct kiln_err *err);
/* Returns true if |fd| is a memfd with all four seals. */
bool fs_is_sealed(int fd);

#define FS_TYPE_MAX 32

struct fs_place { /* the filesystem of a path */
    /* Type, such as "nfs" or "fuse.sshfs"; "" if neither flag below is set. */
    char type[FS_TYPE_MAX];
    bool network; /* a network filesystem, on which databases get damaged */
    /* A FUSE filesystem of unknown type, which may be a network filesystem. */
    bool unknown_fuse;
};
/* Determines the filesystem of |path|.  Returns -1 with errno set if the filesystem cannot be
 * determined. */
int fs_look(const char *path, struct fs_place *ret_place);
/* Rejects network filesystems: returns KILN_UNSUPPORTED if |path| is on one.  The message names the
 * filesystem, and |setting|, with which the user can choose another directory. */
KILN_MUST_CHECK enum kiln_code fs_refuse_network(const char *path, const char *setting,
                                                 struct kiln_err *err);
/* Returns the name ("nfs", "lustre", ...) of the network filesystem with this f_type (statfs(2)),
 * or NULL for any other filesystem. */
const char *fs_network_name(long f_type);
