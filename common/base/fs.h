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

#include <dirent.h>
#include <sys/types.h>

/* Creates |path| and its missing parents.  Does not change existing directories. */
KILN_MUST_CHECK enum kiln_code fs_make_directories(const char *path, struct kiln_err *err);
/* Like fs_make_directories.  New directories get |mode|, which the umask does not change. */
KILN_MUST_CHECK enum kiln_code fs_make_directories_mode(const char *path, mode_t mode,
                                                        struct kiln_err *err);
/* Shortens |path| to its deepest part that exists, or to "/" or "." if no part exists.  A dangling
 * symbolic link counts as existing.  Returns -1 with errno set if a part cannot be examined. */
int fs_cut_to_existing(char *path);
/* Does the same as readdir(3), but sets errno to 0 at the end of the directory.  NULL with another
 * errno means that the call failed. */
struct dirent *fs_next_entry(DIR *directory);
/* Maximum number of entries that fs_remove removes, so that a huge directory costs only seconds. */
#define FS_REMOVED_MAX (1u << 18)

/* Removes |name|, a file or a directory with its contents, as unlinkat(2) does.  Follows no
 * symbolic link.  The directories may have any mode and any depth.  Entries that cannot be removed
 * stay; the message names the first one.  Returns KILN_FULL if there were more than |max| entries;
 * call it again for the rest. */
enum kiln_code fs_remove_some(int parent_fd, const char *name, unsigned max, struct kiln_err *err);
static inline enum kiln_code fs_remove(int parent_fd, const char *name, struct kiln_err *err)
{
    return fs_remove_some(parent_fd, name, FS_REMOVED_MAX, err);
}
/* Ignores failures. */
void fs_remove_tree(int parent_fd, const char *name);
enum kiln_code fs_empty(const char *path, struct kiln_err *err);
void fs_empty_directory(const char *path);
/* Returns KILN_NOT_FOUND with a message if the file does not exist. */
KILN_MUST_CHECK enum kiln_code fs_read_file(const char *path, size_t limit,
                                            struct buffer *ret_content, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code fs_read_fd(int fd, size_t limit, struct buffer *ret_content,
                                          struct kiln_err *err);
/* Reads |size| bytes, or up to the end of the file.  Returns the number of bytes, or -1 with
 * errno. */
ssize_t fs_read_at(int fd, void *to, size_t size, off_t at);
KILN_MUST_CHECK enum kiln_code fs_write_all(int fd, struct bytes content, struct kiln_err *err);

struct fs_lock {
    int fd;
    pid_t holder; /* after KILN_BUSY: the process id stored in the file, or 0 */
};
/* Opens |name| with |flags| (openat(2)) and locks it; never waits for the lock.  Returns KILN_BUSY
 * if another process holds the lock, and KILN_NOT_FOUND if the file is missing and |flags| lack
 * O_CREAT. */
KILN_MUST_CHECK enum kiln_code fs_lock_at(int directory_fd, const char *name, int flags,
                                          struct fs_lock *ret_lock, struct kiln_err *err);
void fs_write_pid(int fd);

/* Replaces |path| atomically, and syncs both the file and its directory to disk. */
KILN_MUST_CHECK enum kiln_code fs_replace_file(const char *path, struct bytes content, mode_t mode,
                                               struct kiln_err *err);
typedef enum kiln_code fs_writer(void *context, int fd, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code fs_replace_file_by(const char *path, mode_t mode, fs_writer *write,
                                                  void *context, struct kiln_err *err);

KILN_MUST_CHECK enum kiln_code fs_memfd(const char *name, int *ret_fd, struct kiln_err *err);
/* Seals a memfd against shrinking, growing, writing and further seals.  Returns KILN_BUSY while a
 * writable mapping of it exists. */
KILN_MUST_CHECK enum kiln_code fs_seal(int fd, struct kiln_err *err);
bool fs_is_sealed(int fd);

#define FS_TYPE_MAX 32

struct fs_place {
    /* Type, such as "nfs" or "fuse.sshfs"; "" if neither flag below is set. */
    char type[FS_TYPE_MAX];
    bool network; /* a network filesystem, on which databases get damaged */
    bool unknown_fuse;
};
int fs_look(const char *path, struct fs_place *ret_place);
/* Returns KILN_UNSUPPORTED if |path| is on a network filesystem.  The message names |setting|, with
 * which the user can choose another directory. */
KILN_MUST_CHECK enum kiln_code fs_refuse_network(const char *path, const char *setting,
                                                 struct kiln_err *err);
/* Returns NULL unless |f_type| (statfs(2)) is the type of a network filesystem. */
const char *fs_network_name(long f_type);
