/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvImplicitGemm: a convolution as a matrix product whose matrices are never stored in memory.
 *
 *   forward           y[k][n,oh,ow] = sum over (c,r,s)   of w[k][c,r,s]   * x[n,c][oh,ow at r,s]
 *   backward data     x[c][n,ih,iw] = sum over (k,r,s)   of w[k][c,r,s]   * y[n,k][ih,iw at r,s]
 *   backward weights  w[k][c,r,s]   = sum over (n,oh,ow) of y[n,k][oh,ow] * x[n,c][oh,ow at r,s]
 *
 * "[oh,ow at r,s]" is the pixel that tap r,s multiplies for the output pixel oh,ow.  The classical
 * method (im2col) stores the second operand in memory, with each pixel repeated for every tap. Here
 * a work group computes the addresses while it copies a tile into shared memory, hence "implicit".
 * Source: Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014.
 *
 * The solver dispatches to one of its paths, see conv_implicit_gemm_paths.h.
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_implicit_gemm;
