/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files that read kernel databases. Not for other directories.
 */
#include "engine/db/query.h"
#include "engine/miopen/kern_db.h"
#include "engine/miopen/kern_db_salvage.h"

/* Names, arguments and hashes.  MIOpen's longest arguments have 2107 bytes. */
#define KERN_DB_TEXT_MAX (64u << 10)

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
    struct db *db;    /* owned; NULL: SQLite does not take the file, only |salvage| reads it */
    bool indexed;     /* by name and arguments */
    bool log_damaged; /* of a live file */
    bool compared;    /* index and table have been counted */
    struct kern_salvage *salvage; /* owned; NULL as long as no damage has been met */
    uint64_t listed;              /* bytes of the rows given out since the first */
};

/* The row that |q|, a ROW or a NEXT, stands on; borrowed from it. */
struct kern_row kern_db_row(const struct query *q);
/* False when a text is longer than any honest one. */
bool kern_row_is_sane(const struct kern_row *row);
