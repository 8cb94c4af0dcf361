/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which records may answer for a problem that nobody measured: those of the same family.
 *
 * Role       names the two families of a problem, and its place in them; tuning_index and
 *            tuning_table find a family's records by its name
 * Ownership  struct kinship borrows the names from a struct family_names of the caller
 * Threading  pure functions
 *
 * A family's name is for comparing only: a byte that tells the families apart, then the problem's
 * fields without those that may differ.  Text and index agree on it as long as the index's version
 * is the same.
 */
#include "common/problem.h"
#include "common/tuning_text.h"

enum family {
    FAMILY_BATCH,   /* all but the batch size is the same */
    FAMILY_SPATIAL, /* all but the batch size and the spatial size of the input */
    FAMILIES
};

#define FAMILY_NAME_MAX 128

struct family_names {
    uint8_t bytes[FAMILIES][FAMILY_NAME_MAX];
};

struct kinship {
    struct bytes families[FAMILIES]; /* names; empty: it has no relatives of this kind */
    uint64_t batch;                  /* size */
    uint64_t volume;                 /* of one channel of the input: d * h * w */
};

/* Valid problems only (problem_check). */
struct kinship kinship_of(const struct problem *p, struct family_names *storage);

/* Of what a key of either database names; zeroed when it is no problem of ours. */
struct kinship kinship_of_key(enum tuning_kind kind, struct bytes key,
                              struct family_names *storage);
