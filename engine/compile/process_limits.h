/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Resource limits of a kiln-compiler process.  The process sets them itself before anything else,
 * because in a container, even a kilnd that runs as root may not change the limits of other users'
 * processes.
 *
 * Threading  the compiler process's main thread
 */
#include "common/base/err.h"

#include <stdint.h>

struct process_limits {
    uint64_t cpu_s; /* CPU seconds of one job */
    uint64_t memory;
    uint64_t output;
    /* 0: unlimited */
    unsigned jobs;
};

/* Applies the limits to this process. Makes Linux kill this process before others when memory
 * runs out. */
KILN_MUST_CHECK enum kiln_code process_limits_apply(const struct process_limits *limits,
                                                    struct kiln_err *err);
/* Sets the soft limit of CPU time for the next job: |cpu_s| more than this process has used so far,
 * but at most the hard limit, which is for the process's whole life. */
void process_limits_next_job(uint64_t cpu_s);
