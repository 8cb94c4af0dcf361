/* SPDX-License-Identifier: MIT */
#pragma once

/* Several processes that call the compiler directly and share the work: each kernel is compiled
 * once.  Measures the throughput of this machine's compilers without kiln.
 *
 * Threading  forks, like bench_fan_out */
#include "tests/bench/cold.h"

struct direct_team {
    const struct bench_options *options;
    const struct cold *cold;
    unsigned processes;
    unsigned kernels;
};

/* Measures how many seconds the processes take to compile all kernels. Their ids are |first_id| and
 * the following numbers. Each process first compiles another kernel to warm up. Returns
 * KILN_UNAVAILABLE if the compiler cannot be called directly. */
KILN_MUST_CHECK enum kiln_code direct_team_run(const struct direct_team *team, uint64_t first_id,
                                               double *ret_wall, struct kiln_err *err);
