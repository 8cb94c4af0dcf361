/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * cuDNN, which is opened at run time.  Only its headers are needed to build.
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

/* Called after cuda_open.  Returns KILN_UNAVAILABLE if cuDNN is not installed. */
KILN_MUST_CHECK enum kiln_code cudnn_open(struct cudnn *ret_cudnn, struct kiln_err *err);
void cudnn_close(struct cudnn *cudnn);
enum kiln_code cudnn_fail(const struct cudnn *cudnn, cudnnStatus_t status, const char *what,
                          struct kiln_err *err);

#define CUDNN_DIMS_MAX 5

/* A tensor or filter as cuDNN's descriptors expect it: sizes and strides in the order N, C, [D,] H,
 * W, for any layout in memory. */
struct cudnn_shape {
    int count;
    int64_t sizes[CUDNN_DIMS_MAX], strides[CUDNN_DIMS_MAX];
};

struct cudnn_shape cudnn_shape_of(const struct problem *p, enum bench_tensor which);

/* Writes an extent in the order [D,] H, W.  Returns the number of dimensions. */
int cudnn_extent(const struct problem *p, const struct extent *e, int64_t values[3]);

cudnnDataType_t cudnn_type_of(const struct problem *p);

/* the fastest algorithm or engine of one of cuDNN's two interfaces for a problem */
struct cudnn_best {
    struct cuda_timing timing; /* 0 if the interface has no algorithm or engine */
    char name[48];
    uint64_t workspace;
    unsigned tried;
    bool is_checked; /* whether the result was compared with the reference and agreed */
};

enum cudnn_math {
    CUDNN_EXACT,  /* fp32 products in fp32, and fp16 on matrix cores with 32-bit sums */
    CUDNN_DEFAULT /* cuDNN's default, which uses TF32 in fp32 problems */
};

struct cudnn_case {
    struct cuda *cuda;
    struct cudnn *cudnn;
    const struct bench *bench;
    struct guarded workspace;
    enum cudnn_math math;
    /* Called after the fastest algorithm ran once more.  Returns KILN_CORRUPT if the output differs
     * from the reference.  NULL if results are not checked. */
    enum kiln_code (*check)(void *context, struct kiln_err *err);
    void *context;
};

/* Times the three fastest algorithms of cudnnFindConvolution*AlgorithmEx. */
KILN_MUST_CHECK enum kiln_code cudnn_find(const struct cudnn_case *c, struct cudnn_best *ret_best,
                                          struct kiln_err *err);
/* Does what a framework's benchmark mode does for a new problem. First calls
 * cudnnFindConvolution*AlgorithmEx. Then launches the fastest algorithm |launches| times, without
 * waiting. */
KILN_MUST_CHECK enum kiln_code cudnn_meet(const struct cudnn_case *c, unsigned launches,
                                          struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code cudnn_graph(const struct cudnn_case *c, struct cudnn_best *ret_best,
                                           struct kiln_err *err);
