/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * cuDNN, opened at run time; only its headers are needed to build.
 *
 * Ownership  cudnn_open / cudnn_close
 * Threading  one thread
 */
#include "tests/gpu/judge.h"

#include <cudnn.h>

struct cudnn {
    void *dl;
#define CUDNN_SYMBOL(function) __typeof__(&function) function;
#include "tests/gpu/cudnn_symbols.def"
#undef CUDNN_SYMBOL
    cudnnHandle_t handle;
    char path[256];
};

/* Call it after cuda_open.  KILN_UNAVAILABLE if cuDNN is not installed. */
KILN_MUST_CHECK enum kiln_code cudnn_open(struct cudnn *ret_cudnn, struct kiln_err *err);
void cudnn_close(struct cudnn *cudnn);
enum kiln_code cudnn_fail(const struct cudnn *cudnn, cudnnStatus_t status, const char *what,
                          struct kiln_err *err);

#define CUDNN_DIMS_MAX 5 /* of a tensor: batch, channels, three spatial ones */

/* A tensor or filter as cuDNN's descriptors expect it: sizes and strides in the order
 * N, C, [D,] H, W, whatever the layout in memory is. */
struct cudnn_shape {
    int count; /* 4, or 5 for a 3-D problem */
    int64_t sizes[CUDNN_DIMS_MAX], strides[CUDNN_DIMS_MAX];
};

struct cudnn_shape cudnn_shape_of(const struct problem *p, enum bench_tensor which);

/* Writes an extent in the order [D,] H, W; returns the number of dimensions. */
int cudnn_extent(const struct problem *p, const struct extent *e, int64_t values[3]);

cudnnDataType_t cudnn_type_of(const struct problem *p);

/* The fastest algorithm or engine of an interface for a problem. */
struct cudnn_best {
    struct cuda_timing timing; /* microseconds 0: the interface has none */
    char name[48];             /* "algorithm 6, FMA" or "engine 34" */
    uint64_t workspace;
    unsigned tried;
    bool is_checked; /* its result agreed with the reference */
};

enum cudnn_math {
    CUDNN_EXACT,  /* fp32 in fp32; fp16 on matrix cores with 32-bit sums */
    CUDNN_DEFAULT /* cuDNN's default: TF32 in fp32 problems */
};

struct cudnn_case {
    struct cuda *cuda;
    struct cudnn *cudnn;
    const struct bench *bench; /* with its operands filled */
    struct guarded workspace;  /* of every algorithm and engine */
    enum cudnn_math math;
    /* Compares the output with the reference, after the fastest ran once more: KILN_CORRUPT if it
     * is wrong.  NULL: results are not checked. */
    enum kiln_code (*check)(void *context, struct kiln_err *err);
    void *context;
};

/* Calls cudnnFindConvolution*AlgorithmEx, then times its three fastest with cuda_time. */
KILN_MUST_CHECK enum kiln_code cudnn_find(const struct cudnn_case *c, struct cudnn_best *ret_best,
                                          struct kiln_err *err);
/* Does what a framework's benchmark mode does at a new problem: cudnnFindConvolution*AlgorithmEx,
 * then |launches| launches of the fastest algorithm, without waiting for them. */
KILN_MUST_CHECK enum kiln_code cudnn_meet(const struct cudnn_case *c, unsigned launches,
                                          struct kiln_err *err);
/* Times all engines that cuDNN's heuristics list. */
KILN_MUST_CHECK enum kiln_code cudnn_graph(const struct cudnn_case *c, struct cudnn_best *ret_best,
                                           struct kiln_err *err);
