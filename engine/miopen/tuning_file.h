/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpen's tuning files: FindDb text (both dialects, system and user), PerfDb text and SQLite.
 *
 * Role       reads files that anybody may have written or damaged, record by record; writes ones
 *            that an unmodified MIOpen reads
 * Ownership  records borrow for the call
 * Threading  one thread at a time
 */
#include "common/tuning_text.h"
#include "engine/miopen/database_id.h"

enum tuning_format { TUNING_TEXT, TUNING_SQLITE };

/* What a file's name tells, which is all that MIOpen goes by:
 *   gfx90a68.HIP.fdb.txt, gfx906_60.HIP.2_17_0_a82233c22.ufdb.txt, gfx906_60.db,
 *   gfx906_60_1.1.0.udb, gfx906_60.db.txt, gfx906_60_1.1.0.udb.txt, gfx906_60.cd.pdb.txt,
 * each with .bz2 behind or not; and kiln's own, of devices that MIOpen knows nothing of:
 *   sm_90_132.CUDA.fdb.txt, opencl_1a2b3c4d.OpenCL.fdb.txt, sm_90_132_1.1.0.udb
 * KILN_INVALID, saying whether ending, backend or device is not known, or the backend is none of
 * the device's. */
struct tuning_file_name {
    enum tuning_kind kind;
    enum tuning_format format;
    char database_id[DATABASE_ID_MAX];
    char backend[16]; /* "HIP", "CUDA", "OpenCL"; "" for PerfDb */
    char version[40]; /* of user files: "2_17_0_a82233c22", "1.1.0"; else "" */
    bool is_user;
};
KILN_MUST_CHECK enum kiln_code tuning_file_name_parse(const char *name,
                                                      struct tuning_file_name *ret_name,
                                                      struct kiln_err *err);
/* Whether an MIOpen would look for it: its device is one of AMD's. */
bool tuning_file_name_is_miopens(const struct tuning_file_name *name);
/* MIOpen's name for a file of these properties; of .pdb.txt the newer .db.txt. */
void tuning_file_name_write(const struct tuning_file_name *name, char text[128]);

struct tuning_record {
    struct bytes key;    /* FindDb: verbatim; PerfDb: as engine/miopen/problem_key.h */
    struct bytes value;  /* verbatim; of SQLite joined from its rows in order of their ids */
    size_t entry_count;  /* of SQLite 0 too: a config without rows */
    uint64_t line;       /* of text, from 1; of SQLite the config's id */
    const uint64_t *ids; /* of SQLite: perf_db.id of each entry; else NULL */
    size_t id_count;
    struct bytes raw; /* of text: the whole line without its '\n' */
};

struct tuning_reader_events {
    /* A record with a valid key and valid entries. Returns false to stop reading (KILN_CANCELLED
     * without a message). */
    bool (*record)(void *context, const struct tuning_record *record);
    /* An invalid line or row: |why| is one message without the file's name (printable ASCII).
     * Returns false to stop. */
    bool (*bad)(void *context, uint64_t line, const char *why);
    /* Now and then, and at the end: bytes (text) or rows (SQLite) done of all.  May be NULL. */
    void (*progress)(void *context, uint64_t done, uint64_t total);
    void *context;
};

/* |text| is the whole file, unpacked.  As MIOpen: blank lines are skipped, a key ends at the first
 * '=', the first of two equal keys counts (the second is |bad|), so does the first of two equal ids
 * (the second is |bad|, and not in |value|).  A byte order mark, a '\r' before '\n' and a last line
 * without '\n' are accepted; |raw| holds the first two.  The text is read once, front to back. */
KILN_MUST_CHECK enum kiln_code tuning_text_read(enum tuning_kind kind, struct bytes text,
                                                const struct tuning_reader_events *events,
                                                struct kiln_err *err);
/* A PerfDb of MIOpen's schema 1.1.0, opened as a foreign file, immutable.  Records come by config
 * id, entries by perf_db id, both at least 1.  Rows that are bad are told with their own id, |why|
 * names their table.  KILN_CORRUPT names what is no such database: a table or column that is
 * missing. */
KILN_MUST_CHECK enum kiln_code perf_db_read(const char *path,
                                            const struct tuning_reader_events *events,
                                            struct kiln_err *err);

/* A new SQLite PerfDb at |path|, which must not exist: MIOpen's schema and indices, letter by
 * letter as its own classes make them (AMD's files, written by other tools, differ in blanks).  The
 * same records in the same order give the same bytes. */
struct perf_db_writer;
KILN_MUST_CHECK enum kiln_code perf_db_create(const char *path, struct perf_db_writer **ret_writer,
                                              struct kiln_err *err);
/* Reads |record|'s key, value, line and ids. The key must be a PerfDb key with 21 canonical
 * numbers; convert a FindDb key first. With line 0, or without ids, the next free ids are used.
 * KILN_INVALID: the key or value is not valid, or exists already; nothing is written then, and the
 * writer can be used further. */
KILN_MUST_CHECK enum kiln_code perf_db_writer_add(struct perf_db_writer *writer,
                                                  const struct tuning_record *record,
                                                  struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code perf_db_writer_finish(struct perf_db_writer *writer,
                                                     struct kiln_err *err);
void perf_db_writer_destroy(struct perf_db_writer *writer); /* removes an unfinished file */
KILN_DEFINE_AUTO(perf_db_writer)
