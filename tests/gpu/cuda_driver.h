/* SPDX-License-Identifier: MIT */
#pragma once

/* One NVIDIA GPU through the CUDA driver API.  The driver is opened at run time, so building needs
 * no part of CUDA.
 *
 * A kernel that fails makes the CUDA context unusable for the rest of the process, which must then
 * end (see |is_lost|).
 *
 * Ownership  cuda_open / cuda_close; the caller frees memory and modules
 * Threading  one thread */
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

/* Opens the first GPU. Returns KILN_UNAVAILABLE if there is no driver or no GPU. */
KILN_MUST_CHECK enum kiln_code cuda_open(struct cuda *ret_cuda, struct kiln_err *err);
void cuda_close(struct cuda *cuda);
/* Writes the variant of |target| that has all of the GPU's instructions: "sm_90a" for "sm_90". */
void cuda_full_target(const char *target, char ret_full[16]);
/* Stores a message about |result| in |err|, and sets |is_lost| if the failure makes the context
 * unusable. */
KILN_PRINTF(4, 5)
enum kiln_code cuda_fail(struct cuda *cuda, int result, struct kiln_err *err, const char *format,
                         ...);
KILN_MUST_CHECK enum kiln_code cuda_finish(struct cuda *cuda, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code cuda_load(struct cuda *cuda, struct bytes object, void **ret_module,
                                         struct kiln_err *err);

struct cuda_resources {
    int registers;
    int shared; /* bytes of static shared memory for each group */
    /* bytes of local memory for each item: spilled registers, and arrays that do not fit into
     * registers */
    int local;
};

KILN_MUST_CHECK enum kiln_code cuda_function(struct cuda *cuda, void *module, const char *name,
                                             void **ret_function, struct kiln_err *err);
/* Lets |function| use up to |bytes| of dynamic shared memory in each group. */
KILN_MUST_CHECK enum kiln_code cuda_allow_shared(struct cuda *cuda, void *function, uint32_t bytes,
                                                 struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code cuda_read_resources(struct cuda *cuda, void *function,
                                                   struct cuda_resources *ret_resources,
                                                   struct kiln_err *err);

/* The result of cuda_time. After a warm-up, cuda_time launches the work in batches without pauses,
 * each long enough for the events' resolution. The time is the median of the batches' means. The L2
 * cache is not flushed between launches, as in the benchmark modes of frameworks. */
struct cuda_timing {
    double microseconds;
    /* half the distance between the quartiles of the batches, relative to the median */
    double spread;
    unsigned launches;
};

struct cuda_work {
    /* Launches the work once without waiting for its end. cuda_time stops at the first error. */
    enum kiln_code (*launch)(void *context, struct kiln_err *err);
    void *context;
    /* If a launch takes longer than this, an exact time is not needed, and cuda_time launches the
     * work only a few times. 0 means no limit. */
    double hopeless_us;
};

KILN_MUST_CHECK enum kiln_code cuda_time(struct cuda *cuda, const struct cuda_work *work,
                                         struct cuda_timing *ret_timing, struct kiln_err *err);
