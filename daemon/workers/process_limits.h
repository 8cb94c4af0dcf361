/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Resource limits of a kiln-compiler process, set from outside right after it started and before
 * it gets work, so that no code of ours runs between fork and exec.
 */
#include "common/err.h"

#include <stdint.h>
#include <sys/types.h>

struct process_limits {
    uint64_t cpu_s;  /* processor time of one job */
    uint64_t memory; /* bytes of address space */
    uint64_t output; /* bytes of one file */
    unsigned jobs;   /* in a worker's life: bounds the processor time of all */
};

/* Also makes the process nice and the kernel's first choice when memory runs out. */
KILN_MUST_CHECK enum kiln_code process_limits_apply(const struct process_limits *limits, pid_t pid,
                                                    struct kiln_err *err);
/* Before each job: RLIMIT_CPU counts a whole life, so the bound moves with what was used. */
KILN_MUST_CHECK enum kiln_code process_limits_next_job(const struct process_limits *limits,
                                                       pid_t pid, struct kiln_err *err);
