/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How many points of solvers' tuning spaces are valid: the counts that were asked for lately.
 *
 * Role       counting walks through a space, and every rank of a job asks the same
 * Ownership  plain values
 * Threading  the engine's thread
 */
#include "engine/solver/candidates.h"

#define VALID_COUNTS 128 /* one of a place; the next of the same place takes it */

struct valid_count {
    const struct solver *solver; /* static; NULL: the place is free */
    struct problem problem;
    struct target target;
    struct candidate_count count;
};

struct valid_counts {
    struct valid_count places[VALID_COUNTS];
};

bool valid_counts_find(const struct valid_counts *counts, const struct solver *solver,
                       const struct problem *problem, const struct target *target,
                       struct candidate_count *ret_count);
void valid_counts_keep(struct valid_counts *counts, const struct valid_count *count);
