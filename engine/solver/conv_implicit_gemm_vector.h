/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files of ConvImplicitGemm's vector path.  conv_implicit_gemm_vector.c
 * defines the tuning space and creates solutions; conv_implicit_gemm_vector_choose.c chooses a
 * config.
 *
 * Ownership  plain values
 * Threading  pure functions
 */
#include "engine/solver/conv_implicit_gemm_paths.h"

enum axis { TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N, STAGES, SPLITS, PREPARE, ROWS_FIRST, AXES };

/* The matrix product of one convolution group.  It has |m| rows.  Its columns are divided into
 * |classes| classes: class i has |columns[i]| columns, and its own tiles (see classes_of in
 * conv_implicit_gemm_vector.c). */
#define CLASSES_MAX 64u
struct vector_product {
    /* Forward and backward data sum over |channels| and |taps|. */
    uint32_t m, channels, taps;
    uint64_t columns[CLASSES_MAX];
    uint32_t classes;
    uint64_t steps_of_one; /* maximum number of products summed for one result */
};
struct vector_product vector_product_of(const struct problem *problem);

/* In the functions below, |v| has the values of a perf config, indexed by enum axis. */

/* Returns the number of items of a work group. */
uint32_t vector_items(const uint16_t *v);
/* Returns the number of tiles along the columns of all classes. */
uint64_t vector_column_tiles(const struct vector_product *product, uint32_t tile_n);
/* Returns the number of tiles of all groups, not counting splits. */
uint64_t vector_tiles(const struct vector_product *product, uint32_t groups, const uint16_t *v);

struct perf_space vector_space(const struct problem *problem, const struct target *target);
bool vector_config_is_valid(const struct problem *problem, const struct target *target,
                            const struct perf_config *config);
/* Returns whether the workspace can hold a rearranged copy of the weights. */
bool vector_prepared_weights_fit(const struct problem *problem, const struct target *target,
                                 uint32_t tile_k);
void vector_choose_config(const struct problem *problem, const struct target *target,
                          struct perf_config *ret_config);
