/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/clock.h"

#include <string.h>

/* Rows removed in one transaction: keeps the write-ahead log short. */
#define CLEAR_BATCH 512u
#define PROBES_MOST 1024u
#define PROBE_DETAIL_MOST 2000u
/* Seconds since the epoch, year 36812: keeps sums of times far from overflowing. */
#define TIME_MOST (1ull << 40)

uint64_t store_time(uint64_t seconds) { return seconds < TIME_MOST ? seconds : TIME_MOST; }

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

static enum kiln_code touch_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    const struct touch *touch = context;
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    for (size_t i = 0; !rc && i < touch->count; i++) {
        QUERY_AUTO struct query q = query_of(store->writer, KERNEL_TOUCH);
        query_bind_bytes(&q, 1, digest_view(&touch->keys[i]));
        query_bind_u64(&q, 2, touch->now);
        rc = query_run(&q, err);
    }
    return rc ? rc : transaction_commit(&t, err);
}

enum kiln_code kernel_store_touch(struct kernel_store *store, const struct digest *keys,
                                  size_t count, uint64_t now, struct kiln_err *err)
{
    struct touch touch = { .keys = keys, .count = count, .now = store_time(now) };
    if (count == 0)
        return KILN_OK;
    enum kiln_code rc = store_write(store, touch_work, &touch, err);
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
    return rc;
}

enum kiln_code kernel_store_remove(struct kernel_store *store, const struct digest *key,
                                   struct kiln_err *err)
{
    struct removal removal = { .key = key };
    enum kiln_code rc = store_write(store, remove_work, &removal, err);
    if (rc)
        return kiln_while(err, "removing a kernel");
    return removal.gone ? KILN_OK : KILN_NOT_FOUND;
}

struct clearing {
    const struct kernel_filter *filter;
    bool dry_run;
    uint64_t count;
    uint64_t bytes;
};

static struct query filtered(struct db *db, enum kernel_statement statement,
                             const struct kernel_filter *filter)
{
    struct query q = query_of(db, statement);
    query_bind_text(&q, 2, filter->target);
    query_bind_text(&q, 3, filter->program);
    query_bind_u64(&q, 4, filter->older_than);
    return q;
}

static enum kiln_code count_matches(struct db *db, struct clearing *c, struct kiln_err *err)
{
    QUERY_AUTO struct query q = filtered(db, KERNEL_COUNT_MATCHES, c->filter);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc && row) {
        c->count = query_u64(&q, 0);
        c->bytes = query_u64(&q, 1);
    }
    return rc;
}

/* The id of the last of the next CLEAR_BATCH kernels that match; 0 when none is left. */
static enum kiln_code next_batch(struct db *db, const struct clearing *c, uint64_t after,
                                 uint64_t *ret_last, struct kiln_err *err)
{
    QUERY_AUTO struct query q = filtered(db, KERNEL_NEXT_MATCHES, c->filter);
    query_bind_u64(&q, 1, after);
    query_bind_u64(&q, 5, CLEAR_BATCH);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc)
        *ret_last = row ? query_u64(&q, 0) : 0;
    return rc;
}

static enum kiln_code remove_batch(struct db *db, const struct clearing *c, uint64_t after,
                                   uint64_t last, struct kiln_err *err)
{
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, db, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = filtered(db, KERNEL_REMOVE_MATCHES, c->filter);
    query_bind_u64(&q, 1, after);
    query_bind_u64(&q, 5, last);
    rc = query_run(&q, err);
    return rc ? rc : transaction_commit(&t, err);
}

static enum kiln_code clear_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    struct clearing *c = context;
    enum kiln_code rc = count_matches(store->writer, c, err);
    if (rc || c->dry_run || c->count == 0)
        return rc;
    uint64_t after = 0, last = 0;
    rc = next_batch(store->writer, c, after, &last, err);
    while (!rc && last > after) {
        rc = remove_batch(store->writer, c, after, last, err);
        after = last;
        last = 0;
        if (!rc)
            rc = next_batch(store->writer, c, after, &last, err);
    }
    return rc ? rc : db_shrink(store->writer, err);
}

enum kiln_code kernel_store_clear(struct kernel_store *store, const struct kernel_filter *filter,
                                  bool dry_run, uint64_t *ret_count, uint64_t *ret_bytes,
                                  struct kiln_err *err)
{
    struct clearing c = { .filter = filter, .dry_run = dry_run };
    enum kiln_code rc = store_write(store, clear_work, &c, err);
    if (rc)
        return kiln_while(err, "clearing the kernel cache");
    *ret_count = c.count;
    *ret_bytes = c.bytes;
    return KILN_OK;
}

struct probe {
    const struct digest *toolchain_id;
    const char *target;
    bool works;
    char detail[PROBE_DETAIL_MOST + 1];
};

static enum kiln_code probe_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    const struct probe *probe = context;
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query add = query_of(store->writer, KERNEL_ADD_PROBE);
    query_bind_bytes(&add, 1, digest_view(probe->toolchain_id));
    query_bind_text(&add, 2, probe->target);
    query_bind_u64(&add, 3, probe->works);
    query_bind_text(&add, 4, probe->detail);
    query_bind_u64(&add, 5, clock_wall_s());
    rc = query_run(&add, err);
    QUERY_AUTO struct query forget = query_of(store->writer, KERNEL_FORGET_PROBES);
    query_bind_u64(&forget, 1, PROBES_MOST);
    if (!rc)
        rc = query_run(&forget, err);
    return rc ? rc : transaction_commit(&t, err);
}

enum kiln_code kernel_store_probe_put(struct kernel_store *store, const struct digest *toolchain_id,
                                      const char *target, bool works, const char *detail,
                                      struct kiln_err *err)
{
    struct probe probe = { .toolchain_id = toolchain_id, .target = target, .works = works };
    strncat(probe.detail, detail ? detail : "", sizeof(probe.detail) - 1);
    enum kiln_code rc = store_write(store, probe_work, &probe, err);
    return rc ? kiln_while(err, "remembering what a toolchain can do") : KILN_OK;
}
