/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An OpenCL device for kernel tests: compiles a solution's programs and runs its kernels without
 * kilnd and libkiln.
 *
 * Ownership  opencl_close releases everything, including the private cache directory of PoCL
 * Threading  one thread
 */
#include "engine/solver/solver.h"

struct opencl_device;

/* The memory of a solution's arguments, in the order of enum argument_kind. */
enum opencl_memory { OPENCL_X, OPENCL_W, OPENCL_Y, OPENCL_WORKSPACE, OPENCL_MEMORIES };

struct opencl_tensor {
    void *data;  /* borrowed; copied to the device before the run and back afterwards */
    size_t size; /* in bytes; 0 if there is no such memory */
};

/* Opens a device.  Returns NULL if there is none; |why| then receives the reason. */
struct opencl_device *opencl_open(char why[256]);
void opencl_close(struct opencl_device *device); /* accepts NULL */
const char *opencl_name(const struct opencl_device *device);

struct opencl_kernels; /* all kernels of a solution */
enum opencl_effort {
    OPENCL_OPTIMISED, /* as in kilnd */
    /* compiles in a third of the time; with small problems, the kernels do not run longer */
    OPENCL_QUICK,
};
/* Compiles all kernels of a solution.  Returns NULL if one does not compile, and prints the
 * compiler's log. */
struct opencl_kernels *opencl_build(struct opencl_device *device, const struct solution *solution,
                                    enum opencl_effort effort);
void opencl_kernels_destroy(struct opencl_kernels *kernels); /* accepts NULL */
/* Runs the kernels of |solution| in order.  Its batch size may differ from the compiled one.  If a
 * kernel fails, prints the failure and returns false. */
bool opencl_run(struct opencl_device *device, struct opencl_kernels *kernels,
                const struct solution *solution, struct opencl_tensor tensors[OPENCL_MEMORIES]);
