/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

/* Stale toolchains per call of gc. Each compiler upgrade leaves one. */
#define STALE_MAX 256u

struct gc {
    const struct kernel_gc *options;
    struct digest stale[STALE_MAX]; /* identities in the store that are no longer installed */
    size_t stale_count;
    struct kernel_gc_result result;
};

static bool is_installed(const struct kernel_gc *options, const struct digest *toolchain)
{
    for (size_t i = 0; i < options->toolchain_count; i++) {
        if (digest_equal(&options->toolchains[i], toolchain))
            return true;
    }
    return !digest_is_known(toolchain);
}

static enum kiln_code find_stale(struct db *db, struct gc *gc, struct kiln_err *err)
{
    gc->stale_count = 0;
    if (!gc->options->stale)
        return KILN_OK;
    QUERY_AUTO struct query q = query_of(db, KERNEL_TOOLCHAINS);
    enum kiln_code rc = KILN_OK;
    for (bool row = true; !rc && row && gc->stale_count < STALE_MAX;) {
        struct digest toolchain;
        rc = query_step(&q, &row, err);
        if (!rc && row && store_to_digest(query_bytes(&q, 0), &toolchain) &&
            !is_installed(gc->options, &toolchain))
            gc->stale[gc->stale_count++] = toolchain;
    }
    return rc;
}

static struct kernel_filter made_by(const struct digest *toolchain)
{
    return (struct kernel_filter){ .toolchain_id = *toolchain, .not_pinned = true };
}

static enum kiln_code count_stale(struct db *db, struct gc *gc, struct kiln_err *err)
{
    enum kiln_code rc = find_stale(db, gc, err);
    for (size_t i = 0; !rc && i < gc->stale_count; i++) {
        struct kernel_filter filter = made_by(&gc->stale[i]);
        uint64_t count = 0, bytes = 0;
        rc = store_count_matches(db, &filter, &count, &bytes, err);
        gc->result.stale_kernels += count;
        gc->result.stale_bytes += bytes;
    }
    return rc;
}

/* ---- collecting ---- */

static enum kiln_code repair_counters(struct kernel_store *store, struct kiln_err *err)
{
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    if (!rc)
        rc = store_repair(store, err);
    return rc ? rc : transaction_commit(&t, err);
}

static uint64_t rows_and_objects(const struct kernel_usage *usage)
{
    return usage->stored_bytes + usage->row_bytes;
}

static enum kiln_code shrink_store(struct kernel_store *store, struct gc *gc, struct kiln_err *err)
{
    struct kernel_usage before = { 0 }, after = { 0 };
    enum kiln_code rc = store_usage(store->writer, &before, err);
    if (!rc)
        rc = store_shrink_to(store, gc->options->to_bytes, &gc->result.evicted_kernels, err);
    if (!rc)
        rc = store_usage(store->writer, &after, err);
    if (!rc)
        gc->result.evicted_bytes = rows_and_objects(&before) - rows_and_objects(&after);
    return rc;
}

static enum kiln_code gc_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    struct gc *gc = context;
    gc->result = (struct kernel_gc_result){ .taken_before = store_taken_bytes(store) };
    enum kiln_code rc = repair_counters(store, err);
    if (!rc)
        rc = count_stale(store->writer, gc, err);
    for (size_t i = 0; !rc && i < gc->stale_count; i++) {
        struct kernel_filter filter = made_by(&gc->stale[i]);
        rc = store_remove_matches(store, &filter, err);
    }
    if (!rc)
        rc = store_truncate(store, 0, UINT64_MAX, err);
    if (!rc && gc->options->shrink)
        rc = shrink_store(store, gc, err);
    gc->result.taken_after = store_taken_bytes(store);
    gc->result.missed = gc->options->shrink && gc->result.taken_after > gc->options->to_bytes;
    return rc;
}

/* ---- dry run ---- */

static bool is_stale(const struct gc *gc, const struct query *q)
{
    struct digest toolchain;
    if (query_text(q, 2)[0] || !store_to_digest(query_bytes(q, 1), &toolchain))
        return false;
    for (size_t i = 0; i < gc->stale_count; i++) {
        if (digest_equal(&gc->stale[i], &toolchain))
            return true;
    }
    return false;
}

/* Estimates what eviction would remove from the bytes of rows and objects. */
static enum kiln_code estimate_eviction(struct db *db, struct gc *gc, struct kiln_err *err)
{
    struct kernel_gc_result *r = &gc->result;
    uint64_t left = r->taken_before - (r->stale_bytes < r->taken_before ? r->stale_bytes : 0);
    QUERY_AUTO struct query q = query_of(db, KERNEL_MIN_WORTH);
    enum kiln_code rc = KILN_OK;
    for (bool row = true; !rc && row && left > gc->options->to_bytes;) {
        rc = query_step(&q, &row, err);
        if (rc || !row || is_stale(gc, &q))
            continue;
        uint64_t bytes = query_u64(&q, 0);
        r->evicted_kernels++;
        r->evicted_bytes += bytes;
        left -= bytes < left ? bytes : left;
    }
    r->missed = left > gc->options->to_bytes;
    return rc;
}

static enum kiln_code run_dry(struct kernel_store *store, struct gc *gc, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    gc->result.taken_before = gc->result.taken_after = store_taken_bytes(store);
    rc = count_stale(reader->db, gc, err);
    if (!rc && gc->options->shrink)
        rc = estimate_eviction(reader->db, gc, err);
    return store_note_read(store, rc);
}

enum kiln_code kernel_store_gc(struct kernel_store *store, const struct kernel_gc *options,
                               struct kernel_gc_result *ret_result, struct kiln_err *err)
{
    struct gc gc = { .options = options };
    enum kiln_code rc = options->dry_run ? run_dry(store, &gc, err)
                                         : store_write(store, STORE_AWAITED, gc_work, &gc, err);
    if (store_advise_space(store, rc, err))
        return kiln_while(err, "collecting garbage in the kernel cache");
    *ret_result = gc.result;
    return KILN_OK;
}
