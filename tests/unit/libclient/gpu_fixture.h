/* SPDX-License-Identifier: MIT */
#pragma once

/* Tests on the fake runtimes of HIP and CUDA (tests/support/fake_gpu). The program's argument
 * chooses the runtime: cuda, cuda11, hip5, hip6 or hip7. A process has one runtime. */
#include "tests/support/fake_gpu/fake_gpu.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/made_plan.h"

#include <kiln/run.h>

struct gpu {
    const char *kind; /* such as "hip" */
    const char *directory;
    bool is_cuda, has_tensor_maps;
    int rocm; /* such as 6; 0 for CUDA */
    const char *target;
    unsigned machine; /* ELF machine of the runtime's code objects */
    struct fake_gpu *fake;
    struct bytes object; /* a code object with every kernel */
    struct kiln_error err;
};
extern struct gpu gpu;

/* Opens the fake runtime through the search path. |standard| names the runtime if the program has
 * no argument. */
void gpu_init(int argc, char **argv, const char *standard);
/* gpu_tear_down fails if an object still exists in the fake. */
int gpu_set_up(void **state);
int gpu_tear_down(void **state);
FIXTURE(gpu, gpu_set_up, gpu_tear_down);

int gpu_live(void);
void *gpu_symbol(const char *name);
/* Returns a name such as "hip:1". */
const char *gpu_name(int number);
struct kiln_device *gpu_open(int number);

struct gpu_work {
    struct kiln_plan *plan;
    struct kiln_run *run;
    struct kiln_memory *x, *w, *y;
    struct kiln_tensors tensors;
};

/* Sets x[i] = i, w = 10 and poisons y. On failure, releases everything. */
int gpu_work_start(struct kiln_device *device, const struct made_plan *made,
                   struct gpu_work *ret_work, struct kiln_error *err);
void gpu_work_end(struct gpu_work *work);
void gpu_work_check_scale(struct gpu_work *work);

struct made_plan gpu_scale(void);
/* The plan reverses |bytes| bytes of floats, and uses dynamic shared memory of the same size. */
struct made_plan gpu_reverse(unsigned bytes);
/* The plan copies the first half of x to y through a tensor map with elements of two bytes. */
struct made_plan gpu_copy_mapped(void);
/* The plan adds 1 to y[0]. If |entry| is "fault", the device fails. */
struct made_plan gpu_count_up(const char *entry);
