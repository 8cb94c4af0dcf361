/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>

/*
 * SQLite writes what is to go to its log before it goes, and what the log has may make the file
 * longer when it is copied back.  So that a full disk can be made room on by dropping kernels, some
 * blocks are kept in a file of no content, which goes when they are needed.
 */
/* A small cache is quickly compiled again: 'kilnctl clear --all' needs no room. */
#define LIMIT_LEAST (16u << 20)
#define MODE 0600

/* All that the log holds until it is copied back, and a quarter of that to write. */
uint64_t store_reserve_size(uint64_t limit)
{
    uint64_t pages = store_log_pages(limit);
    return limit < LIMIT_LEAST ? 0 : (pages + pages / 4) * STORE_PAGE;
}

uint64_t store_sparing_share(uint64_t limit) { return store_reserve_size(limit) / 8; }

uint64_t store_reserve_bytes(const struct kernel_store *store)
{
    struct stat seen;
    bool is_there = stat(store->reserve_path, &seen) == 0 && S_ISREG(seen.st_mode);
    return is_there ? (uint64_t)seen.st_blocks * 512 : 0;
}

static bool disk_has(const struct kernel_store *store, uint64_t bytes)
{
    struct statvfs fs;
    return fstatvfs(store->folder, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize >= bytes;
}

static bool make(struct kernel_store *store, uint64_t size)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    KILN_AUTO(fd) int fd = openat(store->folder, STORE_RESERVE, flags, MODE);
    if (fd >= 0 && posix_fallocate(fd, 0, (off_t)size) == 0)
        return true;
    if (fd >= 0)
        unlinkat(store->folder, STORE_RESERVE, 0);
    return false;
}

void store_reserve_find(struct kernel_store *store)
{
    store->reserve_bytes = store_reserve_bytes(store);
    store->reserve_refused = false;
}

void store_reserve_keep(struct kernel_store *store, bool was_used)
{
    uint64_t limit = store->limit_bytes, want = store_reserve_size(limit);
    if (store->reserve_bytes >= want && store->reserve_bytes - want <= want / 4)
        return;
    if (store->reserve_bytes > 0)
        store_reserve_release(store);
    /* Nobody else is to miss it, but for what was freed just now; nor the next kernels. */
    uint64_t beside = was_used ? STORE_ROOM_LEAST : want;
    if (want == 0 || store->reserve_refused || !disk_has(store, want + beside) ||
        store_taken_bytes(store) + want > limit)
        return;
    store->reserve_refused = !make(store, want);
    store->reserve_bytes = store->reserve_refused ? 0 : want;
}

bool store_reserve_release(struct kernel_store *store)
{
    bool released = store_reserve_bytes(store) > 0;
    store->reserve_bytes = 0;
    store->reserve_refused = false;
    return store->folder >= 0 && unlinkat(store->folder, STORE_RESERVE, 0) == 0 && released;
}
