/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Candidates: the points of a tuning space in the order in which they are tried.
 *
 * Role       numbers the points of a space in an order that looks random.  Every process computes
 *            the same order from the solver's name and the sizes of the space's parts
 * Ownership  plain values
 * Threading  pure functions
 *
 * Successive candidates come from the space's parts in turn, until the smaller parts are used up.
 * Within a part, the order looks random.  Jobs measure shares of the candidates
 * (engine/tuning/lease.h).  All shares have about the same size and are similar samples of the
 * space, so jobs take about equally long.
 *
 * Points that the solver calls invalid are candidates, too.  The caller skips them when it reaches
 * them, so finding candidate n costs the same for every n.
 */
#include "engine/solver/solver.h"

#define CANDIDATES_MAX (1u << 20)

struct candidate_part {
    uint32_t first;
    uint32_t count;
    unsigned left_bits, right_bits;
    uint64_t seed;
};

struct candidate_order {
    uint32_t count; /* 0: nothing to tune */
    uint32_t part_count;
    struct candidate_part parts[PERF_PARTS_MAX]; /* smallest first */
};

struct candidate_order candidate_order_of(const char *solver, const struct perf_space *space);
/* Returns the number of the candidate's point, for perf_space_at. */
uint32_t candidate_point(const struct candidate_order *order, uint32_t index);

struct candidate_count {
    uint32_t valid;
    /* Only a sample of the points was checked. */
    bool is_estimate;
};
/* Counts the points that are valid for the problem.  In a space of more than 2048 points, only the
 * first 2048 candidates are checked, which come from all parts.  The result is at least 1, because
 * the config that the solver itself chooses is valid. */
struct candidate_count candidates_count_valid(const struct solver *solver,
                                              const struct problem *problem,
                                              const struct target *target);
