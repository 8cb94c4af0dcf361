/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/base/clock.h"
#include "common/base/units.h"
#include <stdio.h>

/*
 * Makes space for a write before its transaction, so that the files never exceed the limit.
 *
 * A put first estimates how many pages it needs. If the file has too few free pages, the least
 * valuable kernels are evicted, which frees pages inside the file. If the file is too long, the
 * pages at its end are moved into free pages, and the file is truncated (store_truncate).
 *
 * Example: the limit is 1 GiB, of which the log may use 16 MiB, so the file may have 1008 MiB. The
 * file is full, and a put needs 1 MiB. Kernels are evicted until 1007 MiB are used. Then at most
 * EXTRA_MAX more are evicted, down to 957 MiB (19/20 of 1008, minus 1), so that the next puts need
 * not evict.
 */
#define PAGE STORE_PAGE
#define OVERFLOW_PAGE 4092u
/* How much a put adds to the log by changing one or two pages of each table and index. */
#define CHANGED_BYTES (24u * PAGE)
/* How many pages a put may need in addition to the pages of long values, because SQLite splits full
 * pages. */
#define ROW_PAGES 12u
#define EMPTY_BYTES (24u * PAGE)
/* Kernels are evicted until a twentieth (1 / SPARE_SHARE) of the limit is free, so that not every
 * put has to evict. But at most EXTRA_MAX kernels are evicted beyond what the put needs, because
 * they delay the writer by about 10 ms. */
#define SPARE_SHARE 20u
#define EXTRA_MAX 256u
#define EVICT_BATCH 32u
#define STEP_NS 20000000u
#define MOVE_MAX 1024u
#define VACUUM_STEPS 64u

uint64_t store_need(uint64_t stored_size, uint64_t texts_size)
{
    uint64_t pages = stored_size / OVERFLOW_PAGE + texts_size / OVERFLOW_PAGE + ROW_PAGES;
    pages += pages / 512;
    return pages * PAGE;
}

struct goal {
    const struct store_own *own;
    uint64_t used_wanted; /* eviction stops when at most this many bytes of pages are used */
    uint64_t used_max;    /* if more bytes of pages are used after the eviction, the put does not
                           * fit */
    uint64_t extra_max;   /* maximum number of kernels to evict after |used_max| was reached */
    uint64_t end_ns;
    uint64_t file_before;
    /* The members below change during the eviction. */
    uint64_t used, evicted, extra;
    bool repaired;
    bool none_left;
};

static bool is_reached(const struct goal *g)
{
    return g->used <= g->used_wanted || g->none_left ||
           (g->used <= g->used_max && g->extra >= g->extra_max);
}

/* Returns whether the time of the step is over. A step always evicts at least one kernel, even if
 * that takes longer, so that each step makes progress. */
static bool is_late(const struct goal *g)
{
    return g->evicted > 0 && clock_monotonic_ns() >= g->end_ns;
}

static enum kiln_code free_more(struct kernel_store *store, struct goal *g, struct kiln_err *err)
{
    g->none_left = g->repaired || g->own;
    if (g->none_left)
        return KILN_OK;
    g->repaired = true;
    enum kiln_code rc = store_repair(store, err);
    return rc ? rc : store_run(store, KERNEL_FORGET_QUARANTINE, err);
}

static enum kiln_code evict_fairly(struct kernel_store *store, bool *ret_gone, struct kiln_err *err)
{
    uint32_t uid = 0;
    bool any = false, gone = false;
    enum kiln_code rc = store_find_heaviest(store, &uid, &any, err);
    if (!rc && any)
        rc = store_evict_one(store, &uid, &gone, err);
    if (!rc && !gone)
        rc = store_evict_one(store, /* uid= */ NULL, &gone, err);
    *ret_gone = gone;
    return rc;
}

static enum kiln_code evict_batch(struct kernel_store *store, struct goal *g, struct kiln_err *err)
{
    unsigned batch = store_batch(store) < EVICT_BATCH ? store_batch(store) : EVICT_BATCH;
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = store_before_batch(store, err);
    if (!rc)
        rc = transaction_begin(&t, store->writer, err);
    for (unsigned i = 0; !rc && i < batch && !is_reached(g) && !is_late(g); i++) {
        struct store_space s = { 0 };
        bool gone = false;
        rc = g->own ? store_evict_own(store, g->own, &gone, err) : evict_fairly(store, &gone, err);
        if (!rc && !gone)
            rc = free_more(store, g, err);
        if (!rc)
            rc = store_measure(store, &s, err);
        g->used = s.used;
        g->evicted += gone;
        g->extra += gone && g->used <= g->used_max;
    }
    return rc ? rc : transaction_commit(&t, err);
}

static enum kiln_code evict_kernels(struct kernel_store *store, struct goal *g,
                                    struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    while (!rc && !is_reached(g) && !is_late(g))
        rc = evict_batch(store, g, err);
    store->vacuum_due |= g->evicted > 0;
    return rc;
}

