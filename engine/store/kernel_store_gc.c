/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

/* Maximum number of rounds of eviction. After a round, the file may still take too many disk
 * blocks, because it can have more blocks than its pages need. */
#define ROUNDS_MAX 4u

static bool is_installed(const struct kernel_gc *options, const struct digest *toolchain)
{
    for (size_t i = 0; i < options->toolchain_count; i++) {
        if (digest_equal(&options->toolchains[i], toolchain))
            return true;
    }
    return !digest_is_known(toolchain);
}

static enum kiln_code find_stale(struct db *db, struct kernel_collecting *c, struct kiln_err *err)
{
    c->stale_count = 0;
    if (!c->gc.stale)
        return KILN_OK;
    QUERY_AUTO struct query q = query_of(db, KERNEL_TOOLCHAINS);
    enum kiln_code rc = KILN_OK;
    for (bool row = true; !rc && row && c->stale_count < KERNEL_STALE_MAX;) {
        struct digest toolchain;
        rc = query_step(&q, &row, err);
        if (!rc && row && store_to_digest(query_bytes(&q, 0), &toolchain) &&
            !is_installed(&c->gc, &toolchain))
            c->stale[c->stale_count++] = toolchain;
    }
    return rc;
}

static struct kernel_filter made_by(const struct digest *toolchain)
{
    return (struct kernel_filter){ .toolchain_id = *toolchain, .not_pinned = true };
}

static enum kiln_code repair_counters(struct kernel_store *store, struct kiln_err *err)
{
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    if (!rc)
        rc = store_repair(store, err);
    return rc ? rc : transaction_commit(&t, err);
}

/* Uses a reader's connection, so that reading all rows does not block the writer. */
static enum kiln_code begin_reading(struct kernel_store *store, struct db *db,
                                    struct kernel_collecting *c, struct kiln_err *err)
{
    uint64_t disagrees = 0;
    c->result = (struct kernel_gc_result){ .taken_before = store_taken_bytes(store) };
    enum kiln_code rc = store_number(db, KERNEL_DISAGREES, &disagrees, err);
    c->needs_repair = disagrees != 0;
    if (!rc)
        rc = find_stale(db, c, err);
    if (!rc)
        c->phase = GC_REPAIRING;
    return store_note_read(store, rc);
}

enum kiln_code kernel_store_collect_begin(struct kernel_store *store, struct kernel_collecting *c,
                                          struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (!rc && reader)
        rc = begin_reading(store, reader->db, c, err);
    else if (!rc)
        c->phase = GC_REPAIRING;
    return rc ? kiln_while(err, "collecting garbage in the kernel cache") : KILN_OK;
}

static enum kiln_code repair(struct kernel_store *store, struct kernel_collecting *c,
                             struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (c->needs_repair)
        rc = repair_counters(store, err);
    else if (store->health.state !=
             KERNEL_HEALTH_OK) /* no repair will write, so test here whether writing works again */
        rc = store_try_to_write(store, err);
    if (!rc)
        c->phase = GC_STALE;
    return rc;
}

static void begin_truncating(struct kernel_collecting *c)
{
    c->clearing = (struct kernel_clearing){ .is_removed = true };
}

static enum kiln_code remove_stale(struct kernel_store *store, struct kernel_collecting *c,
                                   struct kiln_err *err)
{
    struct kernel_clearing *clearing = &c->clearing;
    if (c->next == c->stale_count) {
        c->phase = GC_TRUNCATING;
        begin_truncating(c);
        return KILN_OK;
    }
    clearing->filter = made_by(&c->stale[c->next]);
    enum kiln_code rc = store_clear_some(store, clearing, err);
    if (rc || !clearing->is_over)
        return rc;
    c->result.stale_kernels += clearing->count;
    c->result.stale_bytes += clearing->bytes;
    *clearing = (struct kernel_clearing){ .count = 0 };
    c->next++;
    return KILN_OK;
}

static enum kiln_code truncate_some(struct kernel_store *store, struct kernel_collecting *c,
                                    bool *ret_over, struct kiln_err *err)
{
    enum kiln_code rc = store_clear_some(store, &c->clearing, err);
    *ret_over = !rc && c->clearing.is_over;
    return rc;
}

static enum kiln_code truncate_file(struct kernel_store *store, struct kernel_collecting *c,
                                    struct kiln_err *err)
{
    bool over = false;
    enum kiln_code rc = truncate_some(store, c, &over, err);
    if (over)
        c->phase = GC_SHRINKING;
    return rc;
}

static uint64_t rows_and_objects(const struct kernel_usage *usage)
{
    return usage->stored_bytes + usage->row_bytes;
}

