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

/* After cuda_open.  KILN_UNAVAILABLE where there is none. */
KILN_MUST_CHECK enum kiln_code cudnn_open(struct cudnn *ret_cudnn, struct kiln_err *err);
void cudnn_close(struct cudnn *cudnn);
enum kiln_code cudnn_fail(const struct cudnn *cudnn, cudnnStatus_t status, const char *what,
                          struct kiln_err *err);

#define CUDNN_DIMS_MAX 5 /* of a tensor: batch, channels and three of space */

/* A tensor or a filter as cuDNN's descriptors want it: its sizes in the order N, C, [D,] H, W
 * whatever lies in memory, and the step along each of them. */
struct cudnn_shape {
    int count; /* 4, or 5 for a 3-D problem */
    int64_t sizes[CUDNN_DIMS_MAX], strides[CUDNN_DIMS_MAX];
};

struct cudnn_shape cudnn_shape_of(const struct problem *p, enum bench_tensor which);

/* One of a problem's extents in the order [D,] H, W; returns how many there are. */
int cudnn_extent(const struct problem *p, const struct extent *e, int64_t values[3]);

cudnnDataType_t cudnn_type_of(const struct problem *p);

/* The fastest that an interface offers for a problem. */
struct cudnn_best {
    struct cuda_timing timing; /* microseconds 0: it offers nothing */
    char name[48];             /* "algorithm 6, FMA" or "engine 34" */
    uint64_t workspace;
    unsigned tried;
    bool is_checked; /* its result was compared with the reference's, and is right */
};

enum cudnn_math {
    CUDNN_EXACT,  /* fp32 in fp32; fp16 on matrix cores with 32-bit sums */
    CUDNN_DEFAULT /* what cuDNN does when nobody says: TF32 in fp32 problems */
};

struct cudnn_case {
    struct cuda *cuda;
    struct cudnn *cudnn;
    const struct bench *bench; /* operands are there */
    struct guarded workspace;  /* for any of them */
    enum cudnn_math math;
    /* Compares the output of the fastest, run once more, with the reference's: KILN_CORRUPT where
     * it is wrong.  NULL: results are not looked at. */
    enum kiln_code (*check)(void *context, struct kiln_err *err);
    void *context;
};

/* cudnnFindConvolution*AlgorithmEx, then the three fastest timed as everything here is. */
KILN_MUST_CHECK enum kiln_code cudnn_find(const struct cudnn_case *c, struct cudnn_best *ret_best,
                                          struct kiln_err *err);
/* What frameworks' benchmark mode does when it meets a problem: cudnnFindConvolution*AlgorithmEx,
 * then |launches| of the fastest, without waiting for them. */
KILN_MUST_CHECK enum kiln_code cudnn_meet(const struct cudnn_case *c, unsigned launches,
                                          struct kiln_err *err);
/* All engines that cuDNN's heuristics list, each timed. */
KILN_MUST_CHECK enum kiln_code cudnn_graph(const struct cudnn_case *c, struct cudnn_best *ret_best,
                                           struct kiln_err *err);
