/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Processes that divide cold kernels among them and call the compiler directly.  The throughput of
 * the team shows what the same number of compilers achieves on this machine without kiln.
 *
 * Threading  forks, like bench_fan_out
 */
#include "tests/bench/cold.h"

struct direct_team {
    const struct bench_options *options;
    const struct cold *cold;
    unsigned processes;
    unsigned kernels;
};

/* Measures the seconds for all kernels from |first_id| on.  Before this, every process compiles
 * another kernel to warm up.  Returns KILN_UNAVAILABLE if the compiler cannot be called
 * directly. */
KILN_MUST_CHECK enum kiln_code direct_team_run(const struct direct_team *team, uint64_t first_id,
                                               double *ret_wall, struct kiln_err *err);
