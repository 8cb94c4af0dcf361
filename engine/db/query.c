/* SPDX-License-Identifier: MIT */
#include "engine/db/query.h"

#include "engine/db/connection.h"

#include <errno.h>
#include <stdatomic.h>

struct query query_of(struct db *db, size_t statement)
{
    int rc = db_prepare_one(db, statement);
    return (struct query){ .db = db, .statement = db->prepared[statement], .failed = rc };
}

void query_done(struct query *q)
{
    if (!q->statement)
        return;
    sqlite3_reset(q->statement);
    sqlite3_clear_bindings(q->statement);
    *q = (struct query){ 0 };
}

static void note_failure(struct query *q, int rc)
{
    if (!q->failed)
        q->failed = rc;
}

void query_bind_i64(struct query *q, int at, int64_t value)
{
    note_failure(q, sqlite3_bind_int64(q->statement, at, value));
}

void query_bind_u64(struct query *q, int at, uint64_t value)
{
    query_bind_i64(q, at, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

void query_bind_text(struct query *q, int at, const char *text)
{
    note_failure(q, sqlite3_bind_text(q->statement, at, text ? text : "", -1, SQLITE_STATIC));
}

void query_bind_text_view(struct query *q, int at, struct bytes text)
{
    const char *data = text.size ? (const char *)text.data : "";
    note_failure(
        q, sqlite3_bind_text64(q->statement, at, data, text.size, SQLITE_STATIC, SQLITE_UTF8));
}

void query_bind_bytes(struct query *q, int at, struct bytes bytes)
{
    /* With a NULL pointer, SQLite would bind NULL instead of an empty blob. */
    const void *data = bytes.size ? (const void *)bytes.data : "";
    note_failure(q, sqlite3_bind_blob64(q->statement, at, data, bytes.size, SQLITE_STATIC));
}

static int step_again(struct query *q)
{
    int rc = SQLITE_ROW;
    sqlite3_reset(q->statement); /* until this call, the statement keeps the old pages in use */
    db_forget_pages(q->db);
    for (uint64_t i = 0; rc == SQLITE_ROW && i <= q->rows; i++)
        rc = sqlite3_step(q->statement);
    return rc;
}

static int step_statement(struct query *q)
{
    if (q->failed)
        return q->failed;
    int rc = sqlite3_step(q->statement);
    if ((rc & 0xff) != SQLITE_CORRUPT || !q->db->misreads)
        return rc;
    rc = step_again(q);
    if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        atomic_fetch_add(q->db->misreads, 1);
    return rc;
}

enum kiln_code query_step(struct query *q, bool *ret_row, struct kiln_err *err)
{
    if (q->db->stuck) {
        enum kiln_code stuck = db_unstick(q->db, err);
        if (stuck)
            return stuck;
    }
    q->db->work = 0;
    errno = 0;
    int rc = step_statement(q);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return db_fail(q->db, rc, sqlite3_stmt_readonly(q->statement) ? "read" : "write to", err);
    *ret_row = rc == SQLITE_ROW;
    q->rows += *ret_row;
    return KILN_OK;
}

bool query_next(struct query *q, enum kiln_code *ret_rc, struct kiln_err *err)
{
    bool row = false;
    *ret_rc = query_step(q, &row, err);
    return !*ret_rc && row;
}

enum kiln_code query_run(struct query *q, struct kiln_err *err)
{
    bool row = true;
    enum kiln_code rc = KILN_OK;
    while (!rc && row)
        rc = query_step(q, &row, err);
    return rc;
}

int64_t query_i64(const struct query *q, int column)
{
    return sqlite3_column_int64(q->statement, column);
}

uint64_t query_u64(const struct query *q, int column)
{
    int64_t value = query_i64(q, column);
    return value > 0 ? (uint64_t)value : 0;
}

const char *query_text(const struct query *q, int column)
{
    const unsigned char *text = sqlite3_column_text(q->statement, column);
    return text ? (const char *)text : "";
}

struct bytes query_bytes(const struct query *q, int column)
{
    const void *data = sqlite3_column_blob(q->statement, column);
    return bytes_of(data, data ? (size_t)sqlite3_column_bytes(q->statement, column) : 0);
}
