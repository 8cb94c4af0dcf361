/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <string.h>

#define NS_PER_S 1000000000u

static uint64_t file_size(const char *path)
{
    struct stat seen;
    return stat(path, &seen) == 0 ? (uint64_t)seen.st_size : 0;
}

static struct store_checked latest_result(struct kernel_store *store)
{
    pthread_mutex_lock(&store->mutex);
    struct store_checked last = store->checked;
    pthread_mutex_unlock(&store->mutex);
    return last;
}

static bool reuse_result(struct kernel_store *store, uint64_t age_max_s, struct kernel_check *check)
{
    const struct store_checked last = latest_result(store);
    uint64_t age_s = (clock_monotonic_ns() - last.at_ns) / NS_PER_S;
    if (last.at_ns == 0 || age_s >= age_max_s || atomic_load(&store->file_damaged))
        return false;
    check->checked = true;
    check->age_s = age_s;
    memcpy(check->damage, last.damage, sizeof(check->damage));
    return true;
}

/* Stores the result of a check. |now| was filled before the check. If damage was seen since then,
 * does not store the result. */
static void remember_result(struct kernel_store *store, struct store_checked now,
                            const struct kernel_check *check)
{
    memcpy(now.damage, check->damage, sizeof(now.damage));
    pthread_mutex_lock(&store->mutex);
    if (store->checked.damages == now.damages)
        store->checked = now;
    pthread_mutex_unlock(&store->mutex);
}

void store_check_discard(struct kernel_store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->checked.at_ns = 0;
    store->checked.damages++;
    pthread_mutex_unlock(&store->mutex);
}

static enum kiln_code run_check(struct db *db, struct kernel_check *check, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, KERNEL_CHECK);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (rc && rc != KILN_CORRUPT)
        return rc;
    const char *answer = rc ? err->text : row ? query_text(&q, 0) : "";
    check->checked = true;
    if (rc || strcmp(answer, "ok") != 0)
        snprintf(check->damage, sizeof(check->damage), "%.*s", (int)sizeof(check->damage) - 1,
                 answer);
    return KILN_OK;
}

static enum kiln_code check_pages(struct kernel_store *store, struct db *db,
                                  struct kernel_check *check, struct kiln_err *err)
{
    const struct store_checked now = { .at_ns = clock_monotonic_ns(),
                                       .damages = latest_result(store).damages };
    db_forget_pages(db);
    enum kiln_code rc = run_check(db, check, err);
    if (!rc)
        remember_result(store, now, check);
    return rc;
}

static enum kiln_code check_file(struct kernel_store *store, struct db *db,
                                 const struct kernel_check_options *options,
                                 struct kernel_check *check, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    check->bytes = file_size(store->path) + file_size(store->log_path);
    if (!reuse_result(store, options->age_max_s, check) && check->bytes <= options->bytes_max)
        rc = check_pages(store, db, check, err);
    if (!rc && !check->damage[0])
        rc = store_note_read(store, store_number(db, KERNEL_NEWEST, &check->newest, err));
    return rc;
}

enum kiln_code kernel_store_check(struct kernel_store *store,
                                  const struct kernel_check_options *options,
                                  struct kernel_check *ret_check, struct kiln_err *err)
{
    struct kernel_check check = { .directory = store->directory };
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (!rc && reader)
        rc = check_file(store, reader->db, options, &check, err);
    if (rc)
        return kiln_while(err, "checking the kernel cache");
    *ret_check = check;
    return KILN_OK;
}
