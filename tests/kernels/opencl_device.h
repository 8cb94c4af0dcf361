/* SPDX-License-Identifier: MIT */
#pragma once

/* Compiles a solution's programs for an OpenCL device and runs its kernels, without kilnd and
 * libkiln. opencl_close also removes the private cache directory of PoCL. */
#include "engine/solver/solver.h"

struct opencl_device;

/* In the order of enum argument_kind, so that a kind can be an index. */
enum opencl_memory { OPENCL_X, OPENCL_W, OPENCL_Y, OPENCL_WORKSPACE, OPENCL_MEMORIES };

struct opencl_tensor {
    void *data;  /* borrowed; opencl_run copies the data to the device and back */
    size_t size; /* in bytes; 0 if there is no such memory */
};

/* Returns NULL and stores the reason in |why| if there is no OpenCL device. */
struct opencl_device *opencl_open(char why[256]);
void opencl_close(struct opencl_device *device); /* accepts NULL */
const char *opencl_name(const struct opencl_device *device);

struct opencl_kernels; /* all kernels of a solution */
enum opencl_effort {
    OPENCL_OPTIMISED, /* with the options that kilnd uses */
    /* without optimisation: compiles in a third of the time, and small problems run as fast */
    OPENCL_QUICK,
};
/* Returns NULL if a kernel does not compile without warnings, and prints the compiler's log. */
struct opencl_kernels *opencl_build(struct opencl_device *device, const struct solution *solution,
                                    enum opencl_effort effort);
void opencl_kernels_destroy(struct opencl_kernels *kernels);
/* Runs the kernels of |solution| in order. |solution| may have another batch size than the one for
 * which |kernels| was built. If a kernel fails, prints the error and returns false. */
bool opencl_run(struct opencl_device *device, struct opencl_kernels *kernels,
                const struct solution *solution, struct opencl_tensor tensors[OPENCL_MEMORIES]);
