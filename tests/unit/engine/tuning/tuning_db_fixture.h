/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/test.h"

#include "engine/tuning/tuning_db.h"

#include <string.h>

struct fixture {
    const char *directory;
    char file[160];
    uint64_t records_per_uid; /* for the next opening */
    uint64_t bytes_per_uid;   /* for the next opening */
    struct tuning_db *db;     /* owned; NULL while closed */
    struct tuning_salvage salvage;
    struct kiln_err err;
};

void open_tuning_db(struct fixture *f);
SET_UP(set_up_tuning_db) { open_tuning_db(f); }
FIXTURE(tuning_db, set_up_tuning_db, NULL);
void close_db(struct fixture *f);
enum kiln_code reopen(struct fixture *f);

/* errno with which libc's pwrite and fdatasync fail. With 0 they succeed, without a sync. */
extern int write_fails_with;
extern int sync_fails_with;

/* Writes the key of record |number| into |key|. The returned place borrows the key. */
struct tuning_place place_of(unsigned number, char key[64]);
/* Adds content |version| of record |number| to the change. Version 0 removes the record. */
enum kiln_code change_one(struct tuning_change *change, unsigned number, unsigned version,
                          struct kiln_err *err);
/* Puts record |number| in a separate change. */
enum kiln_code put(struct fixture *f, unsigned number, unsigned version);

/* Calls |each| for every record, with version 0 if put did not write the record. Returns the number
 * of records. Fails the test if the rows cannot be read. */
unsigned each_found(struct fixture *f,
                    void (*each)(void *context, unsigned number, unsigned version), void *context);
unsigned count_found(struct fixture *f);
/* Returns 0 if the record is absent. */
unsigned version_of(struct fixture *f, unsigned number);
unsigned files(struct fixture *f, const char *prefix);