static enum kiln_code count_pinned_bytes(struct kernel_store *store, uint64_t *ret_bytes,
                                         struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (!store->pinned.is_known)
        rc = store_number(store->writer, KERNEL_PINNED_BYTES, &store->pinned.bytes, err);
    store->pinned.is_known = !rc;
    *ret_bytes = store->pinned.bytes;
    return rc;
}

static void refuse_put(const struct kernel_store *store, uint64_t need,
                       struct store_space_result *result)
{
    char a[UNITS_TEXT_MAX], limit[UNITS_TEXT_MAX];
    units_size(store->limit_bytes, limit);
    result->never = true;
    if (store->pinned.bytes)
        snprintf(result->why, sizeof(result->why),
                 "pinned kernels, which are never evicted, use %s of the kernel cache's limit of "
                 "%s: unpin some, or raise cache_limit",
                 units_size(store->pinned.bytes, a), limit);
    else
        snprintf(result->why, sizeof(result->why),
                 "a kernel that needs %s on disk (compressed, with its rows) does not fit into the "
                 "kernel cache (limit %s, including its log): raise cache_limit",
                 units_size(need, a), limit);
}

static void refuse_own(const struct kernel_store *store, const struct store_own *own,
                       struct store_space_result *result)
{
    char taken[UNITS_TEXT_MAX], limit[UNITS_TEXT_MAX];
    result->never = true;
    snprintf(result->why, sizeof(result->why),
             "the kernel cache is full (%s of %s), and a private import evicts only the user's own "
             "kernels: remove some of yours with 'kilnctl clear --own', or have an administrator "
             "run 'kilnctl clear --uid %u' or 'kilnctl gc --to SIZE' or raise cache_limit",
             units_size(store_taken_bytes(store), taken), units_size(store->limit_bytes, limit),
             (unsigned)own->uid);
}

static void refuse_for_now(struct kernel_store *store, struct store_space_result *result)
{
    char taken[UNITS_TEXT_MAX], limit[UNITS_TEXT_MAX];
    result->later = true;
    snprintf(result->why, sizeof(result->why),
             "the kernel cache uses %s, its limit is %s: it is being shrunk, and stores new "
             "kernels again when that is done",
             units_size(store_taken_bytes(store), taken), units_size(store->limit_bytes, limit));
    if (!store->shrinking)
        store_set_notice(store, KERNEL_NOTICE_TROUBLE, result->why);
    store->shrinking = true;
}

static bool is_enough(const struct store_space *s, uint64_t need, uint64_t max)
{
    uint64_t after = s->used + need > s->file ? s->used + need : s->file;
    return after <= max && s->blocks <= max;
}

/* If the file takes more disk blocks than its pages need, reduces |max| by the difference, but at
 * most by half. */
static enum kiln_code subtract_spare_blocks(struct kernel_store *store, uint64_t *max,
                                            struct kiln_err *err)
{
    struct store_space s = { 0 };
    enum kiln_code rc = db_checkpoint_now(store->writer, err);
    if (!rc)
        rc = store_measure(store, &s, err);
    uint64_t spare = !rc && s.blocks > s.file ? s.blocks - s.file : 0;
    *max -= spare < *max / 2 ? spare : *max / 2;
    return rc;
}

struct space_request {
    uint64_t need, whole;
    uint64_t max;
    const struct store_own *own;
    uint64_t end_ns;
};

static struct goal goal_of(const struct space_request *r)
{
    uint64_t below = r->max - r->max / SPARE_SHARE;
    struct goal goal = { .own = r->own, .used_max = r->max - r->need, .end_ns = r->end_ns };
    goal.used_wanted = r->own ? goal.used_max : below > r->need ? below - r->need : 0;
    goal.extra_max = r->own ? 0 : EXTRA_MAX;
    return goal;
}

/* If the store is too large because the limit was lowered, refuses the write until later steps have
 * shrunk the store. Otherwise, the write would have to wait for many steps. */
static void judge_space(struct kernel_store *store, const struct space_request *r,
                        const struct goal *goal, const struct store_space *s,
                        struct store_space_result *result)
{
    const bool is_lowered = s->used > store->limit_bytes || s->file > store->limit_bytes;
    const bool has_progress = goal->evicted > 0 || s->file < goal->file_before;
    if (goal->none_left && s->used > goal->used_max)
        r->own ? refuse_own(store, r->own, result) : refuse_put(store, r->whole, result);
    else if (s->used <= goal->used_max && (s->file <= r->max || s->used >= s->file))
        store->shrinking = false;
    else if (has_progress && !is_lowered)
        result->again = true;
    else
        refuse_for_now(store, result);
}

