/* SPDX-License-Identifier: MIT */
#include "tests/gpu/cudnn_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define CUDNN_SYMBOL(function) { #function, offsetof(struct cudnn, function) },
#include "tests/gpu/cudnn_symbols.def"
#undef CUDNN_SYMBOL
};

static void *try_pattern(const char *pattern, struct cudnn *cudnn)
{
    glob_t found;
    void *dl = NULL;
    if (glob(pattern, 0, NULL, &found))
        return NULL;
    for (size_t i = 0; i < found.gl_pathc && !dl; i++) {
        dl = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
        if (!dl)
            fprintf(stderr, "%s\n", dlerror());
        snprintf(cudnn->path, sizeof(cudnn->path), "%s", found.gl_pathv[i]);
    }
    globfree(&found);
    return dl;
}

static void *try_name(const char *name, struct cudnn *cudnn)
{
    snprintf(cudnn->path, sizeof(cudnn->path), "%s", name);
    return dlopen(name, RTLD_NOW | RTLD_GLOBAL);
}

static void *find_library(struct cudnn *cudnn)
{
    static const char *const patterns[] = {
        "/usr/local/cuda/lib64/libcudnn.so.9",
        "/usr/lib/x86_64-linux-gnu/libcudnn.so.9",
    };
    const char *given = getenv("KILN_CUDNN");
    void *dl = given ? try_pattern(given, cudnn) : NULL;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]) && !dl && !given; i++)
        dl = try_pattern(patterns[i], cudnn);
    /* For a name without a path, the loader searches LD_LIBRARY_PATH and the system's
     * directories. */
    return dl || given ? dl : try_name("libcudnn.so.9", cudnn);
}

enum kiln_code cudnn_fail(const struct cudnn *cudnn, cudnnStatus_t status, const char *what,
                          struct kiln_err *err)
{
    return kiln_fail(err, KILN_UNAVAILABLE, "%s: cuDNN says '%s'", what,
                     cudnn->cudnnGetErrorString(status));
}

enum kiln_code cudnn_open(struct cudnn *ret_cudnn, struct kiln_err *err)
{
    *ret_cudnn = (struct cudnn){ .dl = NULL };
    ret_cudnn->dl = find_library(ret_cudnn);
    if (!ret_cudnn->dl)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "there is no cuDNN 9 here: install it, or set KILN_CUDNN to the library");
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *symbol = dlsym(ret_cudnn->dl, symbols[i].name);
        if (!symbol)
            return kiln_fail(err, KILN_UNAVAILABLE, "'%s' lacks '%s'", ret_cudnn->path,
                             symbols[i].name);
        memcpy((char *)ret_cudnn + symbols[i].offset, &symbol, sizeof(symbol));
    }
    cudnnStatus_t status = ret_cudnn->cudnnCreate(&ret_cudnn->handle);
    return status ? cudnn_fail(ret_cudnn, status, "cudnnCreate", err) : KILN_OK;
}

void cudnn_close(struct cudnn *cudnn)
{
    if (cudnn->handle)
        cudnn->cudnnDestroy(cudnn->handle);
    cudnn->handle = NULL; /* The library stays loaded, because unloading it at exit is not safe. */
}

cudnnDataType_t cudnn_type_of(const struct problem *p)
{
    return p->type == TYPE_FLOAT32   ? CUDNN_DATA_FLOAT
           : p->type == TYPE_FLOAT16 ? CUDNN_DATA_HALF
                                     : CUDNN_DATA_BFLOAT16;
}

int cudnn_extent(const struct problem *p, const struct extent *e, int64_t values[3])
{
    int count = 0;
    if (p->spatial_dims == 3)
        values[count++] = e->d;
    values[count++] = e->h;
    values[count++] = e->w;
    return count;
}

/* Strides have the order of |sizes| (N, C, [D,] H, W), whether channels come last or second in
 * memory. */
static struct cudnn_shape make_shape(const struct problem *p, const uint32_t outer[2],
                                     const struct extent *e, uint32_t layout)
{
    struct cudnn_shape shape = { .sizes = { outer[0], outer[1] } };
    bool last = layout == LAYOUT_CHANNELS_LAST;
    shape.count = 2 + cudnn_extent(p, e, shape.sizes + 2);
    int64_t step = last ? outer[1] : 1;
    for (int i = shape.count - 1; i >= 2; i--) {
        shape.strides[i] = step;
        step *= shape.sizes[i];
    }
    shape.strides[1] = last ? 1 : step;
    shape.strides[0] = last ? step : step * outer[1];
    return shape;
}

struct cudnn_shape cudnn_shape_of(const struct problem *p, enum bench_tensor which)
{
    const struct extent out = problem_output(p);
    switch (which) {
    case BENCH_X: return make_shape(p, (const uint32_t[]){ p->n, p->c }, &p->in, p->x_layout);
    case BENCH_W:
        return make_shape(p, (const uint32_t[]){ p->k, p->c / p->groups }, &p->filter, p->w_layout);
    default: return make_shape(p, (const uint32_t[]){ p->n, p->k }, &out, p->y_layout);
    }
}
