/* SPDX-License-Identifier: MIT */
#include "engine/miopen/perf_db_rows.h"
#include "engine/miopen/tuning_reader.h"

#include "common/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define ROW_MIN 6u
#define RUN_MAX 16384u

static const char *const columns[] = { "id", "solver", "config", "params" };
static const struct db_table table = { "perf_db", columns, sizeof(columns) / sizeof(columns[0]) };

enum { ID, SOLVER, CONFIG, PARAMS, WRONG };
static const char *const statement =
    "select id, solver, config, params, case when typeof(id) <> 'integer' then 'id'"
    " when typeof(solver) <> 'text' then 'solver' when typeof(config) <> 'integer' then 'config'"
    " when typeof(params) <> 'text' then 'params' else '' end from perf_db";

uint64_t perf_db_rows_max(uint64_t file_size) { return file_size / ROW_MIN; }

static void end_reading(struct perf_db_rows *rows)
{
    if (!rows->db)
        return;
    query_done(&rows->query);
    db_destroy(rows->db);
    rows->db = NULL;
}

void perf_db_rows_done(struct perf_db_rows *rows)
{
    end_reading(rows);
    sorted_runs_done(&rows->rows);
    buffer_done(&rows->texts);
    *rows = (struct perf_db_rows){ .file_size = 0 };
}

uint64_t perf_db_rows_bytes(const struct perf_db_rows *rows)
{
    return rows->rows.max * sizeof(struct perf_db_row) + rows->texts.size;
}

struct bytes perf_db_row_solver(const struct perf_db_rows *rows, const struct perf_db_row *row)
{
    return bytes_of(rows->texts.data + row->offset, row->solver_size);
}

struct bytes perf_db_row_params(const struct perf_db_rows *rows, const struct perf_db_row *row)
{
    return bytes_of(rows->texts.data + row->offset + row->solver_size + 1, row->params_size);
}

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

static enum kiln_code fail_memory(struct kiln_err *err)
{
    return kiln_fail(err, KILN_NO_MEMORY, "no memory to read a PerfDb");
}

static enum kiln_code add_row(struct perf_db_rows *rows, struct kiln_err *err)
{
    const struct query *q = &rows->query;
    struct perf_db_row row = { .id = query_i64(q, ID),
                               .config = query_i64(q, CONFIG),
                               .offset = rows->texts.size };
    const char *wrong = query_text(q, WRONG);
    if (*wrong)
        return kiln_fail(err, KILN_INVALID, "its %s has the wrong type", wrong);
    if (row.id < 1 || row.id <= rows->latest)
        return kiln_fail(err, KILN_INVALID, "its id %lld is out of order", (long long)row.id);
    rows->latest = row.id;
    struct bytes solver = query_bytes(q, SOLVER), params = query_bytes(q, PARAMS);
    enum kiln_code rc = put_texts(&rows->texts, solver, params, err);
    if (rc)
        return rc;
    row.solver_size = (uint32_t)solver.size;
    row.params_size = (uint32_t)params.size;
    return sorted_runs_add(&rows->rows, &row) ? KILN_OK : fail_memory(err);
}

static enum kiln_code read_row(struct perf_db_rows *rows, const struct tuning_reader_events *events,
                               struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    char text[240];
    enum kiln_code rc = add_row(rows, &why);
    if (rc && rc != KILN_INVALID)
        *err = why;
    if (rc != KILN_INVALID)
        return rc;
    snprintf(text, sizeof(text), "row of perf_db: %.200s", why.text);
    return events->bad(events->context, query_u64(&rows->query, ID), text) ? KILN_OK
                                                                           : KILN_CANCELLED;
}

static enum kiln_code read_some(struct perf_db_rows *rows,
                                const struct tuning_reader_events *events, uint64_t end_ns,
                                bool *ret_more, struct kiln_err *err)
{
    size_t first = rows->rows.count, texts = rows->texts.size;
    for (*ret_more = true;;) {
        enum kiln_code rc = query_step(&rows->query, ret_more, err);
        if (rc || !*ret_more)
            return rc;
        if (rows->left-- == 0)
            return kiln_fail(err, KILN_CORRUPT,
                             "perf_db has more rows than fit into the file: it is damaged");
        rc = read_row(rows, events, err);
        if (rc || rows->rows.count - first >= RUN_MAX ||
            rows->texts.size - texts >= TUNING_READ_BYTES || clock_monotonic_ns() >= end_ns)
            return rc;
    }
}

static int by_config(const void *a, const void *b, void *context)
{
    const struct perf_db_row *left = a, *right = b;
    int order = (left->config > right->config) - (left->config < right->config);
    (void)context;
    return order ? order : (left->id > right->id) - (left->id < right->id);
}

enum kiln_code perf_db_rows_step(struct perf_db_rows *rows,
                                 const struct tuning_reader_events *events, uint64_t end_ns,
                                 bool *ret_more, struct kiln_err *err)
{
    enum kiln_code rc = read_some(rows, events, end_ns, ret_more, err);
    if (!rc && !sorted_runs_end_run(&rows->rows, /* context= */ NULL))
        rc = fail_memory(err);
    if (rc || *ret_more)
        return rc;
    end_reading(rows);
    sorted_runs_merge(&rows->rows, /* context= */ NULL);
    return KILN_OK;
}

enum kiln_code perf_db_rows_open(const struct db_options *like, struct perf_db_rows *rows,
                                 struct kiln_err *err)
{
    struct db_options options = *like;
    struct stat seen;
    options.table = &table;
    options.statements = &statement;
    if (stat(like->path, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot read '%s'", like->path);
    rows->file_size = (uint64_t)seen.st_size;
    rows->left = perf_db_rows_max(rows->file_size);
    rows->rows.item_size = sizeof(struct perf_db_row);
    rows->rows.compare = by_config;
    buffer_init(&rows->texts, rows->file_size);
    enum kiln_code rc = db_open(&options, &rows->db, err);
    if (!rc)
        rows->query = query_of(rows->db, 0);
    return rc;
}

const struct perf_db_row *perf_db_rows_peek(const struct perf_db_rows *rows)
{
    return sorted_runs_peek(&rows->rows);
}

void perf_db_rows_pop(struct perf_db_rows *rows)
{
    sorted_runs_pop(&rows->rows, /* context= */ NULL);
}
