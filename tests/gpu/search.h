/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The search for each problem's fastest config.  It tries the solvers' choices first, then random
 * configs of the solvers near the best, half of them mixed with the solver's choice.  Then it tries
 * neighbours of the best configs, in rounds.
 *
 * Ownership  problems are copied
 * Threading  one thread, which must not have opened CUDA
 */
#include "tests/gpu/watch.h"

struct search_options {
    struct watch_options watch; /* its |seconds| limit the whole search */
    uint32_t random;            /* random configs per problem and solver */
    uint32_t rounds;            /* rounds of neighbours */
    uint64_t seed;
};

/* |first|: the initial trials, after trials_share.  Returns an exit status as watch_trials does. */
int search_best(struct trials *first, const struct search_options *options);
