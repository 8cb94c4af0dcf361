/* SPDX-License-Identifier: MIT */
#pragma once

#include "engine/tuning/tuning_index.h"

#define RECORDS 300u

struct index_fixture {
    char directory[64], path[96];
    struct digest digest;
    struct kiln_err err;
};

int index_fixture_setup(void **state);
int index_fixture_teardown(void **state);
FIXTURE_OF(index, struct index_fixture, index_fixture_setup, index_fixture_teardown);

/* The record is valid until the next call. */
struct made_record {
    char key[96], value[256];
    uint64_t ids[3];
    struct family_names names;
    struct tuning_index_record record;
};
void make_record(unsigned place, struct made_record *ret);
void write_index(struct index_fixture *f, unsigned count);
struct tuning_index *open_index(struct index_fixture *f);
