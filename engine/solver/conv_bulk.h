/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tensor maps for the product behind a convolution: how bulk copies see its operands
 * (kernels/conv_implicit_gemm_bulk.cl).
 *
 * Role       what can be copied so, and the kernel's arguments
 * Ownership  plain values
 * Threading  pure functions
 */
#include "engine/solver/conv_product.h"

/* Whether the copy hardware can bring the operands of such tiles. */
bool bulk_fits(const struct packing *packing, const struct product_tiling *tiling);
/* 1 where pixels are numbered through: 1x1, stride 1, no pads. */
bool bulk_is_flat(const struct packing *packing);
/* Whether bulk copies can write such tiles of the result: rows of pixels that all lie one behind
 * the other.  (Backward weights has too few tiles to gain by it.) */
bool bulk_result_fits(const struct packing *packing, const struct product_tiling *tiling);
/* Adds the map of the result, which is |tensor|: ARGUMENT_X or ARGUMENT_Y. */
void bulk_result(const struct packing_plan *plan, int tensor, struct solution_kernel *kernel);
/* Adds the maps of both operands, in the kernel's order, to |kernel| and the plan's solution. */
void bulk_arguments(const struct packing_plan *plan, const struct product_tiling *tiling,
                    struct solution_kernel *kernel);
