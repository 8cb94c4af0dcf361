/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Candidates: the points of a tuning space in the order in which they are tried.
 *
 * Role       candidate 0, 1, 2 ... is each point of the space once, in an order that looks random
 *            and that everybody computes alike from the solver's name and the sizes of the space's
 *            parts.  The parts take turns until the smaller ones are used up, so that each has its
 *            share of the first candidates, however few of all points it has.  Any range of one
 *            part is a fair sample of it, and what ranks share out by ranges
 *            (engine/tuning/lease.h) takes them all about as long
 * Ownership  plain values
 * Threading  pure functions
 *
 * Points that the solver calls invalid are candidates, too: they are told apart when their turn
 * comes, so that finding candidate n costs the same whatever n is.
 */
#include "engine/solver/solver.h"

/* Points of one solver's space, at most: what a lease can share out. */
#define CANDIDATES_MAX (1u << 20)

struct candidate_part {
    uint32_t first; /* of its points, in the space */
    uint32_t count;
    unsigned left_bits, right_bits;
    uint64_t seed;
};

struct candidate_order {
    uint32_t count; /* of candidates; 0: nothing to tune */
    uint32_t part_count;
    struct candidate_part parts[PERF_PARTS_MAX]; /* the smaller ones first */
};

struct candidate_order candidate_order_of(const char *solver, const struct perf_space *space);
/* The point that is candidate |index|, below |count|: a number for perf_space_at. */
uint32_t candidate_point(const struct candidate_order *order, uint32_t index);

struct candidate_count {
    uint32_t valid;
    bool is_estimate; /* from a sample: the space is larger than it */
};
/* How many are valid for the problem: exactly up to 2048 points, else estimated, part by part, from
 * the first so many candidates, and at least 1, for what the solver itself chooses is valid. */
struct candidate_count candidates_count_valid(const struct solver *solver,
                                              const struct problem *problem,
                                              const struct target *target);
