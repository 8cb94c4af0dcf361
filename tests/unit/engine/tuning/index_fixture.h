/* SPDX-License-Identifier: MIT */
#pragma once

/* A temporary directory, and an index of generated records in it. */
#include "engine/tuning/tuning_index.h"

#define RECORDS 300u

struct index_fixture {
    char directory[64], path[96];
    struct digest digest;
    struct kiln_err err;
};

int index_fixture_setup(void **state); /* creates the directory */
int index_fixture_teardown(void **state);
FIXTURE_OF(index, struct index_fixture, index_fixture_setup, index_fixture_teardown);

/* The generated record with number |place|. It is valid until the next call. */
struct made_record {
    char key[96], value[256];
    uint64_t ids[3];
    struct family_names names;
    struct tuning_index_record record;
};
void make_record(unsigned place, struct made_record *ret);
/* Writes an index of |count| such records to |f->path|. */
void write_index(struct index_fixture *f, unsigned count);
/* Opens the index, which must succeed. */
struct tuning_index *open_index(struct index_fixture *f);
