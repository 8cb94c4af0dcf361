/* SPDX-License-Identifier: MIT */
/* Times cuDNN's legacy interface with numbered algorithms: cudnnFindConvolution*AlgorithmEx and
 * cudnnConvolution*. */
#include "tests/gpu/cudnn_library.h"

#include <stdio.h>
#include <string.h>

#define ALGORITHMS_MAX 16
#define TIMED_IN_FULL 3

struct found { /* members that the result types of all three directions have in common */
    int algorithm;
    cudnnStatus_t status;
    float ms;
    size_t memory;
    cudnnMathType_t math;
};

struct convolution {
    const struct cudnn_case *c;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t convolution;
    void *data[BENCH_TENSORS], *workspace;
    struct found now;
};

static int narrow(const int64_t *from, int count, int *to)
{
    for (int i = 0; i < count; i++)
        to[i] = (int)from[i];
    return count;
}

static cudnnStatus_t describe_tensor(const struct convolution *v, enum bench_tensor which,
                                     cudnnTensorDescriptor_t *ret_tensor)
{
    const struct cudnn *d = v->c->cudnn;
    const struct problem *p = &v->c->bench->problem;
    const struct cudnn_shape shape = cudnn_shape_of(p, which);
    int sizes[CUDNN_DIMS_MAX], strides[CUDNN_DIMS_MAX];
    int count = narrow(shape.sizes, shape.count, sizes);
    narrow(shape.strides, shape.count, strides);
    cudnnStatus_t status = d->cudnnCreateTensorDescriptor(ret_tensor);
    return status ? status
                  : d->cudnnSetTensorNdDescriptor(*ret_tensor, cudnn_type_of(p), count, sizes,
                                                  strides);
}

static cudnnStatus_t describe_filter(struct convolution *v, const struct problem *p)
{
    const struct cudnn *d = v->c->cudnn;
    const struct cudnn_shape shape = cudnn_shape_of(p, BENCH_W);
    int sizes[CUDNN_DIMS_MAX];
    int count = narrow(shape.sizes, shape.count, sizes);
    cudnnTensorFormat_t format =
        p->w_layout == LAYOUT_CHANNELS_LAST ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    cudnnStatus_t status = d->cudnnCreateFilterDescriptor(&v->w);
    return status ? status
                  : d->cudnnSetFilterNdDescriptor(v->w, cudnn_type_of(p), format, count, sizes);
}

