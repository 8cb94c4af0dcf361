/* SPDX-License-Identifier: MIT */
#include "engine/miopen/perf_db_rows.h"

#include "common/array.h"
#include "engine/db/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define ROW_MIN 6u /* bytes of the shortest row with its pointer in the page */

static const char *const columns[] = { "id", "solver", "config", "params" };
static const struct db_table table = { "perf_db", columns, sizeof(columns) / sizeof(columns[0]) };

enum { ID, SOLVER, CONFIG, PARAMS, WRONG };
static const char *const statement =
    "select id, solver, config, params, case when typeof(id) <> 'integer' then 'id'"
    " when typeof(solver) <> 'text' then 'solver' when typeof(config) <> 'integer' then 'config'"
    " when typeof(params) <> 'text' then 'params' else '' end from perf_db";

uint64_t perf_db_rows_max(uint64_t file_size) { return file_size / ROW_MIN; }

void perf_db_rows_done(struct perf_db_rows *rows)
{
    free(rows->rows);
    buffer_done(&rows->texts);
    *rows = (struct perf_db_rows){ .count = 0 };
}

struct bytes perf_db_row_solver(const struct perf_db_rows *rows, const struct perf_db_row *row)
{
    return bytes_of(rows->texts.data + row->offset, row->solver_size);
}

struct bytes perf_db_row_params(const struct perf_db_rows *rows, const struct perf_db_row *row)
{
    return bytes_of(rows->texts.data + row->offset + row->solver_size + 1, row->params_size);
}

/* Appends "solver:params"; on failure, nothing. */
static enum kiln_code put_texts(struct buffer *texts, struct bytes solver, struct bytes params,
                                struct kiln_err *err)
{
    struct tuning_entry e;
    size_t start = texts->size;
    if (solver.size + 1 + params.size > TUNING_VALUE_MAX)
        return kiln_fail(err, KILN_INVALID, "its texts have more than %u bytes", TUNING_VALUE_MAX);
    buffer_put(texts, solver.data, solver.size);
    buffer_put_u8(texts, ':');
    buffer_put(texts, params.data, params.size);
    if (texts->failed)
        return kiln_fail(err, KILN_CORRUPT,
                         "the rows of perf_db are longer than the file: it is damaged");
    struct bytes entry = bytes_of(texts->data + start, texts->size - start);
    enum kiln_code rc = tuning_entry_next(TUNING_PERF, &entry, &e, err);
    if (!rc && (entry.size || e.id.size != solver.size))
        rc = kiln_fail(err, KILN_INVALID, "its texts contain ';' or ':'");
    if (rc)
        texts->size = start;
    return rc;
}

/* Adds the current row of |q|. KILN_INVALID: the row is bad; the message says why. */
static enum kiln_code add_row(struct perf_db_rows *rows, const struct query *q, int64_t *latest,
                              struct kiln_err *err)
{
    struct perf_db_row row = { .id = query_i64(q, ID),
                               .config = query_i64(q, CONFIG),
                               .offset = rows->texts.size };
    const char *wrong = query_text(q, WRONG);
    if (*wrong)
        return kiln_fail(err, KILN_INVALID, "its %s has the wrong type", wrong);
    if (row.id < 1 || row.id <= *latest)
        return kiln_fail(err, KILN_INVALID, "its id %lld is out of order", (long long)row.id);
    *latest = row.id;
    struct bytes solver = query_bytes(q, SOLVER), params = query_bytes(q, PARAMS);
    enum kiln_code rc = put_texts(&rows->texts, solver, params, err);
    if (!rc && !ARRAY_RESERVE(rows->rows, rows->count, rows->capacity, 1024))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory to read a PerfDb");
    if (rc)
        return rc;
    row.solver_size = (uint32_t)solver.size;
    row.params_size = (uint32_t)params.size;
    rows->rows[rows->count++] = row;
    return KILN_OK;
}

static enum kiln_code read_row(struct perf_db_rows *rows, const struct query *q, int64_t *latest,
                               const struct tuning_reader_events *events, struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    char text[240];
    enum kiln_code rc = add_row(rows, q, latest, &why);
    if (rc && rc != KILN_INVALID)
        *err = why;
    if (rc != KILN_INVALID)
        return rc;
    snprintf(text, sizeof(text), "row of perf_db: %.200s", why.text);
    return events->bad(events->context, query_u64(q, ID), text) ? KILN_OK : KILN_CANCELLED;
}

static enum kiln_code read_rows(struct perf_db_rows *rows, struct db *db,
                                const struct tuning_reader_events *events, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, 0);
    uint64_t left = perf_db_rows_max(rows->file_size);
    int64_t latest = 0;
    for (;;) {
        bool row = false;
        enum kiln_code rc = query_step(&q, &row, err);
        if (rc || !row)
            return rc;
        if (left-- == 0)
            return kiln_fail(err, KILN_CORRUPT,
                             "perf_db has more rows than fit into the file: it is damaged");
        rc = read_row(rows, &q, &latest, events, err);
        if (rc)
            return rc;
    }
}

static int by_config(const void *a, const void *b)
{
    const struct perf_db_row *left = a, *right = b;
    int order = (left->config > right->config) - (left->config < right->config);
    return order ? order : (left->id > right->id) - (left->id < right->id);
}

enum kiln_code perf_db_rows_read(const struct db_options *like,
                                 const struct tuning_reader_events *events,
                                 struct perf_db_rows *ret_rows, struct kiln_err *err)
{
    KILN_AUTO(db) struct db *db = NULL;
    PERF_DB_ROWS_AUTO struct perf_db_rows rows = { .count = 0 };
    struct db_options options = *like;
    struct stat seen;
    options.table = &table;
    options.statements = &statement;
    if (stat(like->path, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot read '%s'", like->path);
    rows.file_size = (uint64_t)seen.st_size;
    buffer_init(&rows.texts, rows.file_size);
    enum kiln_code rc = db_open(&options, &db, err);
    if (!rc)
        rc = read_rows(&rows, db, events, err);
    if (rc)
        return rc;
    if (rows.count)
        qsort(rows.rows, rows.count, sizeof(*rows.rows), by_config);
    *ret_rows = rows;
    rows = (struct perf_db_rows){ .count = 0 };
    return KILN_OK;
}
