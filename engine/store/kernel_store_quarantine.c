/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/base/clock.h"
#include "common/protocol/limits.h"

#include <stdio.h>

/* The quarantine may use ROWS_MAX rows, and the smaller of BYTES_MAX and limit / SHARE bytes. */
#define ROWS_MAX 64u
#define BYTES_MAX (16u << 20)
#define SHARE 32u
/* Maximum size of an object whose bytes the quarantine keeps. Of a larger object, it keeps only the
 * row. */
#define OBJECT_MAX (4u << 20)

static enum kiln_code bound_quarantine(struct kernel_store *store, struct kiln_err *err)
{
    struct db *db = store->writer;
    uint64_t share = store->limit_bytes / SHARE;
    uint64_t max = share < BYTES_MAX ? share : BYTES_MAX;
    for (;;) {
        QUERY_AUTO struct query count = query_of(db, KERNEL_QUARANTINED);
        bool row = false;
        enum kiln_code rc = query_step(&count, &row, err);
        if (rc)
            return rc;
        if (!row || query_u64(&count, 0) == 0 ||
            (query_u64(&count, 0) <= ROWS_MAX && query_u64(&count, 1) <= max))
            return KILN_OK;
        QUERY_AUTO struct query forget = query_of(db, KERNEL_FORGET_QUARANTINED);
        rc = query_run(&forget, err);
        if (rc)
            return rc;
    }
}

static enum kiln_code move_to_quarantine(struct kernel_store *store, const struct digest *key,
                                         enum damage damage, const char *reason,
                                         struct kiln_err *err)
{
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_QUARANTINE);
    query_bind_bytes(&q, 1, digest_view(key));
    query_bind_u64(&q, 2, clock_wall_s());
    query_bind_text(&q, 3, reason);
    query_bind_u64(&q, 4, OBJECT_MAX);
    rc = query_run(&q, err);
    /* A damaged object affects all its kernels. A damaged claim (store_claim) affects only this
     * kernel. */
    if (!rc && damage == DAMAGE_CONTENT)
        rc = store_run_with_key(store, KERNEL_REMOVE_SHARERS, key, err);
    else if (!rc)
        rc = store_run_with_key(store, KERNEL_REMOVE, key, err);
    store->pinned.is_known = false;
    if (!rc)
        rc = bound_quarantine(store, err);
    return rc ? rc : transaction_commit(&t, err);
}

static enum kiln_code quarantine_work(struct kernel_store *store, void *context,
                                      struct kiln_err *err)
{
    const struct digest *key = context;
    struct object *object = NULL;
    struct object_request request = { .key = key };
    struct kiln_err why = KILN_ERR_INIT;
    db_forget_pages(store->writer);
    enum kiln_code rc = store_read_object(store->writer, store->codec, &request, &object, &why);
    object_unref(object);
    if (rc == KILN_OK || rc == KILN_NOT_FOUND)
        return KILN_OK;
    if (rc != KILN_CORRUPT || request.damage == DAMAGE_FILE) {
        *err = why;
        return rc;
    }
    store_check_discard(store);
    return move_to_quarantine(store, key, request.damage, why.text, err);
}

enum kiln_code kernel_store_quarantine(struct kernel_store *store, const struct digest *key,
                                       struct kiln_err *err)
{
    struct digest copy = *key;
    enum kiln_code rc = store_write(store, STORE_BACKGROUND, quarantine_work, &copy, err);
    return rc ? kiln_while(err, "moving a damaged kernel to the quarantine") : KILN_OK;
}

static enum kiln_code packaged_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    const struct kernel_damage *damage = context;
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = transaction_begin(&t, store->writer, err);
    static const enum kernel_statement steps[] = { KERNEL_FORGET_PACKAGED,
                                                   KERNEL_QUARANTINE_PACKAGED };
    for (size_t i = 0; !rc && i < sizeof(steps) / sizeof(steps[0]); i++) {
        QUERY_AUTO struct query q = query_of(store->writer, steps[i]);
        query_bind_text(&q, 1, damage->package);
        query_bind_text(&q, 2, damage->row);
        if (steps[i] == KERNEL_QUARANTINE_PACKAGED) {
            query_bind_u64(&q, 3, clock_wall_s());
            query_bind_text(&q, 4, damage->reason);
        }
        rc = query_run(&q, err);
    }
    if (!rc)
        rc = bound_quarantine(store, err);
    return rc ? rc : transaction_commit(&t, err);
}

enum kiln_code kernel_store_quarantine_packaged(struct kernel_store *store,
                                                const struct kernel_damage *damage,
                                                struct kiln_err *err)
{
    struct kernel_damage copy = *damage;
    enum kiln_code rc = store_write(store, STORE_BACKGROUND, packaged_work, &copy, err);
    return rc ? kiln_while(err, "recording the damage in '%.100s'", damage->package) : KILN_OK;
}

static enum kiln_code forget_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_FORGET_PACKAGE);
    query_bind_text(&q, 1, context);
    return query_run(&q, err);
}

enum kiln_code kernel_store_quarantine_forget(struct kernel_store *store, const char *package,
                                              struct kiln_err *err)
{
    char name[LIMIT_PROGRAM_NAME + 1];
    snprintf(name, sizeof(name), "%s", package);
    enum kiln_code rc = store_write(store, STORE_BACKGROUND, forget_work, name, err);
    return rc ? kiln_while(err, "deleting the records of damage in '%.100s'", package) : KILN_OK;
}

enum kiln_code kernel_store_quarantine_of(struct kernel_store *store, const char *package,
                                          void (*each)(void *context,
                                                       const struct kernel_damage *damage),
                                          void *context, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    QUERY_AUTO struct query q = query_of(reader->db, KERNEL_QUARANTINE_OF);
    query_bind_text(&q, 1, package);
    query_bind_u64(&q, 2, ROWS_MAX);
    for (bool row = true; !rc && row;) {
        rc = query_step(&q, &row, err);
        const struct kernel_damage damage = { .found = query_u64(&q, 0),
                                              .reason = query_text(&q, 1),
                                              .package = query_text(&q, 2),
                                              .row = query_text(&q, 3) };
        if (!rc && row)
            each(context, &damage);
    }
    return store_note_read(store, rc);
}
