/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The choice of solver and perf config for a problem. Plans, built packages and why_miss use this
 * rule.
 *
 * Role       The solver is the first of these that exists:
 *            1. the solver that the caller forces
 *            2. the fastest of kiln's own solvers in the find record. Of several tiers, the most
 *               private one whose find record has one of kiln's solvers is used. If a solver also
 *               has a perf record with a time, that time replaces the time of the find record
 *            3. if the options allow it, the fastest in the find record of a similar problem
 *            4. the solver that the solvers' heuristic prefers
 *            The config is the one that the caller forces, or else the one of the solver's perf
 *            record. Configs that do not fit, and MIOpen's own solvers, are ignored
 * Ownership  a choice borrows from the options and from itself: do not copy it
 * Threading  plan_choose: the engine's thread, because it looks up records (microseconds);
 *            solver_solve of the choice: any thread
 */
#include "engine/compile/toolchain.h"
#include "engine/solver/solver.h"
#include "engine/tuning/tuning.h"

/* Parses |text|. Also sets ret_target->has_tensor_maps if a caller with |capabilities| can launch
 * kernels with tensor maps. */
KILN_MUST_CHECK enum kiln_code plan_target_take(uint64_t capabilities, struct bytes text,
                                                struct target *ret_target, struct kiln_err *err);

struct plan_ids {
    char device[DATABASE_ID_MAX]; /* id in tuning records; "": the caller named no device */
    char package[DATABASE_ID_MAX];
};
/* Parses |given|, the caller's database id. If |given| is empty, packages are selected by the
 * target's arch. Packages for NVIDIA's GPUs are always selected by the arch, and target->processors
 * gets the number of multiprocessors in |given|. */
KILN_MUST_CHECK enum kiln_code plan_ids_take(struct target *target, struct bytes given,
                                             struct plan_ids *ret_ids, struct kiln_err *err);
/* Returns KILN_INVALID if the device and the target do not match. */
KILN_MUST_CHECK enum kiln_code plan_ids_check(const struct target *target,
                                              const struct plan_ids *ids, struct kiln_err *err);

#define PLAN_TOOLCHAIN_MAX 256
/* Writes for example "nvrtc 13.0 1a2b3c4d5e6f": name, version, and digits of the toolchain's
 * identity. */
void plan_toolchain_write(const struct toolchain *tc, char text[PLAN_TOOLCHAIN_MAX]);

struct plan_options {
    const struct problem *problem;
    const struct target *target;
    struct bytes solver, config;    /* forced by the caller; empty: kiln chooses */
    const char *database_id;        /* "": records are ignored */
    const char *driver, *toolchain; /* of the caller, to recognize stale records; "": unknown */
    uint32_t uid;
    bool by_heuristic;
    bool nearest; /* if the problem has no find record, use the records of a similar problem */
};

struct plan_choice {
    struct solver_choice chosen;
    char config[PERF_CONFIG_TEXT_MAX];
    enum plan_source source;
    double expected_ms;
};
/* Chooses the solver and the config. |tuning| may be NULL. Returns KILN_INVALID if the caller
 * forces a config, but no solver. */
KILN_MUST_CHECK enum kiln_code plan_choose(struct tuning *tuning,
                                           const struct plan_options *options,
                                           struct plan_choice *ret_choice, struct kiln_err *err);

#define PLAN_SOLVERS_MAX 16

struct plan_known {
    const struct solver *solver;
    double find_ms;                    /* time in the solver's find record; 0: no record */
    bool is_near;                      /* |find_ms| is the time of a similar problem */
    char config[PERF_CONFIG_TEXT_MAX]; /* from the solver's perf record; "": no config that fits */
    double config_ms;                  /* median time in the perf record; 0: unknown */
};
/* Lists the solvers that can solve the problem, in the order of |solvers[]|, and returns their
 * number. All find_ms are of the tier that plan_choose uses. */
unsigned plan_known_of(struct tuning *tuning, const struct plan_options *options,
                       struct plan_known ret_known[PLAN_SOLVERS_MAX]);
/* Returns the time by which solvers are compared. */
double plan_known_ms(const struct plan_known *known);
