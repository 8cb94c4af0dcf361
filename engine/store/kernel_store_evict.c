/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include <math.h>

/*
 * A kernel's worth is what it cost to make for each byte it takes, halved for each week it went
 * unused:  worth = compile_ns / stored_size * 2^(-age / week).  Its logarithm, in weeks, is
 * log2(compile_ns / stored_size) + (last_used - now) / week.  "now" is the same for all, so
 *     keep = last_used + week * log2(compile_ns / stored_size)
 * sorts kernels by worth at any time: an index holds the order, and no eviction scans or sorts.
 */
#define WEEK_S 604800.0
/* Cost unknown (taken from elsewhere): as cheap as any compile gets. */
#define COMPILE_NS_LEAST 1000000u
/* Go a twentieth below the limit, so that not every store has to evict ... */
#define ROOM_SHARE 20u
/* ... but hold up the writer by no more than about 10 ms for that. */
#define EXTRA_MOST 256u

int64_t store_keep_until(uint64_t last_used, uint64_t compile_ns, uint64_t stored_size)
{
    double cost = compile_ns > COMPILE_NS_LEAST ? (double)compile_ns : COMPILE_NS_LEAST;
    double size = stored_size ? (double)stored_size : 1;
    return (int64_t)last_used + (int64_t)(WEEK_S * log2(cost / size));
}

static enum kiln_code run(struct db *db, enum kernel_statement statement, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, statement);
    return query_run(&q, err);
}

/* Counters are kept by triggers; only damage makes them disagree with the rows. */
static enum kiln_code mend(struct db *db, struct kiln_err *err)
{
    static const enum kernel_statement steps[] = { KERNEL_MEND_RECENCY, KERNEL_MEND_KERNELS,
                                                   KERNEL_MEND_OBJECTS, KERNEL_MEND_USAGE };
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; !rc && i < sizeof(steps) / sizeof(steps[0]); i++)
        rc = run(db, steps[i], err);
    return rc;
}

static enum kiln_code evict_one(struct db *db, uint64_t spared, bool *ret_gone,
                                struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, KERNEL_EVICT);
    query_bind_u64(&q, 1, spared);
    enum kiln_code rc = query_run(&q, err);
    if (!rc)
        *ret_gone = db_changes(db) > 0;
    return rc;
}

static enum kiln_code used_bytes(struct db *db, uint64_t *ret_bytes, struct kiln_err *err)
{
    struct kernel_usage usage;
    enum kiln_code rc = store_usage(db, &usage, err);
    if (!rc)
        *ret_bytes = usage.stored_bytes + usage.row_bytes;
    return rc;
}

enum kiln_code store_evict(struct kernel_store *store, uint64_t spared, uint64_t *ret_evicted,
                           struct kiln_err *err)
{
    uint64_t limit = store->limit_bytes;
    uint64_t used = 0, evicted = 0, extra = 0;
    enum kiln_code rc = used_bytes(store->writer, &used, err);
    if (rc || used <= limit)
        return rc;
    for (bool mended = false; used > limit - limit / ROOM_SHARE && extra < EXTRA_MOST;) {
        bool gone = false;
        rc = evict_one(store->writer, spared, &gone, err);
        if (!rc && !gone && used > limit && mended)
            return kiln_fail(err, KILN_CORRUPT, "'%s' holds %llu bytes that belong to no kernel",
                             store->path, (unsigned long long)used);
        if (!rc && !gone && used > limit) {
            rc = mend(store->writer, err);
            mended = true;
        } else if (!rc && !gone) {
            break; /* only the spared one is left */
        }
        evicted += gone;
        extra += gone && used <= limit;
        if (!rc)
            rc = used_bytes(store->writer, &used, err);
        if (rc)
            return rc;
    }
    *ret_evicted += evicted;
    return KILN_OK;
}
