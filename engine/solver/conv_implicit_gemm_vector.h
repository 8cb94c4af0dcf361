/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files of ConvImplicitGemm's vector path.
 *
 * Ownership  plain values
 * Threading  pure functions
 */
#include "engine/solver/conv_implicit_gemm_paths.h"

enum axis { TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N, STAGES, SPLITS, PREPARE, ROWS_FIRST, AXES };

/* The matrix product of one convolution group.  Class i has |columns[i]| columns, and its own tiles
 * (see classes_of in conv_implicit_gemm_vector.c). */
#define CLASSES_MAX 64u
struct vector_product {
    uint32_t m, channels, taps;
    uint64_t columns[CLASSES_MAX];
    uint32_t classes;
    uint64_t steps_of_one; /* maximum number of products that are summed for one result */
};
struct vector_product vector_product_of(const struct problem *problem);

/* |v| has the values of a perf config, indexed by enum axis. */

uint32_t vector_items(const uint16_t *v);
uint64_t vector_column_tiles(const struct vector_product *product, uint32_t tile_n);
uint64_t vector_tiles(const struct vector_product *product, uint32_t groups, const uint16_t *v);

struct perf_space vector_space(const struct problem *problem, const struct target *target);
bool vector_config_is_valid(const struct problem *problem, const struct target *target,
                            const struct perf_config *config);
bool vector_prepared_weights_fit(const struct problem *problem, const struct target *target,
                                 uint32_t tile_k);
void vector_choose_config(const struct problem *problem, const struct target *target,
                          struct perf_config *ret_config);
