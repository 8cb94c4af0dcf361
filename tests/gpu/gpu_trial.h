/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Trials, each with a problem, a solver and a config, and their results.
 *
 * Role       shared by the processes of gpu_trials (watch.h): some compile, one runs trials on the
 *            GPU and may die of a bad kernel, one watches the others and reports
 * Ownership  trials_done frees the list; its shared part is one mapping
 * Threading  the shared part uses atomics; all else: one thread
 */
#include "common/protocol/problem.h"
#include "common/target/target.h"
#include "engine/solver/solver.h"
#include "tests/gpu/cuda_driver.h"
#include "tests/gpu/nvrtc.h"

#include <stdatomic.h>

enum trial_state {
    TRIAL_WAITS,
    TRIAL_RUNS,
    TRIAL_RIGHT,
    TRIAL_SLOW,       /* too slow for a full timing and a verification */
    TRIAL_WRONG,      /* a wrong result, or a write outside the output */
    TRIAL_FAILED,     /* could not be loaded or launched, or the kernel failed */
    TRIAL_UNCOMPILED, /* the compiler refused it */
    TRIAL_STUCK,      /* exceeded the time limit */
    TRIAL_OUT_OF_TIME /* not begun */
};

struct trial_result { /* shared */
    atomic_int state; /* enum trial_state; written after the other members */
    struct cuda_timing timing;
    struct cuda_resources resources;
    double error; /* the largest, relative to the magnitude */
    uint64_t workspace;
    char text[200]; /* the failure */
};

struct gpu_trial {
    uint32_t problem; /* index */
    const struct solver *solver;
    char config[PERF_CONFIG_TEXT_MAX]; /* "": the solver's choice */
    uint32_t program_count;
    uint32_t programs[LIMIT_PLAN_KERNELS]; /* indices in the pool */
};

enum { OBJECT_AWAITED, OBJECT_MADE, OBJECT_REFUSED };

struct shared_object { /* shared */
    atomic_int state;
    uint32_t size;
    uint64_t offset; /* of the object, or of the compiler's log if it refused */
};

struct trials_shared;

struct trials {
    struct problem *problems; /* owned */
    double *best_us;          /* owned, per problem: the best known time, or 0 */
    size_t problem_count;
    struct gpu_trial *trials; /* owned */
    size_t count, capacity;
    struct nvrtc_pool pool;
    struct target target;
    struct trials_shared *shared; /* made by trials_share */
};

#define CONFIGS_ALL UINT32_MAX

struct trials_selection {
    const char *solver;  /* NULL: all that apply */
    const char *without; /* NULL: no exception */
    const char *config;  /* for all solvers; NULL: see |random| */
    uint32_t random;     /* random configs besides the solver's choice; CONFIGS_ALL: all */
    uint64_t seed;
};

/* Adds a problem and all its trials of |selection|. */
KILN_MUST_CHECK enum kiln_code trials_add(struct trials *trials, const struct problem *problem,
                                          const struct trials_selection *selection,
                                          struct kiln_err *err);
/* Adds a problem without trials; trials_add_config then adds trials to it.  A config of "" is the
 * solver's choice. */
KILN_MUST_CHECK enum kiln_code trials_add_problem(struct trials *trials,
                                                  const struct problem *problem, double best_us,
                                                  struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code trials_add_config(struct trials *trials, const struct solver *solver,
                                                 const char *config, struct kiln_err *err);
/* Makes the shared part.  Nothing may be added afterwards. */
KILN_MUST_CHECK enum kiln_code trials_share(struct trials *trials, struct kiln_err *err);
void trials_done(struct trials *trials);

struct trial_result *trial_result(const struct trials *trials, size_t index);
struct shared_object *trial_object(const struct trials *trials, size_t program);
const void *trial_object_data(const struct trials *trials, const struct shared_object *object);

#define TRIAL_COMPILERS_MAX 64u
/* The main function of a compiling process: compiles programs in order until none is left, and
 * returns the exit status.  |compiler| numbers the process. */
int trials_compile(struct trials *trials, unsigned compiler);
/* Marks the program that the process was compiling as refused.  True if programs are left. */
bool trials_compiler_died(struct trials *trials, unsigned compiler);

struct run_options {
    bool verify, time;
    double hopeless; /* a trial this many times slower than the best is not timed in full */
    bool skip_slow;  /* such a trial is not verified either */
    uint64_t seed;
    /* Problems on which the GPU's reference is compared with the CPU's. */
    unsigned check_references;
};

/* The main function of the running process: runs the trials from |first| on.  Returns the exit
 * status, 0 if all were run. */
int trials_run(struct trials *trials, size_t first, const struct run_options *options);
