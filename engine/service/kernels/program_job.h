/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A solver's program as a compile job: options in canonical order, headers gathered. A client
 * determines only the target, which was parsed, and numbers in the options (from the problem and
 * the perf config).
 *
 * Ownership  the job's views point into the program (static data) and into the struct program_job;
 *            free it with program_job_done
 * Threading  plain values
 */
#include "common/target/target.h"
#include "engine/compile/compile_job.h"
#include "engine/compile/toolchain.h"
#include "engine/package/kernel_name.h"
#include "engine/solver/solver.h"

struct program_job {
    struct buffer options, headers;
    struct compile_job job;
};

/* The job borrows |target| and |tc|. */
KILN_MUST_CHECK enum kiln_code program_job_make(const struct solution_program *program,
                                                const struct target *target,
                                                const struct toolchain *tc,
                                                struct program_job *ret_job, struct kiln_err *err);
void program_job_done(struct program_job *p);
#define PROGRAM_JOB_AUTO __attribute__((cleanup(program_job_done)))

/* Returns what determines the kernel's name in packages (engine/package/kernel_name.h). */
struct package_source program_job_source(const struct compile_job *job);
