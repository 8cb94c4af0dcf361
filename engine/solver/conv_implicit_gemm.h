/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvImplicitGemm: a convolution as a product of matrices that are never written out.
 *
 *   F  y[k][n,oh,ow]   = sum over (c,r,s)    of w[k][c,r,s]   * x[n,c][oh,ow at r,s]
 *   B  x[c][n,ih,iw]   = sum over (k,r,s)    of w[k][c,r,s]   * y[n,k][ih,iw at r,s]
 *   W  w[k][c,r,s]     = sum over (n,oh,ow)  of y[n,k][oh,ow] * x[n,c][oh,ow at r,s]
 *
 * It dispatches to its paths, see conv_implicit_gemm_paths.h.
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_implicit_gemm;
