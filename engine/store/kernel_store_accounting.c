/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_metrics.h"
#include "engine/store/kernel_store_parts.h"

struct accounting_put {
    const struct kernel_accounting *accounting;
    bool written;
};

static void bind_sum(struct query *q, int at, uint64_t value)
{
    query_bind_u64(q, at, value < KERNEL_SUM_MAX ? value : KERNEL_SUM_MAX);
}

static enum kiln_code put_row(struct db *db, const struct kernel_accounting_row *row,
                              struct kiln_err *err)
{
    QUERY_AUTO struct query q =
        query_of(db, row->is_user ? KERNEL_PUT_ACCOUNTING_USER : KERNEL_PUT_ACCOUNTING_KIND);
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
    QUERY_AUTO struct query q = query_of(db, KERNEL_PUT_ACCOUNTING_SINCE);
    query_bind_u64(&q, 1, store_time(since));
    return query_run(&q, err);
}

static enum kiln_code put_accounting_work(struct kernel_store *store, void *context,
                                          struct kiln_err *err)
{
    struct accounting_put *put = context;
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = store_before_batch(store, err);
    if (!rc)
        rc = transaction_begin(&t, store->writer, err);
    if (!rc)
        rc = put_since(store->writer, put->accounting->since, err);
    if (!rc && put->accounting->forget_users)
        rc = store_run(store, KERNEL_FORGET_ACCOUNTING_USERS, err);
    if (!rc && put->accounting->forget_kinds)
        rc = store_run(store, KERNEL_FORGET_ACCOUNTING_KINDS, err);
    for (size_t i = 0; !rc && i < put->accounting->count; i++)
        rc = put_row(store->writer, &put->accounting->rows[i], err);
    if (!rc)
        rc = transaction_commit(&t, err);
    put->written = rc == KILN_OK;
    return rc;
}

enum kiln_code kernel_store_accounting_put(struct kernel_store *store,
                                           const struct kernel_accounting *accounting,
                                           bool *ret_written, struct kiln_err *err)
{
    struct accounting_put put = { .accounting = accounting };
    enum kiln_code rc = store_write(store, STORE_BACKGROUND, put_accounting_work, &put, err);
    *ret_written = put.written;
    return rc ? kiln_while(err, "storing usage accounting") : KILN_OK;
}

static struct kernel_sums sums_at(const struct query *q, int column)
{
    return (struct kernel_sums){ .saved_us = query_u64(q, column),
                                 .hits = query_u64(q, column + 1),
                                 .compiles = query_u64(q, column + 2),
                                 .compile_us = query_u64(q, column + 3) };
}

static enum kiln_code read_rows(struct db *db, bool is_user,
                                const struct kernel_accounting_request *request,
                                struct kiln_err *err)
{
    QUERY_AUTO struct query q =
        query_of(db, is_user ? KERNEL_ACCOUNTING_USERS : KERNEL_ACCOUNTING_KINDS);
    enum kiln_code rc = KILN_OK;
    query_bind_u64(&q, 1, request->max);
    while (query_next(&q, &rc, err)) {
        struct kernel_accounting_row found = { .is_user = is_user };
        if (is_user) {
            found.uid = query_i64(&q, 0);
            found.sums = sums_at(&q, 1);
        } else {
            found.target = query_text(&q, 0);
            found.program = query_text(&q, 1);
            found.sums = sums_at(&q, 2);
        }
        request->each(request->context, &found);
    }
    return rc;
}

enum kiln_code kernel_store_accounting(struct kernel_store *store,
                                       const struct kernel_accounting_request *request,
                                       uint64_t *ret_since, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    *ret_since = 0;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    rc = store_number(reader->db, KERNEL_ACCOUNTING_SINCE, ret_since, err);
    if (!rc)
        rc = read_rows(reader->db, /* is_user= */ true, request, err);
    if (!rc)
        rc = read_rows(reader->db, /* is_user= */ false, request, err);
    return store_note_read(store, rc);
}

enum kiln_code kernel_store_shares(struct kernel_store *store,
                                   const struct kernel_share_request *request,
                                   void (*each)(void *context, const struct kernel_share *share),
                                   void *context, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    QUERY_AUTO struct query q = query_of(reader->db, request->by_program ? KERNEL_SHARES_BY_PROGRAM
                                                                         : KERNEL_SHARES_BY_TARGET);
    query_bind_u64(&q, 1, request->max);
    while (query_next(&q, &rc, err)) {
        uint64_t group = query_u64(&q, 3);
        const struct kernel_share share = { .name = group ? NULL : query_text(&q, 0),
                                            .is_of_clients = group == 2,
                                            .kernels = query_u64(&q, 1),
                                            .bytes = query_u64(&q, 2) };
        each(context, &share);
    }
    return store_note_read(store, rc);
}
