/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Cache of the number of valid points in solvers' tuning spaces.
 *
 * Role       counting walks through a space, and every rank of a job asks for the same count
 * Ownership  plain values
 * Threading  the engine's thread
 */
#include "engine/solver/candidates.h"

#define VALID_COUNTS \
    128 /* one count for each place; a new count replaces the old one in its place */

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
