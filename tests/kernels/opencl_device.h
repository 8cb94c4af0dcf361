/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An OpenCL device for kernel tests: compiles a solution's programs and runs its kernels, with no
 * daemon and no libkiln between.
 *
 * Ownership  opencl_close releases everything, the private PoCL cache directory included
 * Threading  one thread
 */
#include "engine/solver/solver.h"

struct opencl_device;

/* What a solution's arguments point to, in the order of enum argument_kind. */
enum opencl_memory { OPENCL_X, OPENCL_W, OPENCL_Y, OPENCL_WORKSPACE, OPENCL_MEMORIES };

struct opencl_tensor {
    void *data;  /* the caller's; copied to the device before and back after the run */
    size_t size; /* bytes; 0: there is none */
};

/* NULL when there is no OpenCL device here; |why| then says so. */
struct opencl_device *opencl_open(char why[256]);
void opencl_close(struct opencl_device *device); /* accepts NULL */
const char *opencl_name(const struct opencl_device *device);

struct opencl_kernels; /* all that a solution launches */
enum opencl_effort {
    OPENCL_OPTIMISED, /* as kilnd has it done */
    OPENCL_QUICK,     /* compiles in a third of the time; runs as long as small problems allow */
};
/* NULL after printing the compiler's log. */
struct opencl_kernels *opencl_build(struct opencl_device *device, const struct solution *solution,
                                    enum opencl_effort effort);
void opencl_kernels_destroy(struct opencl_kernels *kernels); /* accepts NULL */
/* Runs the kernels of |solution| in their order; it may be of another batch size than the one
 * built.  False after printing what failed. */
bool opencl_run(struct opencl_device *device, struct opencl_kernels *kernels,
                const struct solution *solution, struct opencl_tensor tensors[OPENCL_MEMORIES]);
