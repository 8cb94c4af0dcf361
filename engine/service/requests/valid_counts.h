/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A cache of the number of valid configs in solvers' tuning spaces.
 *
 * Role       saves time: to count, kilnd must walk through a tuning space, and every rank of a job
 *            asks for the same number
 * Ownership  copies what it stores
 * Threading  the engine's thread
 */
#include "engine/solver/candidates.h"

struct valid_counts;

struct valid_count {
    const struct solver *solver;
    struct problem problem;
    struct target target;
    struct candidate_count count;
};

KILN_MUST_CHECK enum kiln_code valid_counts_create(struct valid_counts **ret_counts,
                                                   struct kiln_err *err);
void valid_counts_destroy(struct valid_counts *counts);

bool valid_counts_find(const struct valid_counts *counts, const struct solver *solver,
                       const struct problem *problem, const struct target *target,
                       struct candidate_count *ret_count);
void valid_counts_keep(struct valid_counts *counts, const struct valid_count *count);
