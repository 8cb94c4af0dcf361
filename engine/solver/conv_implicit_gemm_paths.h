/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The paths of ConvImplicitGemm: one for each kind of hardware that multiplies matrices.
 *
 * Role       each path is one kernel family with its own tuning space.  A problem on a target has
 *            exactly one path, so the text of a perf config has only one meaning for this problem
 *            and target.  The path is the first one of igemm_paths[] that applies and is favoured,
 *            else the first one that applies
 * Ownership  static data
 * Threading  pure functions
 */
#include "engine/solver/solver.h"

/* The members mean the same as in struct solver.  No member is NULL. */
struct igemm_path {
    const char *name; /* "vector", "mma" or "mfma" */
    bool (*applies)(const struct problem *problem, const struct target *target);
    bool (*is_favoured)(const struct problem *problem, const struct target *target);
    struct perf_space (*space)(const struct problem *problem, const struct target *target);
    bool (*config_is_valid)(const struct problem *problem, const struct target *target,
                            const struct perf_config *config);
    void (*choose_config)(const struct problem *problem, const struct target *target,
                          struct perf_config *ret_config);
    enum kiln_code (*solve)(const struct problem *problem, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err);
};

extern const struct igemm_path igemm_path_mma;
extern const struct igemm_path igemm_path_mfma;
extern const struct igemm_path igemm_path_vector;

extern const struct igemm_path *const igemm_paths[]; /* NULL-terminated, best first */

/* AMD's matrix cores: the values of KILN_CORES in kernels/matrix_cores_amd.h. */
enum amd_cores { CORES_NONE, CORES_MFMA = 2, CORES_WMMA_RDNA3, CORES_WMMA_RDNA4 };
enum amd_cores igemm_amd_cores(const struct target *target);
/* Returns whether the target multiplies this type only in pairs (KILN_PAIRS). */
bool igemm_amd_takes_pairs(const struct target *target, uint32_t type);

/* Returns whether the vector path copies tiles to shared memory asynchronously: in fp32, if the GPU
 * has cp.async (sm_80 and later). */
bool igemm_vector_copies_are_async(enum data_type type, const struct target *target);

/* Returns true if the problem allows TF32 and the GPU supports it. */
bool igemm_uses_tf32(const struct problem *problem, const struct target *target);

const struct igemm_path *igemm_path_for(const struct problem *problem, const struct target *target);
