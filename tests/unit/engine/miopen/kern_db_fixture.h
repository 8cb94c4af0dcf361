/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A kernel database of known rows, written by make_kern_db.sh.
 */
#include "tests/support/test.h"

#include "engine/miopen/kern_db.h"

#define PATH_LENGTH_MAX 160
#define OBJECT_LIMIT (1u << 20)

struct row {           /* what was put in */
    char *name, *args; /* owned */
    size_t raw_size;
    bool packed;
};

struct fixture {
    char directory[64];
    char path[PATH_LENGTH_MAX]; /* of the database */
    struct row *rows;           /* owned */
    size_t count;
    struct kern_db *db; /* owned */
    struct kiln_err err;
};

int fixture_setup(void **state); /* an empty directory */
int fixture_teardown(void **state);
FIXTURE(kern_db, fixture_setup, fixture_teardown);

void add_row(struct fixture *f, const char *name, const char *args, size_t raw_size, bool packed);
/* |count| rows like MIOpen's: leading and double blanks, quotes, arguments of up to 2 KB, keys that
 * differ in one bit, some objects stored raw. */
void add_rows(struct fixture *f, size_t count);
/* The rows of a genuine file; false, loudly, when the data is not there. */
bool add_genuine_rows(struct fixture *f);
/* Writes them; each of |pragmas| and |index| may be NULL. */
void write_rows(struct fixture *f, const char *pragmas, const char *index);
/* A command of the shell in the directory must succeed. */
void run(struct fixture *f, const char *format, ...) KILN_PRINTF(2, 3);
/* Its first line of output, as a static text. */
const char *output_of(struct fixture *f, const char *format, ...) KILN_PRINTF(2, 3);

/* The code object of row |at|; the buffer is the caller's. */
struct buffer object_of(const struct fixture *f, size_t at);

void open_db(struct fixture *f, enum kern_db_mode mode);
void close_db(struct fixture *f);
/* KILN_OK only if the object is the one of row |at|; fails the test when it is another one. */
enum kiln_code find_row(struct fixture *f, size_t at, bool *ret_damaged);
void assert_all_found(struct fixture *f);

struct listing { /* what kern_db_each gave */
    struct fixture *f;
    uint64_t latest;
    size_t given, good; /* rows; those that also unpack to the right object */
    size_t stop_after;  /* 0: never */
    uint64_t lost;
};
/* Each row given must be one that was put in, whole, and ids must rise. */
struct listing list_rows(struct fixture *f, uint64_t after, uint64_t count);
