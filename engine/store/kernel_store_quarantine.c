/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/clock.h"

#define ROWS_MOST 64u
#define BYTES_MOST (16u << 20)
#define SHARE 32u /* of the limit */
/* A larger object leaves its row without its bytes. */
#define OBJECT_MOST (4u << 20)

static enum kiln_code bound_quarantine(struct kernel_store *store, struct kiln_err *err)
{
    struct db *db = store->writer;
    uint64_t share = store->limit_bytes / SHARE;
    uint64_t most = share < BYTES_MOST ? share : BYTES_MOST;
    for (;;) {
        QUERY_AUTO struct query count = query_of(db, KERNEL_QUARANTINED);
        bool row = false;
        enum kiln_code rc = query_step(&count, &row, err);
        if (rc)
            return rc;
        if (!row || query_u64(&count, 0) == 0 ||
            (query_u64(&count, 0) <= ROWS_MOST && query_u64(&count, 1) <= most))
            return KILN_OK;
        QUERY_AUTO struct query forget = query_of(db, KERNEL_FORGET_QUARANTINED);
        rc = query_run(&forget, err);
        if (rc)
            return rc;
    }
}

static enum kiln_code move_away(struct kernel_store *store, const struct digest *key,
                                enum damage damage, const char *reason, struct kiln_err *err)
{
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_QUARANTINE);
    query_bind_bytes(&q, 1, digest_view(key));
    query_bind_u64(&q, 2, clock_wall_s());
    query_bind_text(&q, 3, reason);
    query_bind_u64(&q, 4, OBJECT_MOST);
    rc = query_run(&q, err);
    /* A damaged object answers none of its keys; a damaged claim concerns one key. */
    if (!rc && damage == DAMAGE_CONTENT)
        rc = store_run_with_key(store, KERNEL_REMOVE_SHARERS, key, err);
    else if (!rc)
        rc = store_run_with_key(store, KERNEL_REMOVE, key, err);
    store->pinned_known = false;
    if (!rc)
        rc = bound_quarantine(store, err);
    return rc ? rc : transaction_commit(&t, err);
}

static enum kiln_code quarantine_work(struct kernel_store *store, void *context,
                                      struct kiln_err *err)
{
    const struct digest *key = context;
    struct object *object = NULL;
    enum damage damage = DAMAGE_NONE;
    struct kiln_err why = KILN_ERR_INIT;
    db_forget_pages(store->writer);
    enum kiln_code rc = store_read_object(store->writer, store->codec, key, &object, &damage, &why);
    object_unref(object);
    if (rc == KILN_OK || rc == KILN_NOT_FOUND)
        return KILN_OK;
    if (rc != KILN_CORRUPT || damage == DAMAGE_FILE) {
        *err = why;
        return rc;
    }
    return move_away(store, key, damage, why.text, err);
}

enum kiln_code kernel_store_quarantine(struct kernel_store *store, const struct digest *key,
                                       struct kiln_err *err)
{
    struct digest copy = *key;
    enum kiln_code rc = store_write(store, STORE_UNASKED, quarantine_work, &copy, err);
    return rc ? kiln_while(err, "moving a damaged kernel out of the way") : KILN_OK;
}
