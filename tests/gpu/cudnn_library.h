/* SPDX-License-Identifier: MIT */
#pragma once

/* cuDNN's functions.  The library is opened at run time, so building needs only its headers.
 *
 * Ownership  cudnn_open / cudnn_close
 * Threading  one thread */
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

/* Call cuda_open first. Returns KILN_UNAVAILABLE if cuDNN is not installed. */
KILN_MUST_CHECK enum kiln_code cudnn_open(struct cudnn *ret_cudnn, struct kiln_err *err);
void cudnn_close(struct cudnn *cudnn);
enum kiln_code cudnn_fail(const struct cudnn *cudnn, cudnnStatus_t status, const char *what,
                          struct kiln_err *err);

#define CUDNN_DIMS_MAX 5

/* A tensor or filter for cuDNN's descriptors: sizes and strides in the order N, C, [D,] H, W,
 * whatever the layout in memory. */
struct cudnn_shape {
    int count;
    int64_t sizes[CUDNN_DIMS_MAX], strides[CUDNN_DIMS_MAX];
};

struct cudnn_shape cudnn_shape_of(const struct problem *p, enum bench_tensor which);

/* Writes |e| into |values| in the order [D,] H, W. Returns the number of dimensions, 2 or 3. */
int cudnn_extent(const struct problem *p, const struct extent *e, int64_t values[3]);

cudnnDataType_t cudnn_type_of(const struct problem *p);

/* For one problem and one of cuDNN's two interfaces, the fastest algorithm or engine. */
struct cudnn_best {
    struct cuda_timing timing; /* 0 if no algorithm or engine works */
    char name[48];
    uint64_t workspace;
    unsigned tried;
    bool is_checked; /* the result was compared with the reference and was right */
};

enum cudnn_math {
    /* no TF32: fp32 products in fp32; fp16 products on matrix cores with 32-bit sums */
    CUDNN_EXACT,
    CUDNN_DEFAULT /* what cuDNN does by default: TF32 in fp32 problems */
};

struct cudnn_case {
    struct cuda *cuda;
    struct cudnn *cudnn;
    const struct bench *bench;
    struct guarded workspace;
    enum cudnn_math math;
    /* Called after one more launch of the fastest algorithm. Returns KILN_CORRUPT if the output
     * differs from the reference. May be NULL. */
    enum kiln_code (*check)(void *context, struct kiln_err *err);
    void *context;
};

/* Lets cuDNN's search (cudnnFindConvolution*AlgorithmEx) sort its algorithms, and times the three
 * fastest. */
KILN_MUST_CHECK enum kiln_code cudnn_find(const struct cudnn_case *c, struct cudnn_best *ret_best,
                                          struct kiln_err *err);
/* Does what a framework's benchmark mode does for a new problem: lets cuDNN search for the fastest
 * algorithm, then launches it |launches| times without waiting for the end. */
KILN_MUST_CHECK enum kiln_code cudnn_meet(const struct cudnn_case *c, unsigned launches,
                                          struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code cudnn_graph(const struct cudnn_case *c, struct cudnn_best *ret_best,
                                           struct kiln_err *err);
