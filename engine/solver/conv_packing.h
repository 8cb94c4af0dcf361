/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Packing: how tensors come into the shape that the matrix-core kernels read, and out of it.
 *
 * Role       channels last, a group's channels in multiples of 8, so that 16-byte copies do.
 *            Tensors that are so already are used where they lie; others go through the workspace
 *            (kernels/conv_reorder.cl)
 * Ownership  plain values
 * Threading  pure functions
 *
 * Few channels (an image's three) are not filled up to 8 but to a power of two, and the pixels
 * under one row of the filter become the channels of a filter one pixel wide: folded.
 */
#include "engine/solver/solver.h"

#define PACKING_TENSORS 3 /* numbered as enum argument_kind: x, w, y */

struct packing {
    struct problem problem; /* of the packed tensors */
    struct extent out;      /* of y; a folded problem's own would count pixels that only fill up */
    uint32_t x_pixel;       /* elements from a pixel of x to the next */
    uint32_t narrow_c;      /* channels of a folded pixel; 0: not folded */
    bool moves[PACKING_TENSORS];        /* whether it is not in place already */
    uint64_t elements[PACKING_TENSORS]; /* of the packed tensor */
};

/* False where a packed tensor would have 2^31 elements or more; of backward data, x filled up to
 * whole strides along each axis. */
bool packing_of(const struct problem *p, struct packing *ret_packing);

/* A solution under construction: what each tensor's argument is, and what the workspace holds. */
struct packing_plan {
    const struct problem *problem; /* borrowed */
    const struct packing *packing; /* borrowed */
    struct solution *solution;     /* borrowed */
    struct solution_argument tensors[PACKING_TENSORS];
};

/* Gives each tensor its place; adds the kernels that pack the two operands. */
void packing_begin(struct packing_plan *plan);
/* The result as |slices| slices of fp32 sums, in place of its packed elements. */
void packing_slice_result(struct packing_plan *plan, uint32_t slices);
/* After the product: adds the kernel that brings the result to where it belongs, if it is not. */
void packing_end(struct packing_plan *plan, uint32_t slices);
