/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define ASIDE_PREFIX STORE_FILE ".damaged-"

/* What SQLite keeps beside a database; the file itself comes first. */
static const char *const suffixes[] = { "", "-wal", "-shm" };

/* ---- copies of damaged files ---- */

static void each_copy(const struct kernel_store *store,
                      void (*each)(int folder, const char *name, uint64_t *bytes), uint64_t *bytes)
{
    DIR *dir = opendir(store->directory);
    if (!dir)
        return;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (strncmp(e->d_name, ASIDE_PREFIX, sizeof(ASIDE_PREFIX) - 1) == 0)
            each(dirfd(dir), e->d_name, bytes);
    }
    closedir(dir);
}

static void add_blocks(int folder, const char *name, uint64_t *bytes)
{
    struct stat seen;
    if (fstatat(folder, name, &seen, AT_SYMLINK_NOFOLLOW) == 0)
        *bytes += (uint64_t)seen.st_blocks * 512;
}

static void remove_copy(int folder, const char *name, uint64_t *bytes)
{
    (void)bytes;
    unlinkat(folder, name, 0);
}

void store_copies_count(struct kernel_store *store)
{
    uint64_t bytes = 0;
    each_copy(store, add_blocks, &bytes);
    atomic_store(&store->copies_bytes, bytes);
}

void store_copies_forget(struct kernel_store *store)
{
    each_copy(store, remove_copy, NULL);
    store_copies_count(store);
}

/* A copy each time would fill the disk that the limit is there to protect. */
static enum kiln_code move_aside(struct kernel_store *store, const char *why, char notice[512],
                                 struct kiln_err *err)
{
    store_copies_forget(store);
    char aside[64];
    snprintf(aside, sizeof(aside), ASIDE_PREFIX "%llu", (unsigned long long)clock_wall_s());
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char from[32], to[80];
        snprintf(from, sizeof(from), STORE_FILE "%s", suffixes[i]);
        snprintf(to, sizeof(to), "%s%s", aside, suffixes[i]);
        if (renameat(store->folder, from, store->folder, to) != 0 && errno != ENOENT)
            return kiln_fail_errno(err, errno, "cannot move the damaged '%s/%s' aside",
                                   store->directory, from);
    }
    snprintf(notice, 512,
             "the kernel cache was damaged (%.200s): moved to '%.180s/%s', started an empty one",
             why, store->directory, aside);
    return KILN_OK;
}

enum kiln_code store_open_mending(struct kernel_store *store, const char *damage, char notice[512],
                                  struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    if (!damage) {
        enum kiln_code rc = store_open_all(store, &why);
        if (rc == KILN_CORRUPT) /* a disk that fails to read once has not damaged the file */
            rc = store_open_all(store, &why);
        if (rc != KILN_CORRUPT) {
            *err = why;
            return rc;
        }
        damage = why.text;
    }
    enum kiln_code rc = move_aside(store, damage, notice, err);
    return rc ? rc : store_open_all(store, err);
}

/* ---- starting anew ---- */

static void say_removed(const struct kernel_store *store, char notice[512])
{
    if (store->made_file)
        snprintf(notice, 512,
                 "the kernel cache '%.300s' was removed while kilnd ran: a new one was made",
                 store->path);
    else
        snprintf(
            notice, 512,
            "the kernel cache '%.300s' was replaced while kilnd ran: what is there now is used",
            store->path);
}

/* SQLite would play the log of the file that is gone into the one that took its place. */
static void drop_old_log(const struct kernel_store *store)
{
    for (size_t i = 1; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), STORE_FILE "%s", suffixes[i]);
        unlinkat(store->folder, name, 0);
    }
}

static enum kiln_code reopen(struct kernel_store *store, const char *damage, char notice[512],
                             struct kiln_err *err)
{
    enum kiln_code rc = store_folder_open(store, err);
    if (rc)
        return rc;
    if (store->removed)
        drop_old_log(store);
    /* The damage was in a file that is gone. */
    return store_open_mending(store, store->removed ? NULL : damage, notice, err);
}

/* SQLite has one index of the log for all connections of a process: one that could not be written
 * to when the first of them opened it stays so until the last has closed it. */
static bool readers_stand_in_the_way(const struct kernel_store *store)
{
    uint64_t log = 0;
    return store_file_size(store, STORE_LOG, &log) && faccessat(store->folder, ".", W_OK, 0) == 0;
}

enum kiln_code store_start_anew(struct kernel_store *store, const char *damage,
                                struct kiln_err *err)
{
    char notice[512] = "";
    if (store->inode && !store_file_is_in_place(store))
        store->removed = true; /* until it is told */
    /* While only writing fails, readers go on until there is something better. */
    bool keeps_readers =
        !store->writer && !damage && !store->removed && !readers_stand_in_the_way(store);
    if (!keeps_readers) {
        db_pool_hold(&store->readers, true);
        store_close_all(store);
    }
    enum kiln_code rc = reopen(store, damage, notice, err);
    struct kiln_err ignored = KILN_ERR_INIT;
    if (rc && !keeps_readers && store_folder_look(store, &ignored) == KILN_OK)
        (void)!store_open_reading(store, &ignored);
    db_pool_hold(&store->readers, false);
    if (rc)
        return rc;
    if (store->removed && !*notice)
        say_removed(store, notice);
    store->removed = false;
    store->doubts = 0; /* they were of connections that are gone, or of another file */
    atomic_store(&store->file_damaged, false);
    if (*notice)
        store_say(store, KERNEL_NOTICE_REPLACED, notice);
    return KILN_OK;
}

enum kiln_code store_wipe(struct kernel_store *store, struct kiln_err *err)
{
    char notice[512] = "";
    db_pool_hold(&store->readers, true);
    store_close_all(store);
    store_copies_forget(store);
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; !rc && i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), STORE_FILE "%s", suffixes[i]);
        if (unlinkat(store->folder, name, 0) != 0 && errno != ENOENT)
            rc = kiln_fail_errno(err, errno, "cannot remove '%s/%s'", store->directory, name);
    }
    if (!rc)
        rc = store_open_mending(store, /* damage= */ NULL, notice, err);
    db_pool_hold(&store->readers, false);
    return rc;
}
