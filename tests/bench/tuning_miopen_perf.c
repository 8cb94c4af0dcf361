/* SPDX-License-Identifier: MIT */

/* Queries a PerfDb as MIOpen does, with the same SQLite schema. Each look-up prepares a statement
 * that joins the tables config and perf_db, binds all values as text, and copies all rows that
 * belong to the config.
 *
 * SQLite finds the row of config by an index. Then it reads all of perf_db, which has no index by
 * config. */
#include "tests/bench/tuning_way.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS 24u
/* Look-ups in one round; fewer than usual, because each takes milliseconds */
#define SLOW_TURN 40

#define PERF_DB_NUMBER(name) #name,
#define PERF_DB_TEXT(name) #name,
static const char *const columns[] = {
#include "engine/miopen/perf_db_columns.def"
};
#undef PERF_DB_NUMBER
#undef PERF_DB_TEXT
_Static_assert(sizeof(columns) / sizeof(columns[0]) == COLUMNS, "as many as the table has");

struct perf {
    const char *path;
    sqlite3 *db; /* NULL between look-ups if each one opens the database */
    char sql[2048];
};

static enum kiln_code sql_failed(sqlite3 *db, const char *what, struct kiln_err *err)
{
    return kiln_fail(err, KILN_IO, "cannot %s: %s", what, db ? sqlite3_errmsg(db) : "no memory");
}

static enum kiln_code open_file(struct perf *p, struct kiln_err *err)
{
    if (sqlite3_open_v2(p->path, &p->db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK)
        return KILN_OK;
    return sql_failed(p->db, "open MIOpen's PerfDb", err);
}

static void write_sql(struct perf *p)
{
    int at = snprintf(p->sql, sizeof(p->sql),
                      "SELECT solver, params FROM perf_db "
                      "INNER JOIN config ON perf_db.config = config.id WHERE (");
    for (unsigned i = 0; i < COLUMNS; i++)
        at += snprintf(p->sql + at, sizeof(p->sql) - (size_t)at, "%s(%s = ?)", i ? " AND " : "",
                       columns[i]);
    snprintf(p->sql + at, sizeof(p->sql) - (size_t)at, ");");
}

static void perf_close(void *state)
{
    struct perf *p = state;
    if (p)
        sqlite3_close(p->db);
    free(p);
}

static enum kiln_code fresh_open(const struct way_place *place, void **ret_state,
                                 struct kiln_err *err)
{
    struct perf *p = calloc(1, sizeof(*p));
    if (!p)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open a PerfDb");
    p->path = place->data->path;
    write_sql(p);
    *ret_state = p;
    return KILN_OK;
}

static enum kiln_code kept_open(const struct way_place *place, void **ret_state,
                                struct kiln_err *err)
{
    void *state;
    enum kiln_code rc = fresh_open(place, &state, err);
    if (rc)
        return rc;
    rc = open_file(state, err);
    if (rc)
        perf_close(state);
    else
        *ret_state = state;
    return rc;
}

static void statement_auto(sqlite3_stmt **s) { sqlite3_finalize(*s); }

/* Binds the columns of table config. In a PerfDb key, 'x' separates them. */
static bool bind_key(sqlite3_stmt *statement, const char *key)
{
    const char *at = key;
    for (unsigned i = 0; i < COLUMNS; i++) {
        size_t size = strcspn(at, "x");
        if (!size ||
            sqlite3_bind_text(statement, (int)i + 1, at, (int)size, SQLITE_TRANSIENT) != SQLITE_OK)
            return false;
        at += size + (at[size] == 'x');
    }
    return *at == '\0';
}

static bool copy_row(sqlite3_stmt *row)
{
    KILN_AUTO(mem) char *solver = strdup((const char *)sqlite3_column_text(row, 0));
    KILN_AUTO(mem) char *params = strdup((const char *)sqlite3_column_text(row, 1));
    return solver && params;
}

static enum kiln_code kept_ask(void *state, const struct data_question *question,
                               struct kiln_err *err)
{
    struct perf *p = state;
    char key[PROBLEM_KEY_MAX];
    (void)perf_key_write(&question->problem, key);
    __attribute__((cleanup(statement_auto))) sqlite3_stmt *row = NULL;
    if (sqlite3_prepare_v2(p->db, p->sql, -1, &row, NULL) || !bind_key(row, key))
        return sql_failed(p->db, "ask MIOpen's PerfDb", err);
    size_t count = 0;
    int rc;
    while ((rc = sqlite3_step(row)) == SQLITE_ROW)
        count += copy_row(row);
    if (rc != SQLITE_DONE)
        return sql_failed(p->db, "ask MIOpen's PerfDb", err);
    return count ? KILN_OK : kiln_fail(err, KILN_NOT_FOUND, "MIOpen's PerfDb has no '%s'", key);
}

static enum kiln_code fresh_ask(void *state, const struct data_question *question,
                                struct kiln_err *err)
{
    struct perf *p = state;
    enum kiln_code rc = open_file(p, err);
    if (!rc)
        rc = kept_ask(state, question, err);
    sqlite3_close(p->db);
    p->db = NULL;
    return rc;
}

const struct tuning_way way_miopen_perf_kept = {
    .name = "miopen-kept",
    .round_max = SLOW_TURN,
    .open = kept_open,
    .ask = kept_ask,
    .close = perf_close,
};

const struct tuning_way way_miopen_perf_fresh = {
    .name = "miopen-fresh",
    .round_max = SLOW_TURN,
    .open = fresh_open,
    .ask = fresh_ask,
    .close = perf_close,
};
