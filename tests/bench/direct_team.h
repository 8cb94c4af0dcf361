/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Processes that share out cold kernels among themselves and call the compiler directly: what this
 * machine can do with so many compilers when there is no kiln.
 *
 * Role       the floor beside bench_cold's throughput of kilnd's compilers
 * Threading  forks, as bench_fan_out
 */
#include "tests/bench/cold.h"

struct direct_team {
    const struct bench_options *options; /* borrowed, as all of this */
    const struct cold *cold;
    unsigned processes;
    unsigned kernels;
};

/* Wall-clock seconds that all the kernels from |first_id| on take; every process has compiled one
 * of its own before.  KILN_UNAVAILABLE when the compiler is none that is called directly. */
KILN_MUST_CHECK enum kiln_code direct_team_run(const struct direct_team *team, uint64_t first_id,
                                               double *ret_wall, struct kiln_err *err);
