/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_figures.h"
#include "engine/store/kernel_store_parts.h"

struct ledger_put {
    const struct kernel_ledger *ledger;
    bool written;
};

static void bind_sum(struct query *q, int at, uint64_t value)
{
    query_bind_u64(q, at, value < KERNEL_SUM_MAX ? value : KERNEL_SUM_MAX);
}

static enum kiln_code put_row(struct db *db, const struct kernel_ledger_row *row,
                              struct kiln_err *err)
{
    QUERY_AUTO struct query q =
        query_of(db, row->is_user ? KERNEL_PUT_LEDGER_USER : KERNEL_PUT_LEDGER_KIND);
    int at = 1;
    if (row->is_user) {
        query_bind_i64(&q, at++, row->uid);
    } else {
        query_bind_text(&q, at++, row->target);
        query_bind_text(&q, at++, row->program);
    }
    bind_sum(&q, at++, row->sums.saved_us);
    bind_sum(&q, at++, row->sums.hits);
    bind_sum(&q, at++, row->sums.compiles);
    bind_sum(&q, at, row->sums.compile_us);
    return query_run(&q, err);
}

static enum kiln_code put_since(struct db *db, uint64_t since, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, KERNEL_PUT_LEDGER_SINCE);
    query_bind_u64(&q, 1, store_time(since));
    return query_run(&q, err);
}

static enum kiln_code put_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    struct ledger_put *put = context;
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = store_before_batch(store, err);
    if (!rc)
        rc = transaction_begin(&t, store->writer, err);
    if (!rc)
        rc = put_since(store->writer, put->ledger->since, err);
    if (!rc && put->ledger->forget_users)
        rc = store_run(store, KERNEL_FORGET_LEDGER_USERS, err);
    if (!rc && put->ledger->forget_kinds)
        rc = store_run(store, KERNEL_FORGET_LEDGER_KINDS, err);
    for (size_t i = 0; !rc && i < put->ledger->count; i++)
        rc = put_row(store->writer, &put->ledger->rows[i], err);
    if (!rc)
        rc = transaction_commit(&t, err);
    put->written = rc == KILN_OK;
    return rc;
}

enum kiln_code kernel_store_ledger_put(struct kernel_store *store,
                                       const struct kernel_ledger *ledger, bool *ret_written,
                                       struct kiln_err *err)
{
    struct ledger_put put = { .ledger = ledger };
    enum kiln_code rc = store_write(store, STORE_UNASKED, put_work, &put, err);
    *ret_written = put.written;
    return rc ? kiln_while(err, "writing down what kernels saved") : KILN_OK;
}

/* ---- reading ---- */

static struct kernel_sums sums_at(const struct query *q, int column)
{
    return (struct kernel_sums){ .saved_us = query_u64(q, column),
                                 .hits = query_u64(q, column + 1),
                                 .compiles = query_u64(q, column + 2),
                                 .compile_us = query_u64(q, column + 3) };
}

static enum kiln_code each_row(struct db *db, bool is_user, size_t most,
                               void (*each)(void *, const struct kernel_ledger_row *),
                               void *context, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, is_user ? KERNEL_LEDGER_USERS : KERNEL_LEDGER_KINDS);
    query_bind_u64(&q, 1, most);
    bool row = true;
    for (;;) {
        enum kiln_code rc = query_step(&q, &row, err);
        if (rc || !row)
            return rc;
        struct kernel_ledger_row found = { .is_user = is_user };
        if (is_user) {
            found.uid = query_i64(&q, 0);
            found.sums = sums_at(&q, 1);
        } else {
            found.target = query_text(&q, 0);
            found.program = query_text(&q, 1);
            found.sums = sums_at(&q, 2);
        }
        each(context, &found);
    }
}

enum kiln_code kernel_store_ledger(struct kernel_store *store, size_t most,
                                   void (*each)(void *context, const struct kernel_ledger_row *row),
                                   void *context, uint64_t *ret_since, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    *ret_since = 0;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    rc = store_number(reader->db, KERNEL_LEDGER_SINCE, ret_since, err);
    if (!rc)
        rc = each_row(reader->db, /* is_user= */ true, most, each, context, err);
    if (!rc)
        rc = each_row(reader->db, /* is_user= */ false, most, each, context, err);
    return store_note_read(store, rc);
}

enum kiln_code kernel_store_shares(struct kernel_store *store, bool by_program, size_t most,
                                   void (*each)(void *context, const struct kernel_share *share),
                                   void *context, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    QUERY_AUTO struct query q =
        query_of(reader->db, by_program ? KERNEL_SHARES_BY_PROGRAM : KERNEL_SHARES_BY_TARGET);
    query_bind_u64(&q, 1, most);
    for (bool row = true; !rc && row;) {
        rc = query_step(&q, &row, err);
        if (rc || !row)
            break;
        bool is_private = query_u64(&q, 3) != 0;
        const struct kernel_share share = { .name = is_private ? NULL : query_text(&q, 0),
                                            .kernels = query_u64(&q, 1),
                                            .bytes = query_u64(&q, 2) };
        each(context, &share);
    }
    return store_note_read(store, rc);
}
