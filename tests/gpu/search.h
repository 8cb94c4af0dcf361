/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The search for each problem's fastest config: the solvers' own choices, then random ones of those
 * solvers that are near the best, half of them mixed with the choice; then neighbours of the best,
 * round by round.
 *
 * Ownership  search_done ends it; problems are copied
 * Threading  one thread, which must not have opened CUDA
 */
#include "tests/gpu/watch.h"

struct search_options {
    struct watch_options watch; /* its seconds are those of the whole search */
    uint32_t random;            /* random configs a problem and solver */
    uint32_t rounds;            /* of neighbours */
    uint64_t seed;
};

/* |first| are the trials to begin with, shared; as watch_trials. */
int search_best(struct trials *first, const struct search_options *options);
