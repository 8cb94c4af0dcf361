/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include <errno.h>
#include <fcntl.h>

void store_directory_init(struct kernel_store *store, bool allow_network_fs)
{
    const struct db_directory_options options = { .path = store->directory,
                                                  .what = "cache directory",
                                                  .setting = "--cache-dir",
                                                  .variable = "XDG_CACHE_HOME",
                                                  .lock = "kilnd.lock",
                                                  .file = "the kernel cache",
                                                  .is_cache = true,
                                                  .allow_network_fs = allow_network_fs };
    db_directory_init(&store->home, &options);
}

bool store_file_is_in_place(const struct kernel_store *store)
{
    struct stat seen;
    if (stat(store->path, &seen) != 0)
        return errno != ENOENT &&
               errno != ENOTDIR; /* another failure does not mean that the file is gone */
    return seen.st_dev == store->file.device && seen.st_ino == store->file.inode;
}

bool store_file_size(const struct kernel_store *store, const char *name, uint64_t *ret_size)
{
    struct stat seen;
    if (store->home.fd < 0 || fstatat(store->home.fd, name, &seen, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    *ret_size = (uint64_t)seen.st_size;
    return true;
}

/* Creates the file with mode 0600, unlike SQLite (0644). An existing file must not be opened
 * here: closing its descriptor would drop this process's SQLite locks on the file. */
enum kiln_code store_file_make(struct kernel_store *store, struct kiln_err *err)
{
    KILN_AUTO(fd)
    int fd = openat(store->home.fd, STORE_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST)
        return kiln_fail_errno(err, errno, "cannot create '%s'", store->path);
    store->file.is_made = fd >= 0;
    enum kiln_code rc = store_file_check(store, err);
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(err, KILN_UNAVAILABLE, "'%s' was removed while it was opened: try again",
                         store->path);
    return rc;
}

enum kiln_code store_file_check(struct kernel_store *store, struct kiln_err *err)
{
    struct stat seen;
    if (store->home.fd < 0)
        return KILN_NOT_FOUND;
    enum kiln_code rc = db_directory_check_file(&store->home, STORE_FILE, &seen, err);
    if (rc)
        return rc;
    store->file.device = seen.st_dev;
    store->file.inode = seen.st_ino;
    return KILN_OK;
}
