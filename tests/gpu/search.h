/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The search for each problem's fastest config.  The search first tries the config that each solver
 * chooses.  Then it tries random configs of the solvers that are near the best time; half of these
 * configs are mixed with the solver's choice.  Then it tries neighbours of the best configs, in
 * rounds.
 *
 * Ownership  problems are copied
 * Threading  one thread, which must not have opened CUDA
 */
#include "tests/gpu/watch.h"

struct search_options {
    struct watch_options watch; /* |seconds| limits the whole search */
    uint32_t random;
    uint32_t rounds;
    uint64_t seed;
};

/* |first| has the initial trials; call trials_share with it before.  Returns an exit status like
 * watch_trials. */
int search_best(struct trials *first, const struct search_options *options);
