/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "engine/db/sqlite_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

/* A damaged file is replaced as a whole: if one part is damaged, the other parts cannot be trusted
 * either. */

static enum kiln_code remove_files(const struct kernel_store *store, size_t from,
                                   struct kiln_err *err)
{
    for (size_t i = from; i < SQLITE_SUFFIXES; i++) {
        char name[32];
        snprintf(name, sizeof(name), STORE_FILE "%s", sqlite_suffixes[i]);
        if (unlinkat(store->home.fd, name, 0) != 0 && errno != ENOENT)
            return kiln_fail_errno(err, errno, "cannot remove '%s/%s'", store->directory, name);
    }
    return KILN_OK;
}

enum kiln_code store_open_or_rebuild(struct kernel_store *store, const char *damage,
                                     char notice[512], struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    if (!damage) {
        enum kiln_code rc = store_open_all(store, &why);
        if (rc == KILN_CORRUPT) {
            rc = store_open_all(store, &why);
            store->misreads += rc == KILN_OK;
        }
        if (rc != KILN_CORRUPT) {
            *err = why;
            return rc;
        }
        damage = why.text;
    }
    enum kiln_code rc = remove_files(store, 0, err);
    if (!rc)
        rc = store_open_all(store, err);
    if (!rc)
        snprintf(notice, 512,
                 "the kernel cache '%.180s' was damaged (%.200s): it was removed, and an empty one "
                 "was created",
                 store->path, damage);
    return rc;
}

static void describe_removal(const struct kernel_store *store, char notice[512])
{
    if (store->file.is_made)
        snprintf(notice, 512,
                 "the kernel cache '%.300s' was removed while kilnd ran: a new one was created",
                 store->path);
    else
        snprintf(notice, 512,
                 "the kernel cache '%.300s' was replaced while kilnd ran: kilnd uses the new file",
                 store->path);
}

static enum kiln_code open_again(struct kernel_store *store, const char *damage, char notice[512],
                                 struct kiln_err *err)
{
    enum kiln_code rc = db_directory_refresh(&store->home, /* writing= */ true, err);
    /* Removes the log of the removed file, which SQLite would apply to the new file. */
    if (!rc && store->file.is_gone)
        rc = remove_files(store, 1, err);
    if (rc)
        return rc;
    return store_open_or_rebuild(store, store->file.is_gone ? NULL : damage, notice, err);
}

/* Returns whether all readers must be closed before SQLite can open the file for writing. All
 * connections of a process share SQLite's index of the log. If the first connection could not open
 * the index for writing, the index is read-only for all of them until the last one closes. */
static bool readers_block_writer(const struct kernel_store *store)
{
    uint64_t log = 0;
    return store_file_size(store, STORE_LOG, &log) && faccessat(store->home.fd, ".", W_OK, 0) == 0;
}

enum kiln_code store_reopen(struct kernel_store *store, const char *damage, struct kiln_err *err)
{
    char notice[512] = "";
    if (store->file.inode && !store_file_is_in_place(store))
        store->file.is_gone = true;
    /* If only writing failed so far, the readers stay open until the file is open for writing. */
    bool keeps_readers =
        !store->writer && !damage && !store->file.is_gone && !readers_block_writer(store);
    if (!keeps_readers) {
        store_readers_hold(store, true);
        store_close_all(store);
    }
    enum kiln_code rc = open_again(store, damage, notice, err);
    struct kiln_err ignored = KILN_ERR_INIT;
    if (rc && !keeps_readers && db_directory_refresh(&store->home, false, &ignored) == KILN_OK)
        (void)!store_open_reading(store, &ignored);
    store_readers_hold(store, false);
    if (rc)
        return rc;
    if (store->file.is_gone && !*notice)
        describe_removal(store, notice);
    store->file.is_gone = false;
    atomic_store(&store->file_damaged, false);
    if (*notice)
        store_set_notice(store, KERNEL_NOTICE_REPLACED, notice);
    return KILN_OK;
}

enum kiln_code store_wipe(struct kernel_store *store, struct kiln_err *err)
{
    store_readers_hold(store, true);
    store_close_all(store);
    enum kiln_code rc = remove_files(store, 0, err);
    if (!rc)
        rc = store_open_all(store, err);
    store_readers_hold(store, false);
    return rc;
}
