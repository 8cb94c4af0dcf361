/* SPDX-License-Identifier: MIT */
#pragma once

/* Compiles a solution's programs for an OpenCL device and runs its kernels, without kilnd and
 * libkiln. opencl_close also removes the private cache directory of PoCL. */
#include "engine/solver/solver.h"

struct opencl_device;

/* In the order of enum argument_kind. */
enum opencl_memory { OPENCL_X, OPENCL_W, OPENCL_Y, OPENCL_WORKSPACE, OPENCL_MEMORIES };

struct opencl_tensor {
    void *data;  /* borrowed; copied to the device before the run and back afterwards */
    size_t size; /* in bytes; 0 if there is no such memory */
};

/* If there is no device, returns NULL and stores the reason in |why|. */
struct opencl_device *opencl_open(char why[256]);
void opencl_close(struct opencl_device *device); /* accepts NULL */
const char *opencl_name(const struct opencl_device *device);

struct opencl_kernels; /* all kernels of a solution */
enum opencl_effort {
    OPENCL_OPTIMISED, /* with the same optimisation as in kilnd */
    /* compiles in a third of the time; small problems do not run longer */
    OPENCL_QUICK,
};
/* Returns NULL if a kernel does not compile, and prints the compiler's log. */
struct opencl_kernels *opencl_build(struct opencl_device *device, const struct solution *solution,
                                    enum opencl_effort effort);
void opencl_kernels_destroy(struct opencl_kernels *kernels);
/* Runs the kernels of |solution| in order. The batch size of |solution| may differ from the
 * compiled one. If a kernel fails, prints the failure and returns false. */
bool opencl_run(struct opencl_device *device, struct opencl_kernels *kernels,
                const struct solution *solution, struct opencl_tensor tensors[OPENCL_MEMORIES]);
