/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tensor maps for the matrix product behind a convolution: they describe the operands to the bulk
 * copy hardware of sm_90 (kernels/conv_implicit_gemm_bulk.cl).
 *
 * Role       decides which operands and results bulk copies can transfer, and adds the tensor maps
 *            to the kernel's arguments
 * Ownership  plain values
 * Threading  pure functions
 */
#include "engine/solver/conv_product.h"

/* Returns whether bulk copies can load the operands' tiles. */
bool bulk_fits(const struct packing *packing, const struct product_tiling *tiling);
/* True for 1x1 filters with stride 1 and no padding, for which pixels can be numbered consecutively
 * across rows and images. */
bool bulk_is_flat(const struct packing *packing);
/* Returns whether the product reads x and y with channels first, without packing.  Requires a 1x1
 * filter and a type of fp16, bf16, or fp32 if the problem allows TF32. */
bool bulk_reads_planes(const struct problem *problem);
/* Adapts |packing|, which packing_of filled, to bulk copies.  If bulk_reads_planes returns true, x
 * and y keep their channels first.  Backward data in TF32 gets turned weights
 * (packing_turn_weights). */
void bulk_adapt(const struct problem *problem, struct packing *packing);
/* Lets the product write the result with channels first, so that it is not unpacked.  Does nothing
 * with split-K, with several residue classes (data_box in conv_bulk.c), or if x and y are not
 * packed.  Call it after bulk_adapt and product_slice. */
void bulk_keep_result(const struct problem *problem, const struct product_tiling *tiling,
                      struct packing *packing);
/* Returns whether bulk copies can write tiles of the result: the pixels of a tile's rows must be
 * contiguous.  False for backward weights: their result has so few tiles that bulk copies gain
 * nothing. */
bool bulk_result_fits(const struct packing *packing, const struct product_tiling *tiling);
/* Returns whether bulk copies write the result.  False for tilings without bulk copies. */
bool bulk_stores_result(const struct packing *packing, const struct product_tiling *tiling);
/* Adds the tensor map of the result |tensor|, which is ARGUMENT_X or ARGUMENT_Y. */
void bulk_result(const struct packing_plan *plan, int tensor, const struct product_tiling *tiling,
                 struct solution_kernel *kernel);
void bulk_arguments(const struct packing_plan *plan, const struct product_tiling *tiling,
                    struct solution_kernel *kernel);
