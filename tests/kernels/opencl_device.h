/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An OpenCL device for kernel tests: compiles a solution's programs and runs its kernels without
 * kilnd and libkiln.
 *
 * Ownership  opencl_close releases everything, the private PoCL cache directory included
 * Threading  one thread
 */
#include "engine/solver/solver.h"

struct opencl_device;

/* The memory of a solution's arguments, in the order of enum argument_kind. */
enum opencl_memory { OPENCL_X, OPENCL_W, OPENCL_Y, OPENCL_WORKSPACE, OPENCL_MEMORIES };

struct opencl_tensor {
    void *data;  /* borrowed; copied to the device before the run and back afterwards */
    size_t size; /* bytes; 0: there is none */
};

/* NULL if there is no OpenCL device; |why| gets the reason. */
struct opencl_device *opencl_open(char why[256]);
void opencl_close(struct opencl_device *device); /* accepts NULL */
const char *opencl_name(const struct opencl_device *device);

struct opencl_kernels; /* all kernels of a solution */
enum opencl_effort {
    OPENCL_OPTIMISED, /* as in kilnd */
    OPENCL_QUICK,     /* compiles in a third of the time; runs as long as small problems allow */
};
/* NULL if it does not compile; prints the compiler's log. */
struct opencl_kernels *opencl_build(struct opencl_device *device, const struct solution *solution,
                                    enum opencl_effort effort);
void opencl_kernels_destroy(struct opencl_kernels *kernels); /* accepts NULL */
/* Runs the kernels of |solution| in order; its batch size may differ from the compiled one.  Prints
 * the failure and returns false if one fails. */
bool opencl_run(struct opencl_device *device, struct opencl_kernels *kernels,
                const struct solution *solution, struct opencl_tensor tensors[OPENCL_MEMORIES]);
