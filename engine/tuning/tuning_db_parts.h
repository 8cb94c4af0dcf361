/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations that the files of tuning_db share; private to them.
 *
 * Ownership  struct tuning_db owns everything that its members do not mark otherwise
 * Threading  as in tuning_db.h: one thread at a time
 */
#include "engine/db/directory.h"
#include "engine/db/query.h"
#include "engine/tuning/tuning_record.h"

#define TUNING_FILE "tuning.db"
#define TUNING_FILE_NEW "tuning.db.new"           /* incomplete until renamed */
#define TUNING_FILE_SALVAGED "tuning.db.salvaged" /* complete; will replace the damaged file */
#define TUNING_FILE_WHOLE "tuning.db.whole"       /* the damaged file, with its log merged */

enum tuning_statement {
#define TUNING_STATEMENT(name, text) TUNING_##name,
#include "engine/tuning/tuning_statements.def"
#undef TUNING_STATEMENT
    TUNING_STATEMENT_COUNT,
};

enum tuning_tally { TUNING_TALLY_RECORDS = 1, TUNING_TALLY_SYSTEMS = 2 };

struct tuning_amount {
    uint64_t records, bytes;
};
struct tuning_usage {
    uint32_t uid;
    struct tuning_amount kept, pending; /* |kept| is on disk; |pending| includes the change in
                                         * progress */
};

struct tuning_db {
    struct db_directory home;
    char *directory;
    char *path;
    struct db *db;
    struct tuning_row *rows; /* owned; TUNING_ENTRIES_MAX rows of the record being read */
    _Atomic uint64_t records_per_uid, bytes_per_uid; /* any thread may change them */
    struct tuning_usage *usages;
    size_t usage_count, usage_max;
    dev_t device;
    ino_t inode;
    bool changing;
};

/* With |full_sync|, each commit is on disk when it returns. Otherwise, only tuning_file_finish
 * syncs. */
KILN_MUST_CHECK enum kiln_code tuning_file_open(const struct tuning_db *db, const char *name,
                                                bool full_sync, struct db **ret_db,
                                                struct kiln_err *err);
/* Checkpoints the log, removes it and closes the file. Then all of the file is on disk. */
KILN_MUST_CHECK enum kiln_code tuning_file_finish(const struct tuning_db *db, const char *name,
                                                  struct db *file, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_file_check(struct db *file, struct tuning_row *rows,
                                                 struct kiln_err *err);
/* Returns KILN_CORRUPT for damage that SQLite would not notice or would misinterpret. */
KILN_MUST_CHECK enum kiln_code tuning_file_look(const struct tuning_db *db, struct kiln_err *err);

/* Replaces the damaged tuning.db by a new file, but does not open the new file. |why| describes the
 * damage. */
KILN_MUST_CHECK enum kiln_code tuning_salvage(struct tuning_db *db, const char *why,
                                              struct tuning_salvage *ret_salvage,
                                              struct kiln_err *err);

void tuning_bind_place(struct query *q, const struct tuning_place *place); /* binds ?1 to ?6 */
/* Returns false if a value is out of range. */
bool tuning_read_place(const struct query *q, struct tuning_place *ret_place);
/* Adds |count|, which may be negative, to a number of rows that the database stores (tally). */
KILN_MUST_CHECK enum kiln_code tuning_tally_add(struct db *file, enum tuning_tally tally,
                                                int64_t count, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_number(struct db *file, enum tuning_statement statement,
                                             uint64_t *ret_number, struct kiln_err *err);

/* Returns the bytes that a record counts toward its user's limit. */
uint64_t tuning_record_cost(size_t key_and_content, size_t entries);
/* Returns tuning_record_cost of the query's row. Column |column| has the size of key and content,
 * and |column| + 1 the number of entries in two bytes. */
uint64_t tuning_read_cost(const struct query *q, int column);
/* Returns the user's usage, which is borrowed until the next call. The first call for a user counts
 * the user's records. */
KILN_MUST_CHECK enum kiln_code tuning_usage_of(struct tuning_db *db, uint32_t uid,
                                               struct tuning_usage **ret_usage,
                                               struct kiln_err *err);
/* Returns NULL if the user's records were not counted yet. */
struct tuning_usage *tuning_usage_known(const struct tuning_db *db, uint32_t uid);
void tuning_usage_settle(struct tuning_db *db, bool is_committed); /* call at the end of a change */
void tuning_usage_forget(struct tuning_db *db);
