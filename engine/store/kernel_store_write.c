/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/base/clock.h"

#include <stdio.h>

#define PROBES_MAX 1024u
#define PROBE_DETAIL_MAX 2000u
/* The latest time that is stored (the year 36812), in seconds since the epoch. A later time is
 * replaced by it, so that sums of times do not overflow. */
#define TIME_MAX (1ull << 40)

uint64_t store_time(uint64_t seconds) { return seconds < TIME_MAX ? seconds : TIME_MAX; }

enum kiln_code store_run(struct kernel_store *store, enum kernel_statement statement,
                         struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(store->writer, statement);
    return query_run(&q, err);
}

enum kiln_code store_run_with_key(struct kernel_store *store, enum kernel_statement statement,
                                  const struct digest *key, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(store->writer, statement);
    query_bind_bytes(&q, 1, digest_view(key));
    return query_run(&q, err);
}

struct touch {
    const struct digest *keys;
    size_t count;
    uint64_t now;
};

static enum kiln_code touch_batch(struct kernel_store *store, const struct touch *touch, size_t at,
                                  struct kiln_err *err)
{
    size_t end = touch->count - at < store_batch(store) ? touch->count : at + store_batch(store);
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = store_before_batch(store, err);
    if (!rc)
        rc = transaction_begin(&t, store->writer, err);
    for (; !rc && at < end; at++) {
        QUERY_AUTO struct query q = query_of(store->writer, KERNEL_TOUCH);
        query_bind_bytes(&q, 1, digest_view(&touch->keys[at]));
        query_bind_u64(&q, 2, touch->now);
        rc = query_run(&q, err);
    }
    return rc ? rc : transaction_commit(&t, err);
}

static enum kiln_code touch_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    const struct touch *touch = context;
    enum kiln_code rc = KILN_OK;
    for (size_t at = 0; !rc && at < touch->count; at += store_batch(store))
        rc = touch_batch(store, touch, at, err);
    return rc;
}

enum kiln_code kernel_store_touch(struct kernel_store *store, const struct digest *keys,
                                  size_t count, uint64_t now, struct kiln_err *err)
{
    struct touch touch = { .keys = keys, .count = count, .now = store_time(now) };
    if (count == 0)
        return KILN_OK;
    enum kiln_code rc = store_write(store, STORE_BACKGROUND, touch_work, &touch, err);
    return rc ? kiln_while(err, "noting which kernels were used") : KILN_OK;
}

struct removal {
    const struct digest *key;
    uint64_t gone;
};

static enum kiln_code remove_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    struct removal *removal = context;
    enum kiln_code rc = store_run_with_key(store, KERNEL_REMOVE, removal->key, err);
    removal->gone = rc ? 0 : db_changes(store->writer);
    store->vacuum_due |= removal->gone > 0;
    store->pinned.is_known &= removal->gone == 0;
    return rc;
}

enum kiln_code kernel_store_remove(struct kernel_store *store, const struct digest *key,
                                   struct kiln_err *err)
{
    struct removal removal = { .key = key };
    enum kiln_code rc = store_write(store, STORE_AWAITED, remove_work, &removal, err);
    if (rc)
        return kiln_while(err, "removing a kernel");
    return removal.gone ? KILN_OK : KILN_NOT_FOUND;
}

static enum kiln_code put_probe_work(struct kernel_store *store, void *context,
                                     struct kiln_err *err)
{
    const struct kernel_probe *probe = context;
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query add = query_of(store->writer, KERNEL_ADD_PROBE);
    query_bind_bytes(&add, 1, digest_view(&probe->toolchain_id));
    query_bind_text(&add, 2, probe->target);
    query_bind_u64(&add, 3, probe->works);
    query_bind_text(&add, 4, probe->detail);
    query_bind_u64(&add, 5, clock_wall_s());
    rc = query_run(&add, err);
    QUERY_AUTO struct query forget = query_of(store->writer, KERNEL_FORGET_PROBES);
    query_bind_u64(&forget, 1, PROBES_MAX);
    if (!rc)
        rc = query_run(&forget, err);
    return rc ? rc : transaction_commit(&t, err);
}

enum kiln_code kernel_store_probe_put(struct kernel_store *store, const struct kernel_probe *probe,
                                      struct kiln_err *err)
{
    char detail[PROBE_DETAIL_MAX + 1];
    struct kernel_probe copy = *probe;
    snprintf(detail, sizeof(detail), "%s", probe->detail ? probe->detail : "");
    copy.detail = detail;
    enum kiln_code rc = store_write(store, STORE_BACKGROUND, put_probe_work, &copy, err);
    return rc ? kiln_while(err, "storing the result of a toolchain's probe") : KILN_OK;
}
