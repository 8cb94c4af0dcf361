/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files that read kernel databases. Not for other directories.
 *
 * Threading  one thread at a time for each kern_db
 */
#include "common/protocol/limits.h"
#include "engine/db/query.h"
#include "engine/miopen/kern_db.h"
#include "engine/miopen/kern_db_salvage.h"

/* Limit for names, arguments and hashes. MIOpen's longest arguments have 2107 bytes. */
#define KERN_DB_TEXT_MAX LIMIT_NAMED_TEXT

enum kern_db_statement {
#define KERN_DB_STATEMENT(name, text) KERN_DB_##name,
#include "engine/miopen/kern_db_statements.def"
#undef KERN_DB_STATEMENT
    KERN_DB_STATEMENT_COUNT
};

struct kern_db {
    char *path;       /* owned; as the caller names the file */
    int fd;           /* owned; the file, or the copy of a live one */
    uint64_t size;    /* of the file, bytes */
    struct db *db;    /* owned; NULL: SQLite cannot open the file, so only |salvage| reads it */
    bool indexed;     /* the file has an index by name and arguments */
    bool log_damaged; /* the write-ahead log of a live file was damaged */
    bool compared;    /* the numbers of rows in index and table were compared */
    struct kern_salvage *salvage; /* owned; NULL until damage is found */
    bool is_searching;            /* the search of |salvage| is not over */
    struct kiln_err damage;       /* why SQLite cannot open the file */
    uint64_t listed;              /* bytes of all rows that this listing has listed */
};

/* Searches a damaged file for rows, for one step of kern_salvage_search. Sets |db->is_searching|.
 * KILN_CORRUPT: nothing in the file can be read. */
KILN_MUST_CHECK enum kiln_code kern_db_search(struct kern_db *db, uint64_t end_ns,
                                              struct kiln_err *err);
/* The current row of |q|, a ROW or NEXT statement. The row borrows from |q|. */
struct kern_row kern_db_row(const struct query *q);
/* False if a text is longer than in any genuine file. */
bool kern_row_is_sane(const struct kern_row *row);
