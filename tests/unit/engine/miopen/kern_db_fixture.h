/* SPDX-License-Identifier: MIT */
#pragma once

/* A kernel database with known rows, which make_kern_db.sh writes. */
#include "tests/support/shell.h"
#include "tests/support/test.h"

#include "engine/miopen/kern_db.h"

#define PATH_LENGTH_MAX 160
#define OBJECT_LIMIT (1u << 20)

struct row {
    char *name, *args; /* owned */
    size_t raw_size;
    bool packed;
};

struct fixture {
    const char *directory;
    char path[PATH_LENGTH_MAX];
    struct row *rows; /* owned */
    size_t count;
    struct kern_db *db; /* owned */
    struct kiln_err err;
};

void open_rows(struct fixture *f); /* Makes the fixture without rows, in an empty directory. */
SET_UP(set_up_rows) { open_rows(f); }
FIXTURE(kern_db, set_up_rows, NULL);

void add_row(struct fixture *f, const char *name, const char *args, size_t raw_size, bool packed);
/* Adds |count| rows like MIOpen's: some have leading or double blanks, quotes, arguments of up
 * to 2 KB, or keys that differ in one bit. Some objects are stored uncompressed. */
void add_rows(struct fixture *f, size_t count);
/* Genuine rows of MIOpen (tests/support/test_data.h). add_genuine_rows skips the test if the
 * file is missing. */
#define GENUINE_ROWS "mio-kernels-gfx906_60.tsv.gz"
void add_genuine_rows(struct fixture *f);
/* |pragmas| and |index| may be NULL. */
void write_rows(struct fixture *f, const char *pragmas, const char *index);

/* The caller frees the code object. */
struct buffer object_of(const struct fixture *f, size_t at);

void open_db(struct fixture *f);
void close_db(struct fixture *f);
/* Looks up row |at|. Fails the test if the object that is found is not that row's. */
enum kiln_code find_row(struct fixture *f, size_t at, bool *ret_damaged);
void assert_all_found(struct fixture *f);

struct listing {
    struct fixture *f;
    uint64_t latest;
    /* number of listed rows; how many of them unpack to the right object */
    size_t given, good;
    size_t stop_after; /* 0 means never */
    enum kiln_code rc;
};
/* Lists up to |count| rows after id |after|. Each must be complete and one of the test's rows,
 * and the ids must increase. */
struct listing list_rows(struct fixture *f, uint64_t after, uint64_t count);
