/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The table perf_db of a PerfDb, in memory and in the order of its configs.
 *
 * Role       reads the table once, in short steps, and sorts it. SQLite would have to scan the
 *            table for each config, because its only index begins with the solver
 * Ownership  owns its connection, its rows and their texts
 * Threading  one thread at a time
 */
#include "common/base/sorted_runs.h"
#include "engine/db/query.h"
#include "engine/miopen/tuning_file.h"

struct perf_db_row {
    int64_t id, config;
    uint64_t offset; /* where "solver:params" begins in |texts| */
    uint32_t solver_size, params_size;
};

struct perf_db_rows {        /* a zeroed struct has no rows */
    struct sorted_runs rows; /* sorted by config, then by id */
    struct buffer texts;
    uint64_t file_size;
    struct db *db; /* owned; NULL once all rows were read */
    struct query query;
    uint64_t left; /* how many more rows a file of this size can have; if it has more, the file is
                    * damaged */
    int64_t latest;
};

KILN_MUST_CHECK enum kiln_code perf_db_rows_open(const struct db_options *like,
                                                 struct perf_db_rows *rows, struct kiln_err *err);
/* Reads rows until |end_ns|, but at least one.  Keeps valid rows, and reports the others to
 * |events->bad|.  Returns KILN_CANCELLED without a message if |events->bad| returns false. */
KILN_MUST_CHECK enum kiln_code perf_db_rows_step(struct perf_db_rows *rows,
                                                 const struct tuning_reader_events *events,
                                                 uint64_t end_ns, bool *ret_more,
                                                 struct kiln_err *err);
void perf_db_rows_done(struct perf_db_rows *rows);
uint64_t perf_db_rows_bytes(const struct perf_db_rows *rows);
/* Returns the first row in the order of configs, or NULL; valid until perf_db_rows_pop. */
const struct perf_db_row *perf_db_rows_peek(const struct perf_db_rows *rows);
void perf_db_rows_pop(struct perf_db_rows *rows);
struct bytes perf_db_row_solver(const struct perf_db_rows *rows, const struct perf_db_row *row);
struct bytes perf_db_row_params(const struct perf_db_rows *rows, const struct perf_db_row *row);
/* Returns the maximum number of rows that a table in a file of |file_size| bytes can have. Without
 * this limit, a crafted file whose pages form a ring would yield rows forever. */
uint64_t perf_db_rows_max(uint64_t file_size);
