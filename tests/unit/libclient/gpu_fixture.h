/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tests of HIP and CUDA devices on the fake runtimes (tests/support/fake_gpu): one program runs
 * with each of them, as its argument says: cuda, cuda11, hip5, hip6, hip7.
 *
 * Ownership  one runtime a process
 * Threading  set up before threads are
 */
#include "tests/support/fake_gpu/fake_gpu.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/made_plan.h"

#include <kiln/run.h>

struct gpu {
    const char *kind;      /* "hip" */
    const char *directory; /* where its runtime lies */
    bool is_cuda, has_tensor_maps;
    int rocm; /* 6; 0 for CUDA */
    const char *target;
    unsigned machine; /* of its code objects */
    struct fake_gpu *fake;
    struct bytes object; /* a code object with every kernel */
    struct kiln_error err;
};
extern struct gpu gpu;

/* Opens the fake runtime, by the search path alone; |standard| without an argument. */
void gpu_init(int argc, char **argv, const char *standard);
/* Before and after a test: the fake is as new; nothing is alive in it. */
int gpu_set_up(void **state);
int gpu_tear_down(void **state);
FIXTURE(gpu, gpu_set_up, gpu_tear_down);

/* How many objects of any kind are alive in the runtime. */
int gpu_live(void);
/* An address of the runtime's own function. */
void *gpu_symbol(const char *name);
/* "hip:1" of number 1. */
const char *gpu_name(int number);
struct kiln_device *gpu_open(int number);

/* What a plan needs to run. */
struct gpu_work {
    struct kiln_plan *plan;
    struct kiln_run *run;
    struct kiln_memory *x, *w, *y;
    struct kiln_tensors tensors;
};

/* x[i] = i, w = 10, y poisoned.  Gives back what it made where it fails. */
int gpu_work_start(struct kiln_device *device, const struct made_plan *made,
                   struct gpu_work *ret_work, struct kiln_error *err);
void gpu_work_end(struct gpu_work *work);
/* Reads y; all of it must be scale's. */
void gpu_work_check_scale(struct gpu_work *work);

struct made_plan gpu_scale(void);
/* |bytes| of floats through as much dynamic shared memory. */
struct made_plan gpu_reverse(unsigned bytes);
/* The first half of x to y, through a tensor map of |elements| of two bytes. */
struct made_plan gpu_copy_mapped(void);
/* Adds 1 to y[0]; with |entry| "fault", the device fails. */
struct made_plan gpu_count_up(const char *entry);
