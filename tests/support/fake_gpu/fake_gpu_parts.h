/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the files of a fake GPU runtime share.  One source for both runtimes, which have the same
 * shape: FAKE_CUDA with CUDA's major version, or FAKE_HIP with ROCm's.
 *
 *   fake_gpu.c    being told to fail, contexts, devices
 *   fake_maps.c   tensor maps, which CUDA has since 12
 *   fake_work.c   memory, streams, events, code objects, launches
 */
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
#define FAKE_ALIGNMENT 64 /* of objects, and of memory */
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

struct encoded { /* a tensor map, as kernels take it */
    _Alignas(64) void *address;
    uint64_t bytes; /* from there on */
    uint64_t rest[14];
};

extern struct fake_gpu fake_control;
extern pthread_mutex_t fake_mutex; /* while those are looked at that several threads change */
extern unsigned fake_clock_ms;

/* What HIP remembers for hipGetLastError; returns |status|. */
int fake_remember(int status);
/* What this call is to fail with; 0: nothing. */
int fake_failure_of(const char *name);
#define FAIL_IF_REPORTED(function)                       \
    do {                                                 \
        int reported_ = fake_failure_of(TEXT(function)); \
        if (reported_)                                   \
            return reported_;                            \
    } while (0)

struct object { /* first member of every object's */
    enum fake_gpu_kind kind;
    struct context *owner;
};

struct stream {
    struct object object;
    int failure; /* of a kernel: the next wait says so */
};

struct context { /* of HIP: a device */
    int device;
    unsigned users;               /* of a primary one */
    struct stream default_stream; /* what the handle 0 stands for */
};

/* The calling thread's; NULL: none. */
struct context *fake_current(void);
/* An object of the current context, zeroed. */
void *fake_make(enum fake_gpu_kind kind, size_t size);
void fake_destroy(struct object *o);
/* Used where it was made, and as what it is. */
bool fake_is_right(const struct object *o, enum fake_gpu_kind kind);
/* NULL: none that may be used here. */
struct stream *fake_stream_of(void *handle);
