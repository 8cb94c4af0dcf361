/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One NVIDIA GPU through the CUDA driver API.  The driver is opened at run time, so building needs
 * no part of CUDA.
 *
 * A kernel that fails makes the context unusable, and thereby the process (see |is_lost|).
 *
 * Ownership  cuda_open / cuda_close; the caller frees memory and modules
 * Threading  one thread
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "libclient/device/cuda_tensor_map.h"

struct cuda_driver {
    void *dl;
#define CUDA_SYMBOL(field, name, ...) int (*field)(__VA_ARGS__);
#include "tests/gpu/cuda_symbols.def"
#undef CUDA_SYMBOL
};

struct cuda {
    struct cuda_driver driver;
    int device;
    void *context;
    void *before, *after;
    char name[128];
    char target[16]; /* such as "sm_90" */
    int compute_units;
    int l2_bytes;
    int clock_khz;
    bool is_lost;
};

/* Returns KILN_UNAVAILABLE if there is no driver or no GPU. */
KILN_MUST_CHECK enum kiln_code cuda_open(struct cuda *ret_cuda, struct kiln_err *err);
void cuda_close(struct cuda *cuda);
/* Writes the target whose code may use all instructions of this kind of GPU: "sm_90a" for sm_90. */
void cuda_full_target(const char *target, char ret_full[16]);
/* Turns |result| into a message, and sets |is_lost| for failures that break the context. */
KILN_PRINTF(4, 5)
enum kiln_code cuda_fail(struct cuda *cuda, int result, struct kiln_err *err, const char *format,
                         ...);
KILN_MUST_CHECK enum kiln_code cuda_finish(struct cuda *cuda, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code cuda_load(struct cuda *cuda, struct bytes object, void **ret_module,
                                         struct kiln_err *err);

struct cuda_resources {
    int registers;
    int shared; /* statically allocated bytes of a group */
    int local;  /* bytes of an item for spills and for arrays outside registers */
};

KILN_MUST_CHECK enum kiln_code cuda_function(struct cuda *cuda, void *module, const char *name,
                                             void **ret_function, struct kiln_err *err);
/* Allows a function |bytes| of dynamic shared memory in each group. */
KILN_MUST_CHECK enum kiln_code cuda_allow_shared(struct cuda *cuda, void *function, uint32_t bytes,
                                                 struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code cuda_read_resources(struct cuda *cuda, void *function,
                                                   struct cuda_resources *ret_resources,
                                                   struct kiln_err *err);

/* The result of cuda_time. After a warm-up, cuda_time launches the work in batches, without a
 * pause. A batch is long enough for the resolution of the events. The time is the median of the
 * batches' means. As in the benchmark modes of frameworks, the L2 cache is not flushed between
 * launches. */
struct cuda_timing {
    double microseconds;
    double spread; /* half the distance between the quartiles, relative to the median */
    unsigned launches;
};

struct cuda_work {
    /* Launches the work once, without waiting for its end. A failure ends the timing. */
    enum kiln_code (*launch)(void *context, struct kiln_err *err);
    void *context;
    /* If a launch takes longer than this time, it is repeated less often, and the result is less
     * exact. 0 means no limit. */
    double hopeless_us;
};

KILN_MUST_CHECK enum kiln_code cuda_time(struct cuda *cuda, const struct cuda_work *work,
                                         struct cuda_timing *ret_timing, struct kiln_err *err);
