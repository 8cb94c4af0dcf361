/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Trials: a problem, a solver and a config each; their list, and what came of them.
 *
 * Role       shared by three processes (gpu_trials.c): one compiles, one runs on the GPU and may
 * die of a bad kernel, one watches and reports Ownership  trials_done ends the list; its shared
 * part is one mapping Threading  the shared part by its atomics; all else: one thread
 */
#include "common/problem.h"
#include "common/target.h"
#include "engine/solver/solver.h"
#include "tests/gpu/cuda_driver.h"
#include "tests/gpu/nvrtc.h"

#include <stdatomic.h>

enum trial_state {
    TRIAL_WAITS,
    TRIAL_RUNS,
    TRIAL_RIGHT,
    TRIAL_SLOW,       /* too slow to be worth a full timing and a look at its results */
    TRIAL_WRONG,      /* computed something else, or wrote where it must not */
    TRIAL_FAILED,     /* could not be loaded or launched, or the kernel failed */
    TRIAL_UNCOMPILED, /* the compiler refused it */
    TRIAL_STUCK,      /* ran into the time limit */
    TRIAL_OUT_OF_TIME /* was not begun */
};

struct trial_result { /* shared */
    atomic_int state; /* enum trial_state; the rest is written before it */
    struct cuda_timing timing;
    struct cuda_resources resources;
    double error; /* largest, as a part of the magnitude */
    uint64_t workspace;
    char text[200]; /* what is wrong */
};

struct gpu_trial {
    uint32_t problem; /* index */
    const struct solver *solver;
    char config[PERF_CONFIG_TEXT_MAX]; /* "": the solver's choice */
    uint32_t program_count;
    uint32_t programs[LIMIT_PLAN_KERNELS]; /* numbers in the pool */
};

enum { OBJECT_AWAITED, OBJECT_MADE, OBJECT_REFUSED };

struct shared_object { /* shared */
    atomic_int state;
    uint32_t size;
    uint64_t offset; /* of the object, or of the log of a refused one */
};

struct trials_shared;

struct trials {
    struct problem *problems; /* owned */
    double *best_us;          /* owned, one a problem: known before, or 0 */
    size_t problem_count;
    struct gpu_trial *trials; /* owned */
    size_t count, room;
    struct nvrtc_pool pool;
    struct target target;
    struct trials_shared *shared; /* of trials_share */
};

#define CONFIGS_ALL UINT32_MAX

struct trials_selection {
    const char *solver;  /* NULL: all that apply */
    const char *without; /* NULL: no exception */
    const char *config;  /* a text for all; NULL: as the next says */
    uint32_t random;     /* configs beside the solver's own choice; CONFIGS_ALL: every valid one */
    uint64_t seed;
};

/* A problem with all trials of |selection|. */
KILN_MUST_CHECK enum kiln_code trials_add(struct trials *trials, const struct problem *problem,
                                          const struct trials_selection *selection,
                                          struct kiln_err *err);
/* A problem without any; then trials of the last problem added ("": the solver's own choice). */
KILN_MUST_CHECK enum kiln_code trials_add_problem(struct trials *trials,
                                                  const struct problem *problem, double best_us,
                                                  struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code trials_add_config(struct trials *trials, const struct solver *solver,
                                                 const char *config, struct kiln_err *err);
/* Afterwards nothing may be added. */
KILN_MUST_CHECK enum kiln_code trials_share(struct trials *trials, struct kiln_err *err);
void trials_done(struct trials *trials);

struct trial_result *trial_result(const struct trials *trials, size_t index);
struct shared_object *trial_object(const struct trials *trials, size_t program);
const void *trial_object_data(const struct trials *trials, const struct shared_object *object);

/* A compiling process, one of several: takes programs in order until there are no more; returns its
 * exit status. */
#define TRIAL_COMPILERS_MAX 64u
int trials_compile(struct trials *trials, unsigned seat);
/* What it was at cannot be compiled; true where there is more to do. */
bool trials_compiler_died(struct trials *trials, unsigned seat);

struct run_options {
    bool verify, time;
    double
        hopeless;   /* as many times the best of the problem, and a trial is not timed in full... */
    bool skip_slow; /* ...nor looked at */
    uint64_t seed;
    unsigned check_references; /* problems to compare the GPU's reference with the CPU's on */
};

/* The running process: trials from |first| on; returns its exit status, 0 when all was run. */
int trials_run(struct trials *trials, size_t first, const struct run_options *options);
