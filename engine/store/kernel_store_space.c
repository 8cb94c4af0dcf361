/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/base/units.h"
#include <stdio.h>

/*
 * The limit applies to the disk blocks of two files: kernels.db, which never shrinks by itself, and
 * its write-ahead log, which contains each change a second time until the change is checkpointed.
 * So the log may use a share of the limit, and kernels.db the rest.
 */
#define PAGE STORE_PAGE
/* The log may use limit / LOG_SHARE, at most LOG_MAX. The log is checkpointed at half of that. */
#define LOG_SHARE 8u
#define LOG_MAX (16ull << 20)
#define LOG_PAGES_MIN 8u
#define LOG_PAGES_MAX 1000u
#define LOG_PAGE_BYTES 4120u
/* The maximum number of kernels that one transaction changes, and the bytes that each kernel adds
 * to the log. */
#define BATCH_MAX 512u
#define CHANGED (10u * LOG_PAGE_BYTES)
/* Number of pages that one step vacuums (as in kernel_statements.def), and the bytes that one step
 * adds to the log: for each page, the page that moves, the page that points to it, and a page of
 * the pointer map. */
#define VACUUM_PAGES 16u
#define VACUUM_LOG_BYTES (3u * VACUUM_PAGES * LOG_PAGE_BYTES)

static uint64_t blocks_of(const char *path)
{
    struct stat seen;
    return stat(path, &seen) == 0 ? (uint64_t)seen.st_blocks * 512 : 0;
}

uint64_t store_taken_bytes(const struct kernel_store *store)
{
    return blocks_of(store->path) + blocks_of(store->log_path);
}

uint64_t store_log_share(uint64_t limit)
{
    return limit / LOG_SHARE < LOG_MAX ? limit / LOG_SHARE : LOG_MAX;
}

unsigned store_log_pages(uint64_t limit_bytes)
{
    uint64_t pages = store_log_share(limit_bytes) / 2 / LOG_PAGE_BYTES;
    if (pages < LOG_PAGES_MIN)
        return LOG_PAGES_MIN;
    return pages < LOG_PAGES_MAX ? (unsigned)pages : LOG_PAGES_MAX;
}

enum kiln_code store_measure(struct kernel_store *store, struct store_space *ret_space,
                             struct kiln_err *err)
{
    uint64_t pages = 0, free_pages = 0;
    enum kiln_code rc = store_number(store->writer, KERNEL_PAGES, &pages, err);
    if (!rc)
        rc = store_number(store->writer, KERNEL_FREE_PAGES, &free_pages, err);
    if (rc)
        return rc;
    *ret_space = (struct store_space){
        .file = pages * PAGE,
        .used = pages > free_pages ? (pages - free_pages) * PAGE : 0,
        .blocks = blocks_of(store->path),
    };
    return KILN_OK;
}

enum kiln_code store_bound_log(struct kernel_store *store, uint64_t max, struct kiln_err *err)
{
    return blocks_of(store->log_path) > max ? db_checkpoint_now(store->writer, err) : KILN_OK;
}

static enum kiln_code make_log_space(struct kernel_store *store, uint64_t bytes,
                                     struct kiln_err *err)
{
    uint64_t share = store_log_share(store->limit_bytes);
    return store_bound_log(store, share > bytes ? share - bytes : 0, err);
}

unsigned store_batch(const struct kernel_store *store)
{
    uint64_t fits = store_log_share(store->limit_bytes) / 2 / CHANGED;
    return fits < 1 ? 1 : fits < BATCH_MAX ? (unsigned)fits : BATCH_MAX;
}

enum kiln_code store_before_batch(struct kernel_store *store, struct kiln_err *err)
{
    return make_log_space(store, (uint64_t)store_batch(store) * CHANGED, err);
}

static enum kiln_code vacuum_pages(struct kernel_store *store, struct kiln_err *err)
{
    enum kiln_code rc = make_log_space(store, VACUUM_LOG_BYTES, err);
    return rc ? rc : store_run(store, KERNEL_VACUUM, err);
}

enum kiln_code store_truncate(struct kernel_store *store, uint64_t target, uint64_t pages_max,
                              struct kiln_err *err)
{
    struct store_space s;
    enum kiln_code rc = store_measure(store, &s, err);
    uint64_t moved = 0, before = UINT64_MAX;
    while (!rc && s.file > target && s.used < s.file && s.file < before && moved < pages_max) {
        before = s.file;
        moved += VACUUM_PAGES;
        rc = vacuum_pages(store, err);
        if (!rc)
            rc = store_measure(store, &s, err);
    }
    return rc || moved == 0 ? rc : db_checkpoint_now(store->writer, err);
}

enum kiln_code store_vacuum(struct kernel_store *store, struct kiln_err *err)
{
    if (!store->vacuum_due)
        return KILN_OK;
    uint64_t free_pages = 0;
    enum kiln_code rc = store_number(store->writer, KERNEL_FREE_PAGES, &free_pages, err);
    store->vacuum_due = !rc && free_pages > VACUUM_PAGES;
    return store->vacuum_due ? vacuum_pages(store, err) : rc;
}

/* Replaces the message about a full disk by advice. Even deleting kernels needs free space, because
 * SQLite first writes each change to the log. */
enum kiln_code store_advise_space(const struct kernel_store *store, enum kiln_code rc,
                                  struct kiln_err *err)
{
    char share[UNITS_TEXT_MAX], taken[UNITS_TEXT_MAX];
    if (rc != KILN_FULL)
        return rc;
    return kiln_fail(err, rc,
                     "the disk of '%.200s' is full, and deleting needs some free space (the cache "
                     "uses %s): free %s there, or empty the cache with 'kilnctl clear --all --yes'",
                     store->directory, units_size(store_taken_bytes(store), taken),
                     units_size(store_log_share(store->limit_bytes), share));
}
