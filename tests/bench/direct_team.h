/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Processes that share cold kernels and call the compiler directly. Their throughput shows what
 * this machine achieves with as many compilers and without kiln.
 *
 * Role       the lower bound for bench_cold's wall time with kilnd's compilers
 * Threading  forks, like bench_fan_out
 */
#include "tests/bench/cold.h"

struct direct_team {
    const struct bench_options *options; /* borrowed, like all fields */
    const struct cold *cold;
    unsigned processes;
    unsigned kernels;
};

/* Measures the wall-clock seconds for all kernels from |first_id| on. Before that, every process
 * compiles another kernel to warm up. KILN_UNAVAILABLE: the compiler cannot be called directly. */
KILN_MUST_CHECK enum kiln_code direct_team_run(const struct direct_team *team, uint64_t first_id,
                                               double *ret_wall, struct kiln_err *err);
