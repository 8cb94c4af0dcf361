/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include <math.h>

/*
 * A kernel's value is its compile time per stored byte, halved for each week without use:
 *     worth = compile_ns / stored_size * 2^(-age / week)
 * Its logarithm, in weeks, is log2(compile_ns / stored_size) + (last_used - now) / week. "now" is
 * the same for all kernels, so
 *     keep = last_used + week * log2(compile_ns / stored_size)
 * orders kernels by value at any time. The index on |keep| has this order, so no eviction scans or
 * sorts.
 *
 * Example: kernels A and B both have 4 KB; A took 0.4 s to compile, B took 0.1 s. log2(0.4 / 0.1) =
 * 2, so A is evicted before B only if it was last used more than two weeks earlier.
 */
#define WEEK_S 604800.0
/* A user who uses more than limit / USER_SHARE loses kernels first, so that no user can evict the
 * kernels of all others. */
#define USER_SHARE 2
#define COMPILE_NS_MIN 1000000u
/* The compile time that is assumed for named kernels, because theirs is unknown. It is between the
 * times of MIOpen's assembler (150 ms) and of its HIP compiler (1700 ms). With a shorter time, a
 * whole imported cache would be evicted before the cheapest of kiln's own kernels. Users cannot
 * abuse this, because importing private kernels evicts only the user's own kernels (store_own). */
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

/* Computes the counters again from the rows. SQL triggers keep them up to date, so they are wrong
 * only after damage. */
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
