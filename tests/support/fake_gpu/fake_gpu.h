/* SPDX-License-Identifier: MIT */
#pragma once

/* Fake GPU runtimes: libcuda.so.1 and libamdhip64.so.{5,6,7}, for hosts without a GPU.
 *
 * The fake runtimes enforce the rules of the real runtimes: every object belongs to the context or
 * device that is current when it is created, and may only be used there. The fake runtimes run
 * kernels as functions on the CPU, count existing objects, and fail on demand. A kernel's name
 * selects its function. A code object (ELF, section headers last) has the kernels whose names occur
 * in its bytes.
 *
 * Tests open the library with dlopen and call fake_gpu_control(). Any thread may use it.
 *
 * Kernels, with their arguments:
 *   - scale(x, w, y, add, times, wide): each item computes y[i] = x[i] * w[0] * times + add + the
 *     high half of wide
 *   - reverse(x, y, n): reverses n floats in dynamic shared memory of that size
 *   - count_up(y): y[0] += 1 for each group
 *   - fault(): the stream fails; the next wait reports it
 *   - copy_mapped(map, y): CUDA since 12; copies the tensor map's memory to y */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_GPU_DEVICES 3
/* bytes of dynamic shared memory that a kernel can request, as on sm_90 */
#define FAKE_GPU_SHARED_MAX 232448
#define FAKE_GPU_SHARED_ALLOWED 49152
#define FAKE_GPU_MEMORY_MAX ((uint64_t)1 << 40)
/* each launch advances the fake clock, from which events get their times, by this many ms */
#define FAKE_GPU_MS_PER_LAUNCH 2
#define FAKE_GPU_OTHER_TARGET 0xbad /* e_flags of a code object for another target */

enum fake_gpu_kind {
    FAKE_MEMORY,
    FAKE_STREAM,
    FAKE_EVENT,
    FAKE_MODULE,
    FAKE_CONTEXT, /* CUDA only: contexts that the test created, and primary contexts in use */
    FAKE_KINDS
};

struct fake_gpu_map { /* arguments of the last cuTensorMapEncode* call */
    bool is_im2col;
    int type, interleave, swizzle, promotion, fill; /* values of CUDA's enums */
    void *address;
    uint32_t rank;
    uint64_t dims[5], strides[4];
    uint32_t box[5], steps[5];
    int lower[3], upper[3];
    uint32_t channels, pixels;
};

struct fake_gpu {
    int devices;
    unsigned fail_at;      /* the number of the call that fails, counted from 1; 0 means none */
    const char *fail_name; /* name of a function whose calls all fail; may be NULL */
    int fail_status;
    unsigned calls;
    unsigned launches;
    unsigned modules_ever;
    int live[FAKE_KINDS];
    const char *arch; /* HIP: gcnArchName of every device */
    int capability;   /* CUDA: compute capability of every device, such as 90 */
    bool is_mig;      /* CUDA: whether every device is a MIG instance */
    void *last_stream;
    int capture_mode, last_load_mode; /* now, and when a module was loaded last */
    unsigned last_stream_flags;       /* of the stream that was created last */
    unsigned last_shared;
    unsigned encodes;
    struct fake_gpu_map last_map;
};

struct fake_gpu *fake_gpu_control(void);
