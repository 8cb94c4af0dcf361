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
    uint64_t cpu_s;  /* processor time of one job, in seconds */
    uint64_t memory; /* address space, in bytes */
    uint64_t output; /* size of one file, in bytes */
    /* Maximum number of jobs of one worker, which limits their total CPU time; 0 means
     * unlimited. */
    unsigned jobs;
};

/* Sets the limits of this process and of all processes that it starts.  Also makes the kernel kill
 * these processes first when memory runs out. */
KILN_MUST_CHECK enum kiln_code process_limits_apply(const struct process_limits *limits,
                                                    struct kiln_err *err);
/* Sets the limit of CPU time for the next job; call it before each job.  The system limits the CPU
 * time of a whole process.  So the new limit is the time that the process has used already, plus
 * |cpu_s|; but it never exceeds the limit of all jobs. */
void process_limits_next_job(uint64_t cpu_s);
