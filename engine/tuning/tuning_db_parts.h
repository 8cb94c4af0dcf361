/* SPDX-License-Identifier: MIT */
#pragma once

/* What the files of tuning_db share.  Not for others. */
#include "engine/db/directory.h"
#include "engine/db/query.h"
#include "engine/tuning/tuning_record.h"

#define TUNING_FILE "tuning.db"
#define TUNING_FILE_NEW "tuning.db.new" /* being written; worth nothing until it is renamed */
#define TUNING_FILE_SALVAGED "tuning.db.salvaged" /* complete; the damaged one is about to go */
#define TUNING_FILE_WHOLE "tuning.db.whole"       /* the damaged one with its log, for salvage */

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
struct tuning_usage { /* of one user */
    uint32_t uid;
    struct tuning_amount kept, pending; /* on the disk; with the change under way */
};

struct tuning_db {
    struct db_directory home;
    char *directory;         /* owned */
    char *path;              /* owned; of tuning.db */
    struct db *db;           /* owned; NULL while there is none */
    struct tuning_row *rows; /* owned; TUNING_ENTRIES_MAX, of the record being read */
    _Atomic uint64_t records_per_uid, bytes_per_uid; /* may change at any time */
    struct tuning_usage *usages; /* owned; of those whose records were counted */
    size_t usage_count, usage_max;
    dev_t device; /* of the file that is open */
    ino_t inode;
    bool changing; /* a change is under way */
};

/* Opens |name| of the directory, which is made if absent. */
KILN_MUST_CHECK enum kiln_code tuning_file_open(const struct tuning_db *db, const char *name,
                                                struct db **ret_db, struct kiln_err *err);
/* Copies its log back, closes it; its log is gone and it is on the disk when this returns. */
KILN_MUST_CHECK enum kiln_code tuning_file_finish(const struct tuning_db *db, const char *name,
                                                  struct db *file, struct kiln_err *err);
/* KILN_CORRUPT, saying what, unless all of it is in order. */
KILN_MUST_CHECK enum kiln_code tuning_file_check(struct db *file, struct tuning_row *rows,
                                                 struct kiln_err *err);
/* KILN_CORRUPT where SQLite would not see that file or log are damaged, or take it for something
 * else. */
KILN_MUST_CHECK enum kiln_code tuning_file_look(const struct tuning_db *db, struct kiln_err *err);

/* tuning.db is damaged, |why|: leaves the new one in its place, not opened. */
KILN_MUST_CHECK enum kiln_code tuning_salvage(struct tuning_db *db, const char *why,
                                              struct tuning_salvage *ret_salvage,
                                              struct kiln_err *err);

void tuning_bind_place(struct query *q, const struct tuning_place *place); /* ?1 to ?6 */
/* Columns 0 to 5; false where they are out of range. */
bool tuning_read_place(const struct query *q, struct tuning_place *ret_place);
/* Adds |count| to what the tally says. */
KILN_MUST_CHECK enum kiln_code tuning_tally_add(struct db *file, enum tuning_tally tally,
                                                int64_t count, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code tuning_number(struct db *file, enum tuning_statement statement,
                                             uint64_t *ret_number, struct kiln_err *err);

/* ---- what a user has ---- */

/* What a record counts as. */
uint64_t tuning_record_cost(size_t key_and_content, size_t entries);
/* Of the row in columns |column|, |column| + 1. */
uint64_t tuning_read_cost(const struct query *q, int column);
/* Counts his records when they were not yet; borrowed until the next call. */
KILN_MUST_CHECK enum kiln_code tuning_usage_of(struct tuning_db *db, uint32_t uid,
                                               struct tuning_usage **ret_usage,
                                               struct kiln_err *err);
/* NULL: not counted. */
struct tuning_usage *tuning_usage_known(const struct tuning_db *db, uint32_t uid);
void tuning_usage_settle(struct tuning_db *db, bool is_committed); /* at the end of a change */
void tuning_usage_forget(struct tuning_db *db); /* who knows what is on the disk */