static enum kiln_code evict_some(struct kernel_store *store, struct kernel_collecting *c,
                                 struct kiln_err *err)
{
    struct kernel_usage before = { 0 }, after = { 0 };
    struct store_eviction eviction = { .kernels = 0 };
    enum kiln_code rc = store_usage(store->writer, &before, err);
    if (!rc)
        rc = store_evict_some(store, c->used_max, &eviction, err);
    if (!rc)
        rc = store_usage(store->writer, &after, err);
    if (rc)
        return rc;
    c->result.evicted_kernels += eviction.kernels;
    c->result.evicted_bytes += rows_and_objects(&before) - rows_and_objects(&after);
    c->none_left = eviction.none_left;
    c->is_evicting = !eviction.is_reached;
    if (!c->is_evicting)
        begin_truncating(c);
    return KILN_OK;
}

static void plan_round(struct kernel_store *store, struct kernel_collecting *c)
{
    uint64_t taken = store_taken_bytes(store), max = c->gc.to_bytes;
    if (!c->gc.shrink || taken <= max || c->rounds == ROUNDS_MAX || c->none_left) {
        c->phase = GC_OVER;
        return;
    }
    if (c->rounds++ == 0)
        c->used_max = max;
    else
        c->used_max -= taken - max < c->used_max ? taken - max : c->used_max;
    c->is_evicting = true;
}

static enum kiln_code shrink_some(struct kernel_store *store, struct kernel_collecting *c,
                                  struct kiln_err *err)
{
    bool over = false;
    if (!c->is_evicting && c->clearing.is_over)
        plan_round(store, c);
    if (c->phase == GC_OVER)
        return KILN_OK;
    return c->is_evicting ? evict_some(store, c, err) : truncate_some(store, c, &over, err);
}

static enum kiln_code gc_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    struct kernel_collecting *c = context;
    enum kiln_code rc = KILN_OK;
    switch (c->phase) {
    case GC_BEGINNING: break;
    case GC_REPAIRING: rc = repair(store, c, err); break;
    case GC_STALE: rc = remove_stale(store, c, err); break;
    case GC_TRUNCATING: rc = truncate_file(store, c, err); break;
    case GC_SHRINKING: rc = shrink_some(store, c, err); break;
    case GC_OVER: break;
    }
    c->result.taken_after = store_taken_bytes(store);
    c->result.missed = c->gc.shrink && c->result.taken_after > c->gc.to_bytes;
    return rc;
}

static enum kiln_code count_stale(struct db *db, struct kernel_collecting *c, struct kiln_err *err)
{
    enum kiln_code rc = find_stale(db, c, err);
    for (size_t i = 0; !rc && i < c->stale_count; i++) {
        struct kernel_filter filter = made_by(&c->stale[i]);
        uint64_t count = 0, bytes = 0;
        rc = store_count_matches(db, &filter, &count, &bytes, err);
        c->result.stale_kernels += count;
        c->result.stale_bytes += bytes;
    }
    return rc;
}

static bool is_stale(const struct kernel_collecting *c, const struct query *q)
{
    struct digest toolchain;
    if (query_text(q, 2)[0] || !store_to_digest(query_bytes(q, 1), &toolchain))
        return false;
    for (size_t i = 0; i < c->stale_count; i++) {
        if (digest_equal(&c->stale[i], &toolchain))
            return true;
    }
    return false;
}

static enum kiln_code estimate_eviction(struct db *db, struct kernel_collecting *c,
                                        struct kiln_err *err)
{
    struct kernel_gc_result *r = &c->result;
    uint64_t left = r->taken_before - (r->stale_bytes < r->taken_before ? r->stale_bytes : 0);
    QUERY_AUTO struct query q = query_of(db, KERNEL_MIN_WORTH);
    enum kiln_code rc = KILN_OK;
    for (bool row = true; !rc && row && left > c->gc.to_bytes;) {
        rc = query_step(&q, &row, err);
        if (rc || !row || is_stale(c, &q))
            continue;
        uint64_t bytes = query_u64(&q, 0);
        r->evicted_kernels++;
        r->evicted_bytes += bytes;
        left -= bytes < left ? bytes : left;
    }
    r->missed = left > c->gc.to_bytes;
    return rc;
}

static enum kiln_code run_dry(struct kernel_store *store, struct kernel_collecting *c,
                              struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    c->phase = GC_OVER;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    c->result.taken_before = c->result.taken_after = store_taken_bytes(store);
    rc = count_stale(reader->db, c, err);
    if (!rc && c->gc.shrink)
        rc = estimate_eviction(reader->db, c, err);
    return store_note_read(store, rc);
}

enum kiln_code kernel_store_collect_some(struct kernel_store *store, struct kernel_collecting *c,
                                         struct kiln_err *err)
{
    enum kiln_code rc =
        c->gc.dry_run ? run_dry(store, c, err) : store_write(store, STORE_AWAITED, gc_work, c, err);
    return store_advise_space(store, rc, err)
               ? kiln_while(err, "collecting garbage in the kernel cache")
               : KILN_OK;
}