static enum kiln_code evict_and_cut(struct kernel_store *store, const struct space_request *r,
                                    struct store_space_result *result, struct kiln_err *err)
{
    uint64_t pinned = 0;
    struct store_space s;
    enum kiln_code rc = count_pinned_bytes(store, &pinned, err);
    if (!rc && r->whole + pinned + EMPTY_BYTES > r->max) {
        refuse_put(store, r->whole, result);
        return KILN_OK;
    }
    if (!rc)
        rc = store_measure(store, &s, err);
    if (rc)
        return rc;
    struct goal goal = goal_of(r);
    goal.file_before = s.file;
    goal.used = s.used;
    if (s.used > goal.used_max)
        rc = evict_kernels(store, &goal, err);
    result->evicted = goal.evicted;
    if (!rc && goal.used <= goal.used_max)
        rc = store_truncate(store, r->max, MOVE_MAX, err);
    if (!rc)
        rc = store_measure(store, &s, err);
    if (!rc)
        judge_space(store, r, &goal, &s, result);
    return rc;
}

static enum kiln_code free_space(struct kernel_store *store, struct space_request *r,
                                 struct store_space_result *result, struct kiln_err *err)
{
    struct store_space s;
    enum kiln_code rc = store_remove_orphans(store, r->end_ns, &result->again, err);
    if (!rc)
        rc = store_measure(store, &s, err);
    if (rc || result->again || is_enough(&s, r->need, r->max))
        return rc;
    rc = subtract_spare_blocks(store, &r->max, err);
    return rc ? rc : evict_and_cut(store, r, result, err);
}

enum kiln_code store_make_space(struct kernel_store *store, const struct store_wanted *wanted,
                                struct store_space_result *ret_result, struct kiln_err *err)
{
    *ret_result = (struct store_space_result){ 0 };
    uint64_t limit = store->limit_bytes, need = wanted->need;
    uint64_t share = store_log_share(limit), log_need = need + CHANGED_BYTES;
    uint64_t log_bytes = log_need > share ? log_need : share;
    struct space_request request = { .need = need,
                                     .whole = wanted->whole,
                                     .max = limit > log_bytes ? limit - log_bytes : 0,
                                     .own = wanted->own,
                                     .end_ns = clock_monotonic_ns() + STEP_NS };
    struct store_space s;
    enum kiln_code rc = store_bound_log(store, log_bytes - log_need, err);
    if (!rc)
        rc = store_measure(store, &s, err);
    if (rc || is_enough(&s, need, request.max))
        return rc;
    rc = free_space(store, &request, ret_result, err);
    return rc ? rc : store_bound_log(store, log_bytes - log_need, err);
}

enum kiln_code store_evict_some(struct kernel_store *store, uint64_t used_max,
                                struct store_eviction *ret_eviction, struct kiln_err *err)
{
    struct store_space s;
    enum kiln_code rc = store_measure(store, &s, err);
    if (rc)
        return rc;
    struct goal goal = { .used_max = used_max,
                         .used_wanted = used_max,
                         .end_ns = clock_monotonic_ns() + STEP_NS,
                         .used = s.used };
    rc = evict_kernels(store, &goal, err);
    *ret_eviction = (struct store_eviction){ .kernels = goal.evicted,
                                             .is_reached = is_reached(&goal),
                                             .none_left = goal.none_left };
    return rc;
}

enum kiln_code store_try_to_write(struct kernel_store *store, struct kiln_err *err)
{
    static const int64_t there_and_back[] = { 1, -1 };
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    for (size_t i = 0; !rc && i < 2; i++) {
        QUERY_AUTO struct query q = query_of(store->writer, KERNEL_TRY);
        query_bind_i64(&q, 1, there_and_back[i]);
        rc = query_run(&q, err);
    }
    return rc ? rc : transaction_commit(&t, err);
}

static enum kiln_code tidy_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    bool *more = context, has_orphans = false;
    const struct store_wanted nothing = { .need = 0 };
    struct store_space_result result = { 0 };
    enum kiln_code rc = KILN_OK;
    if (store->health.state != KERNEL_HEALTH_OK)
        rc = store_try_to_write(store, err);
    if (!rc)
        rc = store_remove_orphans(store, clock_monotonic_ns() + STEP_NS, &has_orphans, err);
    if (!rc && !has_orphans)
        rc = store_make_space(store, &nothing, &result, err);
    for (unsigned i = 0; !rc && store->vacuum_due && !has_orphans && i < VACUUM_STEPS; i++)
        rc = store_vacuum(store, err);
    *more = !rc && (store->vacuum_due || has_orphans || result.later || result.again);
    return rc;
}

enum kiln_code kernel_store_tidy(struct kernel_store *store, bool *ret_more, struct kiln_err *err)
{
    bool more = false;
    enum kiln_code rc = store_write(store, STORE_BACKGROUND, tidy_work, &more, err);
    if (rc)
        return kiln_while(err, "tidying the kernel cache");
    *ret_more = more;
    return KILN_OK;
}
