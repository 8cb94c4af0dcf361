/* SPDX-License-Identifier: MIT */
#pragma once

/* Reads the resources of each kernel in an AMD code object from the note NT_AMDGPU_METADATA, which
 * is encoded as MessagePack. Supports code object versions 3 to 5. */
#include "common/base/bytes.h"

struct amdgpu_kernel {
    struct bytes name;
    uint64_t vgprs; /* number per work item; on gfx90a and gfx94x including the AGPRs */
    uint64_t agprs; /* 0 if the target has none */
    uint64_t sgprs; /* number per wave */
    uint64_t vgpr_spills, sgpr_spills;
    uint64_t lds;     /* static bytes of a work group */
    uint64_t scratch; /* bytes of scratch memory per work item */
    uint64_t wave;    /* number of work items in a wave */
};

typedef void amdgpu_kernel_found(void *context, const struct amdgpu_kernel *kernel);
/* Returns the number of kernels, or SIZE_MAX if the note is absent or damaged. Names are
 * borrowed from |object|. */
size_t amdgpu_kernels(struct bytes object, amdgpu_kernel_found *found, void *context);
/* |metadata| is the content of the note. */
size_t amdgpu_metadata_kernels(struct bytes metadata, amdgpu_kernel_found *found, void *context);
