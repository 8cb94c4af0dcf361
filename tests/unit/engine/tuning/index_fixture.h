/* SPDX-License-Identifier: MIT */
#pragma once

#include "engine/tuning/tuning_index.h"
#include "tests/support/test.h"

#include <stdio.h>

#define RECORDS 300u

struct index_fixture {
    const char *directory;
    char path[96];
    struct digest digest;
    struct kiln_err err;
};

SET_UP_OF(set_up_index, struct index_fixture)
{
    f->directory = test_directory();
    snprintf(f->path, sizeof(f->path), "%s/find.index", f->directory);
}
FIXTURE_OF(index, struct index_fixture, set_up_index, NULL);

/* |record| points into the other members, so the struct must not be copied. */
struct made_record {
    char key[96], value[256];
    uint64_t ids[3];
    struct family_names names;
    struct tuning_index_record record;
};
void make_record(unsigned place, struct made_record *ret);
void write_index(struct index_fixture *f, unsigned count);
struct tuning_index *open_index(struct index_fixture *f);
