/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One use of a prepared statement: bind, step, read columns.
 *
 * Role       the only way for other modules to run SQL; the statements come from the table given to
 *            db_open
 * Ownership  bound bytes and texts are borrowed until query_done; column results until the next
 *            query_step
 * Threading  as for the connection (db.h); one use of a statement at a time
 *
 * A statement is prepared at its first use. For a |foreign| database, however, db_open
 * prepares all statements. If a preparation or a bind fails, the next query_step reports the
 * failure. Columns of a damaged file may have any value. A missing text is read as "", and missing
 * bytes as bytes of size 0.
 */
#include "engine/db/db.h"

struct sqlite3_stmt;

struct query {
    struct db *db;
    struct sqlite3_stmt *statement;
    int failed;
    uint64_t rows;
};

struct query query_of(struct db *db, size_t statement);
/* Releases the statement's lock and its borrowed values. */
void query_done(struct query *q);
#define QUERY_AUTO __attribute__((cleanup(query_done)))

/* |at| counts from 1, like ?1 in the SQL text. */
void query_bind_u64(struct query *q, int at, uint64_t value);
void query_bind_i64(struct query *q, int at, int64_t value);
void query_bind_text(struct query *q, int at, const char *text); /* NULL counts as "" */
void query_bind_text_view(struct query *q, int at, struct bytes text);
void query_bind_bytes(struct query *q, int at, struct bytes bytes);

KILN_MUST_CHECK enum kiln_code query_step(struct query *q, bool *ret_row, struct kiln_err *err);
/* Returns false after the last row, or after a failure, which |*ret_rc| reports. */
bool query_next(struct query *q, enum kiln_code *ret_rc, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code query_run(struct query *q, struct kiln_err *err);

/* |column| counts from 0. */
uint64_t query_u64(const struct query *q, int column); /* negative numbers count as 0 */
int64_t query_i64(const struct query *q, int column);
const char *query_text(const struct query *q, int column);
struct bytes query_bytes(const struct query *q, int column);
