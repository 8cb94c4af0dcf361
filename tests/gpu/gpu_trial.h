/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Trials, each with a problem, a solver and a config, and their results.
 *
 * Role       data that the processes of gpu_trials share (watch.h).  Some processes compile, one
 *            runs trials on the GPU (a bad kernel may kill it), and one watches the others and
 *            reports
 * Ownership  trials_done frees the list, whose shared part is one mapping
 * Threading  the shared part uses atomics; all other members are for one thread
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
    TRIAL_SLOW,   /* too slow for a full timing and a verification */
    TRIAL_WRONG,  /* a wrong result, or a write outside the output */
    TRIAL_FAILED, /* could not be loaded or launched, or the kernel failed */
    TRIAL_UNCOMPILED,
    TRIAL_STUCK,
    TRIAL_OUT_OF_TIME /* not begun, because no time was left */
};

struct trial_result {
    atomic_int state; /* enum trial_state; written after the other members */
    struct cuda_timing timing;
    struct cuda_resources resources;
    double error; /* largest error of an element, relative to the element's magnitude */
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
    uint64_t offset; /* offset of the object, or of the compiler's log if it rejected the program */
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
    const char *solver;  /* name of the only solver to try; NULL means all solvers that apply */
    const char *without; /* name of a solver not to try; NULL means none */
    /* the only config to try; NULL means the solver's choice and |random| others */
    const char *config;
    /* number of random configs in addition to the solver's choice; CONFIGS_ALL means all configs */
    uint32_t random;
    uint64_t seed;
};

KILN_MUST_CHECK enum kiln_code trials_add(struct trials *trials, const struct problem *problem,
                                          const struct trials_selection *selection,
                                          struct kiln_err *err);
/* Adds a problem without trials. Later calls of trials_add_config add trials to the last added
 * problem. The config "" means the config that the solver chooses. */
KILN_MUST_CHECK enum kiln_code trials_add_problem(struct trials *trials,
                                                  const struct problem *problem, double best_us,
                                                  struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code trials_add_config(struct trials *trials, const struct solver *solver,
                                                 const char *config, struct kiln_err *err);
/* Creates the shared part. After this call, nothing may be added. */
KILN_MUST_CHECK enum kiln_code trials_share(struct trials *trials, struct kiln_err *err);
void trials_done(struct trials *trials);

struct trial_result *trial_result(const struct trials *trials, size_t index);
struct shared_object *trial_object(const struct trials *trials, size_t program);
const void *trial_object_data(const struct trials *trials, const struct shared_object *object);

#define TRIAL_COMPILERS_MAX 64u
/* The main function of compiling process |compiler|.  Compiles programs in order until none is
 * left.  Returns the exit status. */
int trials_compile(struct trials *trials, unsigned compiler);
/* Marks the program that the process was compiling as rejected.  Returns true if programs are left
 * to compile. */
bool trials_compiler_died(struct trials *trials, unsigned compiler);

struct run_options {
    bool verify, time;
    /* a trial that takes this many times the best time is not timed in full */
    double hopeless;
    bool skip_slow; /* whether such a slow trial is not verified either */
    uint64_t seed;
    /* number of problems on which the GPU's reference is compared with the CPU's */
    unsigned check_references;
};

/* The main function of the process that runs the trials from |first| on.  Returns the exit status,
 * which is 0 if all were run. */
int trials_run(struct trials *trials, size_t first, const struct run_options *options);
