/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Resource limits of a kiln-compiler process, which sets them itself before it does anything else:
 * a kilnd that may not change those of another user's process (a container's root) needs no more
 * rights for it.
 */
#include "common/err.h"

#include <stdint.h>

struct process_limits {
    uint64_t cpu_s;  /* processor time of one job */
    uint64_t memory; /* bytes of address space */
    uint64_t output; /* bytes of one file */
    unsigned jobs;   /* in a worker's life: bounds the processor time of all; 0: no end */
};

/* To this process and all that it starts.  Also makes it nice and the kernel's first choice when
 * memory runs out. */
KILN_MUST_CHECK enum kiln_code process_limits_apply(const struct process_limits *limits,
                                                    struct kiln_err *err);
/* Before each job: the system counts the processor time of a whole life, so the bound moves with
 * what was used.  Never beyond that of all jobs. */
void process_limits_next_job(uint64_t cpu_s);
