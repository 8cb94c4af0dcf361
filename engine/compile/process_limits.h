/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Resource limits of a kiln-compiler process.  The process sets them itself before anything else,
 * because root's kilnd in a container may not change the limits of other users' processes.
 *
 * Threading  the compiler process's main thread
 */
#include "common/base/err.h"

#include <stdint.h>

struct process_limits {
    uint64_t cpu_s;  /* processor time of one job */
    uint64_t memory; /* bytes of address space */
    uint64_t output; /* bytes of one file */
    unsigned jobs;   /* jobs in a worker's life, which bounds their total CPU time; 0: unlimited */
};

/* Applies to this process and all that it starts.  Also lowers its priority and makes it the
 * kernel's first choice to kill when memory runs out. */
KILN_MUST_CHECK enum kiln_code process_limits_apply(const struct process_limits *limits,
                                                    struct kiln_err *err);
/* Call it before each job.  The system limits the CPU time of a whole process.  So the limit
 * moves with the time already used, but never beyond the limit of all jobs. */
void process_limits_next_job(uint64_t cpu_s);
