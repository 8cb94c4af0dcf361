/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Families of records. If nobody measured a problem, a record of the same family may answer for it.
 *
 * Role       computes the names of a problem's two families, and its position in them (batch size
 *            and volume)
 * Ownership  struct kinship borrows the names from a struct family_names of the caller
 * Threading  pure functions
 *
 * Index files contain the names, so a change of the names needs a new version of the index format.
 */
#include "common/miopen/tuning_text.h"
#include "common/protocol/problem.h"

enum family {
    FAMILY_BATCH,   /* the same problem except for the batch size */
    FAMILY_SPATIAL, /* the same problem except for the batch size and the input's spatial size */
    FAMILIES
};

#define FAMILY_NAME_MAX 136

struct family_names {
    uint8_t bytes[FAMILIES][FAMILY_NAME_MAX];
};

struct kinship {
    struct bytes families[FAMILIES]; /* empty: the problem has no such family */
    uint64_t batch;
    uint64_t volume; /* elements of one channel of the input: d * h * w */
};

/* |p| must be valid (problem_check). The names are stored in |storage|. */
struct kinship kinship_of(const struct problem *p, struct family_names *storage);

/* The result is zeroed if kiln cannot parse the key as a problem. */
struct kinship kinship_of_key(enum tuning_kind kind, struct bytes key,
                              struct family_names *storage);
