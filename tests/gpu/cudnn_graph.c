/* SPDX-License-Identifier: MIT */
/* Times cuDNN's graph interface. Describes one convolution as a graph, and times every engine that
 * cuDNN's heuristics suggest for it, as the benchmark modes of current frameworks do. */
#include "tests/gpu/cudnn_library.h"

#include <stdio.h>
#include <string.h>

#define ENGINES_MAX 64
#define NOTES_MAX CUDNN_NUMERICAL_NOTE_TYPE_COUNT
#define SLOWER_HOPELESS 1.5

struct graph {
    const struct cudnn_case *c;
    cudnnBackendDescriptor_t tensors[BENCH_TENSORS], convolution, operation, graph;
    cudnnBackendDescriptor_t plan, pack;
    cudnnStatus_t status;
};

/* The functions below store the first error in |status|. After an error they do nothing. */
static void make(struct graph *g, cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *ret)
{
    if (!g->status)
        g->status = g->c->cudnn->cudnnBackendCreateDescriptor(type, ret);
}

static void set_value(struct graph *g, cudnnBackendDescriptor_t descriptor,
                      cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      const void *value)
{
    if (!g->status)
        g->status = g->c->cudnn->cudnnBackendSetAttribute(descriptor, name, type, 1, value);
}

static void set_numbers(struct graph *g, cudnnBackendDescriptor_t descriptor,
                        cudnnBackendAttributeName_t name, int64_t count, const int64_t *values)
{
    if (!g->status)
        g->status = g->c->cudnn->cudnnBackendSetAttribute(descriptor, name, CUDNN_TYPE_INT64, count,
                                                          values);
}

static void set_pointers(struct graph *g, cudnnBackendDescriptor_t descriptor,
                         cudnnBackendAttributeName_t name, int64_t count, void *const *values)
{
    if (!g->status)
        g->status = g->c->cudnn->cudnnBackendSetAttribute(descriptor, name, CUDNN_TYPE_VOID_PTR,
                                                          count, values);
}

static void finish(struct graph *g, cudnnBackendDescriptor_t descriptor)
{
    if (!g->status)
        g->status = g->c->cudnn->cudnnBackendFinalize(descriptor);
}

static void destroy(const struct graph *g, cudnnBackendDescriptor_t *descriptor)
{
    if (*descriptor)
        g->c->cudnn->cudnnBackendDestroyDescriptor(*descriptor);
    *descriptor = NULL;
}

static void set_descriptor(struct graph *g, cudnnBackendDescriptor_t descriptor,
                           cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    set_value(g, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &value);
}

/* ---- the graph ---- */

static void make_tensor(struct graph *g, enum bench_tensor which)
{
    const struct problem *p = &g->c->bench->problem;
    const struct cudnn_shape shape = cudnn_shape_of(p, which);
    int64_t id = which + 1, alignment = 16;
    cudnnDataType_t type = cudnn_type_of(p);
    cudnnBackendDescriptor_t *t = &g->tensors[which];
    make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, t);
    set_value(g, *t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &type);
    set_numbers(g, *t, CUDNN_ATTR_TENSOR_DIMENSIONS, shape.count, shape.sizes);
    set_numbers(g, *t, CUDNN_ATTR_TENSOR_STRIDES, shape.count, shape.strides);
    set_numbers(g, *t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &id);
    set_numbers(g, *t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &alignment);
    finish(g, *t);
}

static void make_convolution(struct graph *g)
{
    const struct problem *p = &g->c->bench->problem;
    int64_t pads[3], strides[3], dilations[3];
    int64_t dims = cudnn_extent(p, &p->pad, pads);
    cudnn_extent(p, &p->stride, strides);
    cudnn_extent(p, &p->dilation, dilations);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, &g->convolution);
    cudnnBackendDescriptor_t c = g->convolution;
    set_value(g, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &type);
    set_value(g, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &mode);
    set_numbers(g, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &dims);
    set_numbers(g, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, dims, pads);
    set_numbers(g, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, dims, pads);
    set_numbers(g, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, dims, strides);
    set_numbers(g, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, dims, dilations);
    finish(g, c);
}

static void make_operation(struct graph *g)
{
    static const struct {
        cudnnBackendDescriptorType_t type;
        cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
    } rows[] = {
        { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
        { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
        { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
    };
    const float one = 1, zero = 0;
    unsigned direction = g->c->bench->problem.direction;
    make(g, rows[direction].type, &g->operation);
    cudnnBackendDescriptor_t o = g->operation;
    set_descriptor(g, o, rows[direction].x, g->tensors[BENCH_X]);
    set_descriptor(g, o, rows[direction].w, g->tensors[BENCH_W]);
    set_descriptor(g, o, rows[direction].y, g->tensors[BENCH_Y]);
    set_descriptor(g, o, rows[direction].convolution, g->convolution);
    set_value(g, o, rows[direction].alpha, CUDNN_TYPE_FLOAT, &one);
    set_value(g, o, rows[direction].beta, CUDNN_TYPE_FLOAT, &zero);
    finish(g, o);
}

static void make_graph(struct graph *g)
{
    for (int which = 0; which < BENCH_TENSORS; which++)
        make_tensor(g, (enum bench_tensor)which);
    make_convolution(g);
    make_operation(g);
    make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &g->graph);
    set_value(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE,
              &g->c->cudnn->handle);
    set_descriptor(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, g->operation);
    finish(g, g->graph);
}

static void graph_done(struct graph *g)
{
    destroy(g, &g->graph);
    destroy(g, &g->operation);
    destroy(g, &g->convolution);
    for (int i = 0; i < BENCH_TENSORS; i++)
        destroy(g, &g->tensors[i]);
}

/* ---- engines ---- */

static int64_t list_engines(struct graph *g, cudnnBackendHeurMode_t mode,
                            cudnnBackendDescriptor_t *ret_configs)
{
    cudnnBackendDescriptor_t heuristics = NULL;
    int64_t count = 0;
    make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics);
    set_descriptor(g, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph);
    set_value(g, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
    finish(g, heuristics);
    for (int i = 0; i < ENGINES_MAX; i++)
        make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &ret_configs[i]);
    if (!g->status)
        g->status = g->c->cudnn->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                          CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                          ENGINES_MAX, &count, ret_configs);
    destroy(g, &heuristics);
    return g->status ? 0 : count < ENGINES_MAX ? count : ENGINES_MAX;
}

