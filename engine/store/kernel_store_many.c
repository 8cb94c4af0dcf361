/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

enum kiln_code store_count_matches(struct db *db, const struct kernel_filter *filter,
                                   uint64_t *ret_count, uint64_t *ret_bytes, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, KERNEL_COUNT_MATCHES);
    store_bind_filter(&q, filter);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (rc)
        return rc;
    *ret_count = row ? query_u64(&q, 0) : 0;
    *ret_bytes = row ? query_u64(&q, 1) : 0;
    return KILN_OK;
}

/* The id of the last kernel of the next batch of those that match; 0 when none is left. */
static enum kiln_code next_batch(struct kernel_store *store, const struct kernel_filter *filter,
                                 uint64_t after, uint64_t *ret_last, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_NEXT_MATCHES);
    store_bind_filter(&q, filter);
    query_bind_u64(&q, 1, after);
    query_bind_u64(&q, 5, store_batch(store));
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc)
        *ret_last = row ? query_u64(&q, 0) : 0;
    return rc;
}

static enum kiln_code change_batch(struct kernel_store *store, enum kernel_statement change,
                                   const struct kernel_filter *filter, uint64_t after,
                                   uint64_t last, uint64_t *changed, struct kiln_err *err)
{
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = store_before_batch(store, err);
    if (!rc)
        rc = transaction_begin(&t, store->writer, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(store->writer, change);
    store_bind_filter(&q, filter);
    query_bind_u64(&q, 1, after);
    query_bind_u64(&q, 5, last);
    rc = query_run(&q, err);
    *changed += rc ? 0 : db_changes(store->writer);
    return rc ? rc : transaction_commit(&t, err);
}

/* Runs |change| on all that match, batch by batch. */
static enum kiln_code change_matches(struct kernel_store *store, enum kernel_statement change,
                                     const struct kernel_filter *filter, uint64_t *changed,
                                     struct kiln_err *err)
{
    uint64_t after = 0, last = 0;
    store->pinned_known = false;
    enum kiln_code rc = next_batch(store, filter, after, &last, err);
    while (!rc && last > after) {
        rc = change_batch(store, change, filter, after, last, changed, err);
        after = last;
        last = 0;
        if (!rc)
            rc = next_batch(store, filter, after, &last, err);
    }
    return rc;
}

enum kiln_code store_remove_matches(struct kernel_store *store, const struct kernel_filter *filter,
                                    struct kiln_err *err)
{
    uint64_t removed = 0;
    return change_matches(store, KERNEL_REMOVE_MATCHES, filter, &removed, err);
}

/* ---- clear ---- */

struct clearing {
    const struct kernel_filter *filter;
    uint64_t count;
    uint64_t bytes;
    bool counted; /* a try before has: what it removed counts, too */
};

static bool matches_everything(const struct kernel_filter *f)
{
    const char *const texts[] = { f->target, f->program, f->toolchain, f->database_id, f->package };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i] && *texts[i])
            return false;
    }
    return !digest_is_known(&f->toolchain_id) && !f->older_than && !f->by_scope && !f->by_uid &&
           !f->not_pinned && !f->by_reader;
}

static enum kiln_code clear_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    struct clearing *c = context;
    enum kiln_code rc = KILN_OK;
    if (!c->counted)
        rc = store_count_matches(store->writer, c->filter, &c->count, &c->bytes, err);
    c->counted = !rc;
    if (!rc && c->count)
        rc = store_remove_matches(store, c->filter, err);
    if (rc == KILN_FULL && matches_everything(c->filter)) /* without free space no row goes */
        return store_wipe(store, err);
    if (!rc && c->count)
        rc = store_cut(store, 0, UINT64_MAX, err);
    return rc;
}

static enum kiln_code count_only(struct kernel_store *store, struct clearing *c,
                                 struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (!rc && reader)
        rc = store_count_matches(reader->db, c->filter, &c->count, &c->bytes, err);
    return store_note_read(store, rc);
}

/* The same where there is not even room to open the file for writing. */
static enum kiln_code remove_unopened(struct kernel_store *store, struct clearing *c,
                                      struct kiln_err *err)
{
    (void)!count_only(store, c, err); /* only to report it */
    enum kiln_code rc = store_wipe(store, err);
    return store_health_note(store, STORE_ASKED, rc, err);
}

enum kiln_code kernel_store_clear(struct kernel_store *store, const struct kernel_filter *filter,
                                  bool dry_run, uint64_t *ret_count, uint64_t *ret_bytes,
                                  struct kiln_err *err)
{
    struct clearing c = { .filter = filter };
    enum kiln_code rc =
        dry_run ? count_only(store, &c, err) : store_write(store, STORE_ASKED, clear_work, &c, err);
    if (rc == KILN_FULL && !store->writer && matches_everything(filter))
        rc = remove_unopened(store, &c, err);
    if (store_advise_room(store, rc, err))
        return kiln_while(err, "clearing the kernel cache");
    *ret_count = c.count;
    *ret_bytes = c.bytes;
    return KILN_OK;
}

/* ---- pin ---- */

struct pinning {
    const struct digest *keys; /* or |filter| */
    size_t count;
    const struct kernel_filter *filter;
    bool pinned;
    uint64_t changed;
};

static enum kiln_code pin_one(struct kernel_store *store, struct pinning *p,
                              const struct digest *key, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_PIN);
    query_bind_bytes(&q, 1, digest_view(key));
    query_bind_u64(&q, 2, p->pinned);
    enum kiln_code rc = query_run(&q, err);
    p->changed += rc ? 0 : db_changes(store->writer);
    return rc;
}

static enum kiln_code pin_batch(struct kernel_store *store, struct pinning *p, size_t at,
                                struct kiln_err *err)
{
    size_t end = p->count - at < store_batch(store) ? p->count : at + store_batch(store);
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = store_before_batch(store, err);
    if (!rc)
        rc = transaction_begin(&t, store->writer, err);
    for (; !rc && at < end; at++)
        rc = pin_one(store, p, &p->keys[at], err);
    return rc ? rc : transaction_commit(&t, err);
}

static enum kiln_code pin_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    struct pinning *p = context;
    p->changed = 0;
    if (p->filter)
        return change_matches(store, p->pinned ? KERNEL_PIN_MATCHES : KERNEL_UNPIN_MATCHES,
                              p->filter, &p->changed, err);
    store->pinned_known = false;
    enum kiln_code rc = KILN_OK;
    for (size_t at = 0; !rc && at < p->count; at += store_batch(store))
        rc = pin_batch(store, p, at, err);
    return rc;
}

static enum kiln_code pin(struct kernel_store *store, struct pinning *p, uint64_t *ret_count,
                          struct kiln_err *err)
{
    enum kiln_code rc = store_write(store, STORE_ASKED, pin_work, p, err);
    if (rc)
        return kiln_while(err, p->pinned ? "pinning kernels" : "unpinning kernels");
    *ret_count = p->changed;
    return KILN_OK;
}

enum kiln_code kernel_store_pin(struct kernel_store *store, const struct digest *keys, size_t count,
                                bool pinned, uint64_t *ret_count, struct kiln_err *err)
{
    struct pinning p = { .keys = keys, .count = count, .pinned = pinned };
    return pin(store, &p, ret_count, err);
}

enum kiln_code kernel_store_pin_matching(struct kernel_store *store,
                                         const struct kernel_filter *filter, bool pinned,
                                         uint64_t *ret_count, struct kiln_err *err)
{
    struct pinning p = { .filter = filter, .pinned = pinned };
    return pin(store, &p, ret_count, err);
}
