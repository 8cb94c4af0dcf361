/* SPDX-License-Identifier: MIT */
#pragma once

/* A trial runs one solver with one config on one problem.
 *
 * Role       holds the trials, and the results and objects that the processes of gpu_trials share.
 *            Several processes compile. One runs trials on the GPU, and may be killed by a bad
 *            kernel. One watches the others and prints the results (watch.h)
 * Ownership  trials_done frees everything; results and objects are in one shared mapping
 * Threading  the shared mapping uses atomics; only one thread may use the other members */
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
    TRIAL_SLOW,   /* so slow that it was neither timed exactly nor verified */
    TRIAL_WRONG,  /* the result is wrong, or a guard or an operand was overwritten */
    TRIAL_FAILED, /* could not be loaded or launched, or its kernel crashed */
    TRIAL_UNCOMPILED,
    TRIAL_STUCK,
    TRIAL_OUT_OF_TIME /* not begun before the time limit */
};

struct trial_result {
    atomic_int state; /* enum trial_state; written last, so that the other members are complete */
    struct cuda_timing timing;
    struct cuda_resources resources;
    /* the largest error of an element, relative to the sum of its terms' absolute values */
    double error;
    uint64_t workspace;
    char text[200];
};

struct gpu_trial {
    uint32_t problem;
    const struct solver *solver;
    char config[PERF_CONFIG_TEXT_MAX]; /* "" means the config that the solver chooses */
    uint32_t program_count;
    uint32_t programs[LIMIT_PLAN_KERNELS];
};

enum { OBJECT_AWAITED, OBJECT_MADE, OBJECT_REFUSED };

struct shared_object {
    atomic_int state;
    uint32_t size;
    uint64_t offset; /* where the object begins or, if the compile failed, the compiler's log */
};

struct trials_shared;

struct trials {
    struct problem *problems;
    double *best_us;
    size_t problem_count;
    struct gpu_trial *trials;
    size_t count, capacity;
    struct nvrtc_pool pool;
    struct target target;
    struct trials_shared *shared;
};

#define CONFIGS_ALL UINT32_MAX

struct trials_selection {
    /* the only solver to try; NULL means all solvers that apply to the problem */
    const char *solver;
    const char *without; /* a solver that is not tried; NULL means none */
    /* The only config to try. NULL means the config that the solver chooses, and |random| other
     * configs. */
    const char *config;
    /* number of random configs to try in addition; CONFIGS_ALL means all configs */
    uint32_t random;
    uint64_t seed;
};

KILN_MUST_CHECK enum kiln_code trials_add(struct trials *trials, const struct problem *problem,
                                          const struct trials_selection *selection,
                                          struct kiln_err *err);
/* Adds a problem without trials; trials_add_config then adds trials to it. |best_us| is the best
 * known time; 0 means unknown. */
KILN_MUST_CHECK enum kiln_code trials_add_problem(struct trials *trials,
                                                  const struct problem *problem, double best_us,
                                                  struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code trials_add_config(struct trials *trials, const struct solver *solver,
                                                 const char *config, struct kiln_err *err);
/* Creates the mapping that processes share. Add all trials before this call. */
KILN_MUST_CHECK enum kiln_code trials_share(struct trials *trials, struct kiln_err *err);
void trials_done(struct trials *trials);

struct trial_result *trial_result(const struct trials *trials, size_t index);
struct shared_object *trial_object(const struct trials *trials, size_t program);
const void *trial_object_data(const struct trials *trials, const struct shared_object *object);

#define TRIAL_COMPILERS_MAX 64u
/* The main function of a process that compiles. |compiler| is the number of this process among the
 * processes that compile. Compiles one program after another until none is left. Returns the exit
 * status. */
int trials_compile(struct trials *trials, unsigned compiler);
/* Called if a process that compiles has crashed. Marks its current program as not compiling.
 * Returns true if there are programs left to compile. */
bool trials_compiler_died(struct trials *trials, unsigned compiler);

struct run_options {
    bool verify, time;
    /* a trial that takes this many times the best time of its problem is slow, and is not timed
     * exactly */
    double hopeless;
    bool skip_slow; /* slow trials are not verified */
    uint64_t seed;
    /* number of problems for which the GPU's reference is compared with the CPU's */
    unsigned check_references;
};

/* The main function of the process that runs the trials from |first| on. Returns the exit status; 0
 * means that all trials ran. */
int trials_run(struct trials *trials, size_t first, const struct run_options *options);
