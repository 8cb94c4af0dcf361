/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An OpenCL device for kernel tests: compiles a solution's program and runs its kernel, with no
 * daemon and no libkiln between.
 *
 * Ownership  opencl_close releases everything, the private PoCL cache folder included
 * Threading  one thread
 */
#include "engine/solver/solver.h"

struct opencl_device;

struct opencl_tensor {
    void *data;  /* the caller's; copied to the device before and back after the run */
    size_t size; /* bytes */
};

/* NULL when there is no OpenCL device here; |why| then says so. */
struct opencl_device *opencl_open(char why[256]);
void opencl_close(struct opencl_device *device); /* accepts NULL */
const char *opencl_name(const struct opencl_device *device);

struct opencl_kernel;
/* NULL after printing the compiler's log. */
struct opencl_kernel *opencl_build(struct opencl_device *device, const struct solution *solution);
void opencl_kernel_destroy(struct opencl_kernel *kernel); /* accepts NULL */
/* Runs kernel 0 of |solution|, which may be of another batch size than the one built. */
bool opencl_run(struct opencl_device *device, struct opencl_kernel *kernel,
                const struct solution *solution, struct opencl_tensor *x, struct opencl_tensor *w,
                struct opencl_tensor *y);
