/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The table perf_db of a PerfDb, in memory and in the order of its configs.
 *
 * Role       avoids a scan of the table for each config: its only index begins with the solver, so
 *            SQLite cannot search by config. Here the table is read once and sorted
 * Ownership  owns its rows and their texts
 * Threading  one thread at a time
 */
#include "engine/db/db.h"
#include "engine/miopen/tuning_file.h"

struct perf_db_row {
    int64_t id, config;
    uint64_t offset; /* of "solver:params" in the texts */
    uint32_t solver_size, params_size;
};

struct perf_db_rows {
    struct perf_db_row *rows; /* owned; by config, then id */
    size_t count, capacity;
    struct buffer texts;
    uint64_t file_size;
};

/* Reads the good rows and reports the others to |events->bad|. |like| states how to open the file.
 * KILN_CANCELLED without a message if |events->bad| returns false. */
KILN_MUST_CHECK enum kiln_code perf_db_rows_read(const struct db_options *like,
                                                 const struct tuning_reader_events *events,
                                                 struct perf_db_rows *ret_rows,
                                                 struct kiln_err *err);
void perf_db_rows_done(struct perf_db_rows *rows);
#define PERF_DB_ROWS_AUTO __attribute__((cleanup(perf_db_rows_done)))
struct bytes perf_db_row_solver(const struct perf_db_rows *rows, const struct perf_db_row *row);
struct bytes perf_db_row_params(const struct perf_db_rows *rows, const struct perf_db_row *row);
/* No genuine table has more rows than this. Pages of a crafted file may form rings or be shared,
 * and would yield rows forever. */
uint64_t perf_db_rows_max(uint64_t file_size);
