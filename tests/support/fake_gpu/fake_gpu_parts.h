/* SPDX-License-Identifier: MIT */
#pragma once

/* Declarations that the files of a fake GPU runtime share. Both runtimes are built from the same
 * sources, either with FAKE_CUDA set to CUDA's major version, or with FAKE_HIP set to ROCm's. */
#include "tests/support/fake_gpu/fake_gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef FAKE_CUDA
#define NAMED(cuda, hip) cuda
#define MACHINE 190
#else
#define NAMED(cuda, hip) hip
#define MACHINE 224
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define FAKE_ALIGNMENT 64
#define PUBLIC __attribute__((visibility("default")))

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY = 209,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719
};

struct encoded { /* a tensor map in the form that kernels receive */
    _Alignas(64) void *address;
    uint64_t bytes; /* size of the memory at |address| */
    uint64_t rest[14];
};

extern struct fake_gpu fake_control;
/* protects fake_control, fake_clock_ms, contexts and functions */
extern pthread_mutex_t fake_mutex;
extern unsigned fake_clock_ms;

/* Returns |status|, which hipGetLastError returns next. */
int fake_remember(int status);
int fake_failure_of(const char *name);
#define FAIL_IF_REPORTED(function)                       \
    do {                                                 \
        int reported_ = fake_failure_of(TEXT(function)); \
        if (reported_)                                   \
            return reported_;                            \
    } while (0)

struct object { /* every object begins with this struct */
    enum fake_gpu_kind kind;
    struct context *owner;
};

struct stream {
    struct object object;
    /* status of a failed kernel, which the next wait for the stream returns; 0 means none */
    int failure;
};

struct context { /* for HIP, a device */
    int device;
    unsigned users;
    struct stream default_stream; /* used for the stream handle 0 */
};

struct context *fake_current(void);
void *fake_make(enum fake_gpu_kind kind, size_t size);
void fake_destroy(struct object *o);
bool fake_is_right(const struct object *o, enum fake_gpu_kind kind);
/* Returns the stream of |handle|, or NULL if it does not exist or belongs to another context. */
struct stream *fake_stream_of(void *handle);
