/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The measured tuning databases, and the problems that are looked up in them.
 *
 * Role       uses MIOpen's genuine files if KILN_TEST_DATA (or the directory set at build time) has
 *            them, otherwise made-up files with as many records
 * Ownership  a plain value in shared memory
 * Threading  one process calls data_prepare, and should exit afterwards
 */
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
    char path[BENCH_PATH_MAX]; /* the unpacked file, below the work directory */
    char name[64];
    bool genuine;
    uint64_t bytes, records, rows; /* |rows| is the number of entries in all records */
    size_t answer_size;            /* mean bytes of a record's key and value */
    size_t question_count;
    struct data_question questions[DATA_QUESTIONS];
};

/* Prepares gfx90a68's FindDb with 193 590 records, or gfx906_60's PerfDb with 148 096 rows. */
KILN_MUST_CHECK enum kiln_code data_prepare(enum tuning_kind kind, const char *work,
                                            struct tuning_data *ret_data, struct kiln_err *err);
/* Make a database with made-up records, as large as the genuine one. */
KILN_MUST_CHECK enum kiln_code data_make_find(const char *path, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code data_make_perf(const char *path, struct kiln_err *err);
