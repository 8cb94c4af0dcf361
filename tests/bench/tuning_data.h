/* SPDX-License-Identifier: MIT */
#pragma once

/* The tuning databases for the benchmarks, and the problems to look up.
 *
 * Role       uses AMD's files for MIOpen if they are in KILN_TEST_DATA (an environment variable;
 *            default set at build time), otherwise makes up files with as many records
 * Ownership  a plain value in shared memory
 * Threading  data_prepare allocates much memory, so call it in a process that exits afterwards */
#include "engine/miopen/names/tuning_file_name.h"
#include "engine/miopen/problem_key.h"
#include "engine/miopen/tuning_file.h"
#include "tests/bench/bench.h"

#define DATA_QUESTIONS 5000u

struct data_question {
    struct problem problem;
    char key[PROBLEM_KEY_MAX];
};

struct tuning_data {
    enum tuning_kind kind;
    char path[BENCH_PATH_MAX]; /* path of the unpacked file, in the work directory */
    char name[64];
    bool genuine;
    uint64_t bytes, records, rows; /* |rows| counts the entries of all records */
    size_t answer_size;            /* mean length of a record's key and value, in bytes */
    size_t question_count;
    struct data_question questions[DATA_QUESTIONS];
};

/* Prepares the FindDb of gfx90a68, with 193 590 records, or the PerfDb of gfx906_60, with 148 096
 * rows. */
KILN_MUST_CHECK enum kiln_code data_prepare(enum tuning_kind kind, const char *work,
                                            struct tuning_data *ret_data, struct kiln_err *err);
/* Write a database of made-up records, as large as AMD's. */
KILN_MUST_CHECK enum kiln_code data_make_find(const char *path, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code data_make_perf(const char *path, struct kiln_err *err);
