/* SPDX-License-Identifier: MIT */
#pragma once

/* Searches for the fastest config of each problem.  First tries the config that each solver
 * chooses.  Then tries random configs of the solvers whose choice is not much slower than the best;
 * half of these configs take some values from the solver's choice.  Then, in several rounds, tries
 * configs that differ from the best ones in a single value.
 *
 * Ownership  problems are copied
 * Threading  one thread, which must not have opened CUDA */
#include "tests/gpu/watch.h"

struct search_options {
    struct watch_options watch; /* its |seconds| limits the whole search */
    uint32_t random;
    uint32_t rounds;
    uint64_t seed;
};

/* Runs the search. |first| has the trials of the solvers' choices; call trials_share(first) before.
 * Returns an exit status as watch_trials does. */
int search_best(struct trials *first, const struct search_options *options);