/* Returns the number of the engine. Returns -1 if the engine uses TF32 or reduced-precision sums,
 * but |math| does not permit it. */
static int64_t allowed_engine(struct graph *g, cudnnBackendDescriptor_t config)
{
    const struct cudnn *d = g->c->cudnn;
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t notes[NOTES_MAX];
    int64_t got = 0, count = 0, number = -1;
    bool single = g->c->bench->problem.type == TYPE_FLOAT32;
    make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    if (g->status)
        return -1;
    if (d->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &got, &engine) ||
        d->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                    &got, &number) ||
        d->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                    CUDNN_TYPE_NUMERICAL_NOTE, NOTES_MAX, &count, notes))
        number = -1;
    for (int64_t i = 0; i < count && g->c->math == CUDNN_EXACT; i++)
        if (notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
            (single && (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                        notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)))
            number = -1;
    destroy(g, &engine);
    return number;
}

/* Returns the bytes of workspace that the plan needs. Returns -1 if cuDNN cannot make the plan, or
 * the workspace is too small for it. */
static int64_t make_plan(struct graph *g, cudnnBackendDescriptor_t config)
{
    const struct cudnn_case *c = g->c;
    int64_t got = 0, size = 0, ids[BENCH_TENSORS];
    void *pointers[BENCH_TENSORS], *workspace;
    for (int i = 0; i < BENCH_TENSORS; i++) {
        ids[i] = i + 1;
        memcpy(&pointers[i], &c->bench->tensors[i].address, sizeof(void *));
    }
    memcpy(&workspace, &c->workspace.address, sizeof(void *));
    make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &g->plan);
    set_value(g, g->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &c->cudnn->handle);
    set_descriptor(g, g->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    finish(g, g->plan);
    if (!g->status)
        g->status = c->cudnn->cudnnBackendGetAttribute(
            g->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &got, &size);
    make(g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &g->pack);
    set_numbers(g, g->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, BENCH_TENSORS, ids);
    set_pointers(g, g->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, BENCH_TENSORS, pointers);
    set_pointers(g, g->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1, &workspace);
    finish(g, g->pack);
    return g->status || (uint64_t)size > c->workspace.bytes ? -1 : size;
}

static enum kiln_code launch(void *context, struct kiln_err *err)
{
    const struct graph *g = context;
    const struct cudnn *d = g->c->cudnn;
    cudnnStatus_t status = d->cudnnBackendExecute(d->handle, g->plan, g->pack);
    return status ? cudnn_fail(d, status, "an engine", err) : KILN_OK;
}

static bool is_right(struct graph *g, int64_t number)
{
    struct kiln_err why = KILN_ERR_INIT;
    if (!g->c->check)
        return true;
    if (!launch(g, &why) && !g->c->check(g->c->context, &why))
        return true;
    fprintf(stderr, "engine %lld: %s\n", (long long)number, why.text);
    return false;
}

/* Times one engine, and keeps it in |best| if it is the fastest. Ignores errors, because cuDNN's
 * heuristics also suggest engines that do not work. */
static void try_config(struct graph *g, cudnnBackendDescriptor_t config, struct cudnn_best *best)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct cuda_timing timing;
    const struct cuda_work work = { .launch = launch,
                                    .context = g,
                                    .hopeless_us = best->timing.microseconds * SLOWER_HOPELESS };
    int64_t number = allowed_engine(g, config);
    int64_t size = number < 0 ? -1 : make_plan(g, config);
    if (size >= 0 && !g->c->cuda->is_lost) {
        best->tried++;
        if (!cuda_time(g->c->cuda, &work, &timing, &ignored) &&
            (best->timing.microseconds == 0 || timing.microseconds < best->timing.microseconds) &&
            is_right(g, number)) {
            best->timing = timing;
            best->is_checked = g->c->check != NULL;
            best->workspace = (uint64_t)size;
            snprintf(best->name, sizeof(best->name), "engine %lld", (long long)number);
        }
    }
    destroy(g, &g->pack);
    destroy(g, &g->plan);
    g->status = CUDNN_STATUS_SUCCESS;
}

enum kiln_code cudnn_graph(const struct cudnn_case *c, struct cudnn_best *ret_best,
                           struct kiln_err *err)
{
    static const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK };
    struct graph g = { .c = c };
    memset(ret_best, 0, sizeof(*ret_best));
    make_graph(&g);
    enum kiln_code rc = g.status ? cudnn_fail(c->cudnn, g.status, "a graph", err) : KILN_OK;
    for (size_t mode = 0; mode < 2 && !rc; mode++) {
        cudnnBackendDescriptor_t configs[ENGINES_MAX] = { NULL };
        int64_t count = list_engines(&g, modes[mode], configs);
        /* an error means that the heuristics suggest no engine in this mode */
        g.status = CUDNN_STATUS_SUCCESS;
        for (int64_t i = 0; i < count; i++)
            try_config(&g, configs[i], ret_best);
        for (int i = 0; i < ENGINES_MAX; i++)
            destroy(&g, &configs[i]);
    }
    graph_done(&g);
    return rc;
}
