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
/* Of the limit, one part in so many for one user where others need the room: so nobody takes what
 * all others have, and a host with one user has all of it for him. */
#define USER_SHARE 2
/* Cost unknown: as cheap as any compile gets. */
#define COMPILE_NS_MIN 1000000u
/* Cost unknown of a kernel that only MIOpen can make again: between its assembler's 150 ms and its
 * HIP compiler's 1700 ms.  Its file does not say which of the two made it, and less credit would
 * have a whole cache go before the cheapest compile of kiln's own.  It is a guess that nobody can
 * raise, and who brings private kernels pushes out none but his own with it (store_own). */
#define COMPILE_NS_NAMED 500000000u

int64_t store_keep_until(uint64_t last_used, uint64_t compile_ns, uint64_t stored_size,
                         bool is_named)
{
    uint64_t known = compile_ns || !is_named ? compile_ns : COMPILE_NS_NAMED;
    double cost = known > COMPILE_NS_MIN ? (double)known : COMPILE_NS_MIN;
    double size = stored_size ? (double)stored_size : 1;
    return (int64_t)last_used + (int64_t)(WEEK_S * log2(cost / size));
}

enum kiln_code store_evict_one(struct kernel_store *store, const uint32_t *uid, bool *ret_gone,
                               struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(store->writer, uid ? KERNEL_EVICT_OF_UID : KERNEL_EVICT);
    if (uid)
        query_bind_u64(&q, 1, *uid);
    enum kiln_code rc = query_run(&q, err);
    if (!rc)
        *ret_gone = db_changes(store->writer) > 0;
    return rc;
}

enum kiln_code store_evict_own(struct kernel_store *store, const struct store_own *own,
                               bool *ret_gone, struct kiln_err *err)
{
    QUERY_AUTO struct query q =
        query_of(store->writer, own->shared_too ? KERNEL_EVICT_OWN : KERNEL_EVICT_PRIVATE);
    query_bind_u64(&q, 1, own->uid);
    query_bind_u64(&q, 2, own->before);
    enum kiln_code rc = query_run(&q, err);
    if (!rc)
        *ret_gone = db_changes(store->writer) > 0;
    return rc;
}

enum kiln_code store_find_heaviest(struct kernel_store *store, uint32_t *ret_uid, bool *ret_any,
                                   struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_HEAVIEST);
    query_bind_u64(&q, 1, store->limit_bytes / USER_SHARE);
    enum kiln_code rc = query_step(&q, ret_any, err);
    if (!rc && *ret_any)
        *ret_uid = (uint32_t)query_u64(&q, 0);
    return rc;
}

/* Counters are kept by triggers; only damage makes them disagree with the rows. */
enum kiln_code store_repair(struct kernel_store *store, struct kiln_err *err)
{
    static const enum kernel_statement steps[] = {
        KERNEL_REPAIR_RECENCY,    KERNEL_REPAIR_KERNELS, KERNEL_REPAIR_UIDS,
        KERNEL_REPAIR_OBJECTS,    KERNEL_REPAIR_USAGE,   KERNEL_REPAIR_FORGET_UIDS,
        KERNEL_REPAIR_COUNT_UIDS,
    };
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; !rc && i < sizeof(steps) / sizeof(steps[0]); i++)
        rc = store_run(store, steps[i], err);
    return rc;
}
