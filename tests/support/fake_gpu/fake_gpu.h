/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Fake GPU runtimes: libcuda.so.1 and libamdhip64.so.{5,6,7}, for hosts without a GPU.
 *
 * Role       they keep the rules that the real ones have (every object belongs to the context or
 *            device that is current when it is made, and is used in no other), run kernels as host
 *            functions, count what is alive, and fail when told to.  What a kernel does is found by
 *            its name; a code object (ELF, section headers last) has those kernels whose names
 *            stand in its bytes
 * Ownership  the library; tests dlopen it and ask for struct fake_gpu by fake_gpu_control()
 * Threading  any thread
 *
 * Kernels (arguments as a plan gives them)
 *   - scale(x, w, y, add, times, wide): each item has y[i] = x[i] * w[0] * times + add + high half
 *     of wide
 *   - reverse(x, y, n): n floats, through as much dynamic shared memory
 *   - count_up(y): y[0] += 1 for each group
 *   - fault(): the stream fails, as its next wait says
 *   - copy_mapped(map, y): CUDA since 12; all that the tensor map is about, to y
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_GPU_DEVICES 3
#define FAKE_GPU_SHARED_MAX 232448 /* bytes of dynamic shared memory, as sm_90 has */
#define FAKE_GPU_SHARED_ALLOWED 49152
#define FAKE_GPU_MEMORY_MAX ((uint64_t)1 << 40)
#define FAKE_GPU_MS_PER_LAUNCH 2    /* on the fake clock that events read */
#define FAKE_GPU_OTHER_TARGET 0xbad /* a code object with these e_flags is another target's */

enum fake_gpu_kind {
    FAKE_MEMORY,
    FAKE_STREAM,
    FAKE_EVENT,
    FAKE_MODULE,
    FAKE_CONTEXT, /* CUDA: those that were made, and primary ones in use */
    FAKE_KINDS
};

struct fake_gpu_map { /* what a tensor map was asked for with */
    bool is_im2col;
    int type, interleave, swizzle, promotion, fill; /* CUDA's numbers */
    void *address;
    uint32_t rank;
    uint64_t dims[5], strides[4];
    uint32_t box[5], steps[5];
    int lower[3], upper[3];
    uint32_t channels, pixels;
};

struct fake_gpu {
    int devices;           /* that the runtime shows */
    unsigned fail_at;      /* the n-th call from now fails; 0: none does */
    const char *fail_name; /* every call of this function fails; NULL: none does */
    int fail_status;       /* with that status */
    unsigned calls;        /* since the start */
    unsigned launches;     /* that were done */
    unsigned modules_ever; /* that were loaded */
    int live[FAKE_KINDS];  /* objects that nobody destroyed yet */
    const char *arch;      /* HIP: gcnArchName */
    int capability;        /* CUDA: 90 */
    bool is_mig;           /* CUDA: every device is a part of one */
    void *last_stream;     /* of the last launch */
    unsigned last_shared;  /* the same */
    unsigned encodes;      /* tensor maps that were made */
    struct fake_gpu_map last_map;
};

struct fake_gpu *fake_gpu_control(void);