static cudnnStatus_t describe_convolution(struct convolution *v, const struct problem *p)
{
    const struct cudnn *d = v->c->cudnn;
    int64_t values[3];
    int pads[3], strides[3], dilations[3];
    int count = narrow(values, cudnn_extent(p, &p->pad, values), pads);
    narrow(values, cudnn_extent(p, &p->stride, values), strides);
    narrow(values, cudnn_extent(p, &p->dilation, values), dilations);
    cudnnMathType_t math = v->c->math == CUDNN_DEFAULT ? CUDNN_DEFAULT_MATH
                           : p->type == TYPE_FLOAT32   ? CUDNN_FMA_MATH
                                                       : CUDNN_TENSOR_OP_MATH;
    cudnnStatus_t status = d->cudnnCreateConvolutionDescriptor(&v->convolution);
    if (!status)
        status = d->cudnnSetConvolutionNdDescriptor(v->convolution, count, pads, strides, dilations,
                                                    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    if (!status)
        status = d->cudnnSetConvolutionGroupCount(v->convolution, (int)p->groups);
    return status ? status : d->cudnnSetConvolutionMathType(v->convolution, math);
}

static cudnnStatus_t describe(struct convolution *v, const struct problem *p)
{
    cudnnStatus_t status = describe_tensor(v, BENCH_X, &v->x);
    if (!status)
        status = describe_tensor(v, BENCH_Y, &v->y);
    if (!status)
        status = describe_filter(v, p);
    return status ? status : describe_convolution(v, p);
}

static void convolution_done(struct convolution *v)
{
    const struct cudnn *d = v->c->cudnn;
    if (v->x)
        d->cudnnDestroyTensorDescriptor(v->x);
    if (v->y)
        d->cudnnDestroyTensorDescriptor(v->y);
    if (v->w)
        d->cudnnDestroyFilterDescriptor(v->w);
    if (v->convolution)
        d->cudnnDestroyConvolutionDescriptor(v->convolution);
}

/* Copies the results of cuDNN's search. The searches of the three directions only differ in types
 * and in the order of parameters. */
#define TAKE(results)                                                                            \
    for (int i = 0; i < *ret_count; i++)                                                         \
        ret_found[i] = (struct found)                                                            \
        {                                                                                        \
            (int)(results)[i].algo, (results)[i].status, (results)[i].time, (results)[i].memory, \
                (results)[i].mathType                                                            \
        }

static cudnnStatus_t find_forward(struct convolution *v, struct found *ret_found, int *ret_count)
{
    const struct cudnn *d = v->c->cudnn;
    cudnnConvolutionFwdAlgoPerf_t results[ALGORITHMS_MAX];
    cudnnStatus_t status = d->cudnnFindConvolutionForwardAlgorithmEx(
        d->handle, v->x, v->data[BENCH_X], v->w, v->data[BENCH_W], v->convolution, v->y,
        v->data[BENCH_Y], ALGORITHMS_MAX, ret_count, results, v->workspace, v->c->workspace.bytes);
    TAKE(results);
    return status;
}

static cudnnStatus_t find_data(struct convolution *v, struct found *ret_found, int *ret_count)
{
    const struct cudnn *d = v->c->cudnn;
    cudnnConvolutionBwdDataAlgoPerf_t results[ALGORITHMS_MAX];
    cudnnStatus_t status = d->cudnnFindConvolutionBackwardDataAlgorithmEx(
        d->handle, v->w, v->data[BENCH_W], v->y, v->data[BENCH_Y], v->convolution, v->x,
        v->data[BENCH_X], ALGORITHMS_MAX, ret_count, results, v->workspace, v->c->workspace.bytes);
    TAKE(results);
    return status;
}

static cudnnStatus_t find_weights(struct convolution *v, struct found *ret_found, int *ret_count)
{
    const struct cudnn *d = v->c->cudnn;
    cudnnConvolutionBwdFilterAlgoPerf_t results[ALGORITHMS_MAX];
    cudnnStatus_t status = d->cudnnFindConvolutionBackwardFilterAlgorithmEx(
        d->handle, v->x, v->data[BENCH_X], v->y, v->data[BENCH_Y], v->convolution, v->w,
        v->data[BENCH_W], ALGORITHMS_MAX, ret_count, results, v->workspace, v->c->workspace.bytes);
    TAKE(results);
    return status;
}

static cudnnStatus_t run(const struct convolution *v)
{
    const struct cudnn *d = v->c->cudnn;
    const float one = 1, zero = 0;
    size_t memory = v->now.memory;
    switch (v->c->bench->problem.direction) {
    case DIRECTION_FORWARD:
        return d->cudnnConvolutionForward(d->handle, &one, v->x, v->data[BENCH_X], v->w,
                                          v->data[BENCH_W], v->convolution,
                                          (cudnnConvolutionFwdAlgo_t)v->now.algorithm, v->workspace,
                                          memory, &zero, v->y, v->data[BENCH_Y]);
    case DIRECTION_BACKWARD_DATA:
        return d->cudnnConvolutionBackwardData(d->handle, &one, v->w, v->data[BENCH_W], v->y,
                                               v->data[BENCH_Y], v->convolution,
                                               (cudnnConvolutionBwdDataAlgo_t)v->now.algorithm,
                                               v->workspace, memory, &zero, v->x, v->data[BENCH_X]);
    default:
        return d->cudnnConvolutionBackwardFilter(
            d->handle, &one, v->x, v->data[BENCH_X], v->y, v->data[BENCH_Y], v->convolution,
            (cudnnConvolutionBwdFilterAlgo_t)v->now.algorithm, v->workspace, memory, &zero, v->w,
            v->data[BENCH_W]);
    }
}

static enum kiln_code launch(void *context, struct kiln_err *err)
{
    const struct convolution *v = context;
    cudnnStatus_t status = run(v);
    return status ? cudnn_fail(v->c->cudnn, status, "a convolution", err) : KILN_OK;
}

static cudnnStatus_t find(struct convolution *v, struct found *ret_found, int *ret_count)
{
    switch (v->c->bench->problem.direction) {
    case DIRECTION_FORWARD: return find_forward(v, ret_found, ret_count);
    case DIRECTION_BACKWARD_DATA: return find_data(v, ret_found, ret_count);
    default: return find_weights(v, ret_found, ret_count);
    }
}

/* Returns whether the algorithm may be timed. It must not have failed, and must not need too much
 * workspace. In an fp32 problem, it may use TF32 only if |math| permits it. */
static bool is_allowed(const struct convolution *v, const struct found *f)
{
    bool single = v->c->bench->problem.type == TYPE_FLOAT32;
    if (f->status || f->memory > v->c->workspace.bytes)
        return false;
    return v->c->math == CUDNN_DEFAULT || !single || f->math == CUDNN_FMA_MATH;
}

static enum kiln_code check_best(struct convolution *v, const struct found *best,
                                 struct cudnn_best *ret_best, struct kiln_err *err)
{
    if (!v->c->check || ret_best->timing.microseconds == 0)
        return KILN_OK;
    v->now = *best;
    cudnnStatus_t status = v->c->cudnn->cudnnSetConvolutionMathType(v->convolution, best->math);
    enum kiln_code rc = status ? cudnn_fail(v->c->cudnn, status, "cudnnSetConvolutionMathType", err)
                               : launch(v, err);
    if (!rc)
        rc = v->c->check(v->c->context, err);
    ret_best->is_checked = !rc;
    return rc ? kiln_while(err, "%s", ret_best->name) : KILN_OK;
}

static enum kiln_code time_found(struct convolution *v, const struct found *found, int count,
                                 struct cudnn_best *best, struct kiln_err *err)
{
    const struct cuda_work work = { .launch = launch, .context = v };
    struct found fastest = { 0 };
    enum kiln_code rc = KILN_OK;
    unsigned timed = 0;
    for (int i = 0; i < count && timed < TIMED_IN_FULL && !rc; i++) {
        struct cuda_timing timing;
        if (!is_allowed(v, &found[i]))
            continue;
        v->now = found[i];
        if (v->c->cudnn->cudnnSetConvolutionMathType(v->convolution, found[i].math))
            continue;
        rc = cuda_time(v->c->cuda, &work, &timing, err);
        timed++;
        if (rc ||
            (best->timing.microseconds > 0 && timing.microseconds >= best->timing.microseconds))
            continue;
        fastest = found[i];
        best->timing = timing;
        best->workspace = found[i].memory;
        snprintf(best->name, sizeof(best->name), "algorithm %d, math %d", found[i].algorithm,
                 (int)found[i].math);
    }
    best->tried = (unsigned)count;
    return rc ? rc : check_best(v, &fastest, best, err);
}

static enum kiln_code begin(struct convolution *v, struct found *ret_found, int *ret_count,
                            struct kiln_err *err)
{
    for (int i = 0; i < BENCH_TENSORS; i++)
        memcpy(&v->data[i], &v->c->bench->tensors[i].address, sizeof(void *));
    memcpy(&v->workspace, &v->c->workspace.address, sizeof(void *));
    cudnnStatus_t status = describe(v, &v->c->bench->problem);
    if (!status)
        status = find(v, ret_found, ret_count);
    return status ? cudnn_fail(v->c->cudnn, status, "cudnnFindConvolution", err) : KILN_OK;
}

enum kiln_code cudnn_find(const struct cudnn_case *c, struct cudnn_best *ret_best,
                          struct kiln_err *err)
{
    struct convolution v = { .c = c };
    struct found found[ALGORITHMS_MAX];
    int count = 0;
    memset(ret_best, 0, sizeof(*ret_best));
    enum kiln_code rc = begin(&v, found, &count, err);
    if (!rc)
        rc = time_found(&v, found, count, ret_best, err);
    convolution_done(&v);
    return rc;
}

static enum kiln_code launch_first_allowed(struct convolution *v, const struct found *found,
                                           int count, unsigned launches, struct kiln_err *err)
{
    int i = 0;
    while (i < count && !is_allowed(v, &found[i]))
        i++;
    if (i == count)
        return kiln_fail(err, KILN_UNSUPPORTED, "cuDNN finds no algorithm");
    v->now = found[i];
    cudnnStatus_t status = v->c->cudnn->cudnnSetConvolutionMathType(v->convolution, v->now.math);
    enum kiln_code rc =
        status ? cudnn_fail(v->c->cudnn, status, "cudnnSetConvolutionMathType", err) : KILN_OK;
    for (unsigned launched = 0; launched < launches && !rc; launched++)
        rc = launch(v, err);
    return rc;
}

enum kiln_code cudnn_meet(const struct cudnn_case *c, unsigned launches, struct kiln_err *err)
{
    struct convolution v = { .c = c };
    struct found found[ALGORITHMS_MAX];
    int count = 0;
    enum kiln_code rc = begin(&v, found, &count, err);
    if (!rc)
        rc = launch_first_allowed(&v, found, count, launches, err);
    convolution_done(&v);
    return rc;
}
