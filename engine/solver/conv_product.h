/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The product of matrices behind a convolution on matrix cores (kernels/conv_implicit_gemm_mma.cl).
 *
 * Role       its shape, and a solution that does it in tiles; NVIDIA's and AMD's paths differ in
 *            which tiles they can have and in what those cost
 * Ownership  plain values
 * Threading  pure functions
 */
#include "engine/solver/conv_packing.h"

struct product {
    uint64_t rows, columns; /* of a group; of the residue with the most */
    uint32_t tiles;         /* along the reduction */
    uint32_t residues;      /* backward data goes by the strides' remainders; else 1 */
    uint32_t residues_busy; /* those of them that meet any tap */
};

/* Whether the kernel covers the problem, whatever multiplies: fp16 or bf16, packed tensors that can
 * be indexed, taps that fit a row's mask.  Fills |ret_packing| then. */
bool product_covers(const struct problem *problem, struct packing *ret_packing);
/* Groups of a channel or two leave matrix cores mostly empty. */
bool product_is_favoured(const struct problem *problem);

struct product product_of(const struct packing *packing, uint32_t tile_k);

/* How a kernel cuts it. */
struct product_tiling {
    uint32_t tile_m, tile_n, tile_k;   /* of a work group */
    uint32_t warps_m, warps_n, stages; /* warps, or waves, that share it; tiles in shared memory */
    uint32_t band;                     /* rows of tiles done together */
    uint32_t slice, slices;            /* tiles of a slice of the reduction */
    bool is_wide;                      /* four warps along M multiply together (wgmma) */
    bool is_bulk;                      /* the same, out of tiles that bulk copies bring */
    bool is_lasting;                   /* and a work group does several tiles */
    uint32_t groups;                   /* work groups of it then; 0: one for each tile */
    uint32_t threads, shared;          /* of a work group; bytes of a launch's shared memory */
};

/* slice and slices of |ret| for a reduction that is cut into |split|; fewer where that leaves none
 * for the last. */
void product_slice(const struct product *product, uint32_t split, struct product_tiling *ret);
/* Bytes of the tiles in shared memory: the operands', or the result's on its way out; and of the
 * signals that bulk copies report to. */
uint32_t product_tile_bytes(const struct product_tiling *tiling, uint32_t stages);
/* Work groups, busy or not. */
uint64_t product_groups(const struct packing *packing, const struct product *product,
                        const struct product_tiling *tiling);

/* Whether a tiling does work for nothing, or what another one does as well: a tile of which no half
 * is needed, more slices than fill any GPU, a |split| that makes fewer slices. */
bool product_is_pointless(const struct packing *packing, const struct product *product,
                          const struct product_tiling *tiling, uint32_t split);

/* Packs, multiplies, unpacks.  The program that multiplies is returned: it wants the options of
 * its matrix cores. */
struct solution_program *product_solve(const struct problem *problem,
                                       const struct product_tiling *tiling,
                                       struct solution *ret_solution);
