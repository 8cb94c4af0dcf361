/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Packing: converts tensors to the layout that the matrix-core kernels read, and results back.
 *
 * Role       decides how tensors are packed.  A packed tensor has its channels last, and the
 *            channels of each group are padded to a multiple of 16 bytes, so that kernels only need
 *            16-byte copies.  Tensors that have this layout already are used in place; others are
 *            copied to the workspace (kernels/conv_reorder.cl)
 * Ownership  plain values
 * Threading  pure functions
 *
 * Folding: the three channels of an image are padded to 4.  Padding them to 8 would waste five
 * eighths of the products.  The pixels under one row of the filter are neighbours in memory.  They
 * become the channels of one wide pixel, and the filter becomes one pixel wide.  Example: a 7x7
 * filter with stride 2 over 3 channels becomes a 7x1 filter over 7 * 4 = 28 channels, padded to 32.
 * Neighbouring wide pixels overlap: they are 2 * 4 = 8 elements apart.
 *
 * Patches: if the strides equal the filter's sizes and there is no padding, each pixel of x belongs
 * to at most one pixel of y.  With few channels of x, this is a 1x1 convolution: the pixels under
 * the filter become the channels of one wide pixel, in the order of the weights.  Example: a 4x4
 * filter with stride 4 over 3 channels becomes a 1x1 filter over 48 channels.  Without patches,
 * backward data would pad the 3 channels to 8, and read y 16 times, once for each residue modulo
 * the strides.
 *
 * Steps: a filter of one tap whose strides are larger than 1 reads only some pixels of x.  If x has
 * channels first, only these pixels are packed, and the packed problem has strides of 1.
 */
#include "engine/solver/solver.h"

/* The indexes are those of x, w, y in enum argument_kind. */
#define PACKING_TENSORS 3

struct packing {
    struct problem problem;
    /* Size of y.  problem_output(&problem) of a folded problem also counts padding pixels. */
    struct extent out;
    uint32_t x_pixel; /* elements from one pixel of x to the next */
    /* Padded number of channels of a pixel before folding; 0: x is not folded. */
    uint32_t narrow_c;
    bool has_patches;
    bool has_steps;              /* only pixels of x at multiples of the strides are packed */
    bool has_planes;             /* x and y keep their layout, with channels first */
    bool has_result_planes;      /* the result keeps its layout, with channels first */
    bool turns_w;                /* the packed weights have a row for each channel of x, not of y */
    bool moves[PACKING_TENSORS]; /* whether the tensor is copied to or from the workspace */
    uint64_t elements[PACKING_TENSORS];
};

/* Returns false if a packed tensor would have 2^31 elements or more.  For backward data, x must
 * also have fewer than 2^31 elements if each axis is padded to a multiple of the stride. */
bool packing_of(const struct problem *p, struct packing *ret_packing);

/* Gives the packed weights a row for each channel of x instead of y. Backward data sums over the
 * channels of y, which are then contiguous in the weights, as wgmma with TF32 requires. */
void packing_turn_weights(struct packing *packing);
/* Lets the product read x and y in their own layout, which must have channels first. */
void packing_keep_planes(struct packing *packing);
/* Lets the product write the result in its own layout, if that has channels first and needs no
 * padding of channels. */
void packing_keep_result(const struct problem *problem, struct packing *packing);

struct packing_plan {
    const struct problem *problem;
    const struct packing *packing;
    struct solution *solution;
    struct solution_argument tensors[PACKING_TENSORS]; /* where the product finds each tensor */
};

void packing_begin(struct packing_plan *plan);
/* Reserves workspace for |slices| slices of fp32 sums (split-K), which replace the packed
 * result. */
void packing_slice_result(struct packing_plan *plan, uint32_t slices);
/* Adds the kernel that sums the slices and unpacks the result, if necessary.  Call it after adding
 * the product. */
void packing_end(struct packing_plan *plan, uint32_t slices);
