/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The matrix product behind a convolution on matrix cores (kernels/conv_implicit_gemm_mma.cl).
 *
 *                       rows           columns              reduction
 *     forward           pixels of y    channels of y        channels of x, taps
 *     backward data     pixels of x    channels of x        channels of y, taps
 *     backward weights  channels of y  channels of x, taps  pixels of y
 *
 * A work group computes tile_m x tile_n results.  The group adds tile_k products to each result at
 * a time.  Example: forward, 64 images of 56x56 pixels, 64 channels of x and of y, a 3x3 filter.
 * The product has 64 * 56 * 56 = 200 704 rows and 64 columns.  Tiles of 128 x 64 x 32 make 1568
 * work groups, each of which takes 9 taps * (64 / 32) = 18 tiles along the reduction.
 *
 *   Split-K   Backward weights has few rows and columns, but a long reduction.  To fill the GPU,
 *             several work groups compute one tile of the result, each from a slice of the
 *             reduction.  The groups write fp32 sums, which conv_reorder.cl adds up.
 *   Bands     Work groups that run at the same time should read the same operands, so that these
 *             stay in the L2 cache.  So tiles are numbered within a band of a few rows of tiles,
 *             column by column, before the next band begins.
 *
 * Source of both ideas: CUTLASS's documentation, "Efficient GEMM in CUDA" (which calls bands
 * "threadblock rasterization").  data_box in conv_bulk.c explains backward data with strides.
 *
 * Role       computes the shape of the product, and creates a solution that computes it in tiles.
 *            NVIDIA's and AMD's paths (conv_implicit_gemm_mma.c, conv_implicit_gemm_mfma.c) choose
 *            the tiles
 * Ownership  plain values
 * Threading  pure functions
 */
#include "engine/solver/conv_packing.h"

/* With channels first, bulk copies load the pixels of a channel in runs of this size.  The pixels
 * of each image are padded to whole runs. */
#define RUN_BYTES 128u

struct product {
    /* If there are several residue classes, |rows| is the number of rows of the largest class. */
    uint64_t rows, columns;
    uint32_t tiles; /* tiles along the reduction */
    /* Number of residue classes modulo the strides for backward data; otherwise 1. */
    uint32_t residues;
    uint32_t residues_busy; /* classes that at least one tap reaches */
};

/* Returns whether the kernel supports the problem.  The type must be fp16, bf16 or, with
 * |has_tf32|, fp32 that may be rounded to TF32.  The packed tensors must be small enough to be
 * indexed, and the filter's sizes must fit a row's mask of taps.  Fills |ret_packing| if it returns
 * true. */
bool product_covers(const struct problem *problem, bool has_tf32, struct packing *ret_packing);
/* Returns false if another solver or path is likely to be faster.  Groups with few channels leave
 * matrix cores mostly idle.  Packing is not worth it for backward data with a small x and one
 * channel of y in each group, nor for backward weights with a small x if y has one pixel and few
 * channels. */
bool product_is_favoured(const struct problem *problem);

struct product product_of(const struct packing *packing, uint32_t tile_k);

struct product_tiling {
    uint32_t tile_m, tile_n, tile_k;
    uint32_t element; /* bytes of an operand's element */
    /* Warps (waves) of a work group, and tiles in shared memory. */
    uint32_t warps_m, warps_n, stages;
    /* Rows of tiles that are computed together, for the L2 cache. */
    uint32_t band;
    uint32_t slice, slices; /* for split-K: tiles in a slice, and number of slices */
    bool is_wide;           /* four warps along M multiply together (wgmma) */
    bool is_bulk;           /* only with is_wide: bulk copies load the tiles */
    bool is_persistent;     /* only with is_bulk: a work group computes several tiles */
    /* only with is_bulk: the right operand is transposed in shared memory */
    bool turns_right;
    bool holds_left;          /* only with is_bulk: the left operand is loaded into registers */
    bool has_result_planes;   /* only with is_bulk: the operands are packed, but not the result */
    uint32_t groups;          /* persistent work groups; 0: each tile has a work group */
    uint32_t threads, shared; /* of a work group */
};

/* Sets |slice| and |slices|. There are fewer slices than |split| if the last ones would be
 * empty. */
void product_slice(const struct product *product, uint32_t split, struct product_tiling *ret);
/* Returns the bytes of shared memory for tiles, and for the barriers with which bulk copies signal
 * their completion.  The operands' tiles and the result's tile share memory, except in persistent
 * groups. */
uint32_t product_tile_bytes(const struct product_tiling *tiling, uint32_t stages);
/* Returns the number of work groups, including those that have no tile. */
uint64_t product_groups(const struct packing *packing, const struct product *product,
                        const struct product_tiling *tiling);

/* Returns true if another tiling computes the same product with fewer resources: if the matrix
 * fills at most half of a tile, if the reduction is split although the work groups fill any GPU
 * without a split, or if the reduction is too short for |split| slices. */
bool product_is_redundant(const struct packing *packing, const struct product *product,
                          const struct product_tiling *tiling, uint32_t split);

/* Adds the kernels that pack, multiply and unpack.  Returns the product's program, to which the
 * caller adds the options of its matrix cores. */
struct solution_program *product_solve(const struct problem *problem,
                                       const struct product_tiling *tiling,
                                       struct solution *ret_solution);
