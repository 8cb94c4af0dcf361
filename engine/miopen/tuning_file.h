/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpen's tuning files: FindDb text (both dialects, system and user), PerfDb text and SQLite.
 *
 * Role       reads files of any origin, which may be damaged, record by record; writes files that
 *            an unmodified MIOpen can read
 * Ownership  a callback may use a record's texts only during the call
 * Threading  one thread at a time
 */
#include "common/miopen/tuning_text.h"

struct tuning_record {
    /* A FindDb key as in the file, or a PerfDb key as in engine/miopen/problem_key.h. */
    struct bytes key;
    /* The record's entries. In SQLite, each row has one entry; the reader joins them in the order
     * of the rows' ids. */
    struct bytes value;
    size_t entry_count;  /* 0 for a config without rows in SQLite */
    uint64_t line;       /* line of a text file, from 1; in SQLite, the config's id */
    const uint64_t *ids; /* in SQLite, perf_db.id of each entry; NULL for a text file */
    size_t id_count;
    struct bytes raw;
};

struct tuning_reader_events {
    /* Receives a valid record.  If |record| returns false, the reader returns KILN_CANCELLED
     * without a message. */
    bool (*record)(void *context, const struct tuning_record *record);
    /* Receives an invalid line or row.  |why| is printable ASCII, without the file's name.  Returns
     * false to stop reading. */
    bool (*bad)(void *context, uint64_t line, const char *why);
    /* |done| and |total| are bytes (text) or rows (SQLite).  May be NULL. */
    void (*progress)(void *context, uint64_t done, uint64_t total);
    void *context;
};

struct perf_db_writer;
/* Creates the file |path|, which must not exist. Schema and indices have exactly the text that
 * MIOpen itself writes. The same records in the same order give the same bytes. */
KILN_MUST_CHECK enum kiln_code perf_db_create(const char *path, struct perf_db_writer **ret_writer,
                                              struct kiln_err *err);
/* Uses only the record's key, value, line and ids.  The key must be a PerfDb key with 21 canonical
 * numbers.  If |line| is 0, or |ids| is NULL, uses the next free ids.  Returns KILN_INVALID if the
 * key or value is invalid, or if the file already has the key; the writer remains usable. */
KILN_MUST_CHECK enum kiln_code perf_db_writer_add(struct perf_db_writer *writer,
                                                  const struct tuning_record *record,
                                                  struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code perf_db_writer_finish(struct perf_db_writer *writer,
                                                     struct kiln_err *err);
void perf_db_writer_destroy(struct perf_db_writer *writer); /* removes an unfinished file */
KILN_DEFINE_AUTO(perf_db_writer)
