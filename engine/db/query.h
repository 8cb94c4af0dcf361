/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One use of a prepared statement: bind, step, read columns.
 *
 * Role       the only way other modules run SQL; the texts come from the table given to db_open
 * Ownership  bound bytes and texts are borrowed until query_done; column results until the next
 *            query_step
 * Threading  that of the connection; one use of a statement at a time
 *
 * A failed bind is sticky and reported by the next query_step.  Columns of a damaged file may
 * hold anything: numbers come out as some number, absent text as "", absent bytes as an empty
 * view; whoever reads them checks the values.
 */
#include "engine/db/db.h"

struct sqlite3_stmt;

struct query {
    struct db *db;                  /* borrowed */
    struct sqlite3_stmt *statement; /* borrowed from the connection */
    int failed;                     /* SQLite's code of the first bind that failed */
};

struct query query_of(struct db *db, size_t statement);
/* Ends the use: the statement holds no lock and no borrowed value any more. */
void query_done(struct query *q);
#define QUERY_AUTO __attribute__((cleanup(query_done)))

/* |at| counts from 1, as ?1 in the text does. */
void query_bind_u64(struct query *q, int at, uint64_t value);
void query_bind_i64(struct query *q, int at, int64_t value);
void query_bind_text(struct query *q, int at, const char *text);     /* NULL counts as "" */
void query_bind_letters(struct query *q, int at, struct bytes text); /* a text, not terminated */
void query_bind_bytes(struct query *q, int at, struct bytes bytes);

/* |ret_row| is true when there is a row to read. */
KILN_MUST_CHECK enum kiln_code query_step(struct query *q, bool *ret_row, struct kiln_err *err);
/* For loops over rows: true with one, false after the last or with |*ret_rc|. */
bool query_next(struct query *q, enum kiln_code *ret_rc, struct kiln_err *err);
/* Runs to the end; rows are ignored. */
KILN_MUST_CHECK enum kiln_code query_run(struct query *q, struct kiln_err *err);

/* |column| counts from 0. */
uint64_t query_u64(const struct query *q, int column); /* negative numbers count as 0 */
int64_t query_i64(const struct query *q, int column);
const char *query_text(const struct query *q, int column);
struct bytes query_bytes(const struct query *q, int column);
