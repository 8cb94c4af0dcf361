/* SPDX-License-Identifier: MIT */
#pragma once

/* Reads the resources of each kernel in an AMD code object (versions 3 to 5) from its note
 * NT_AMDGPU_METADATA, which is encoded as MessagePack. */
#include "common/base/bytes.h"

struct amdgpu_kernel {
    struct bytes name;
    uint64_t vgprs; /* vector registers per work item; on gfx90a and gfx94x including |agprs| */
    uint64_t agprs; /* accumulation registers per work item; 0 if the target has none */
    uint64_t sgprs; /* number per wave */
    uint64_t vgpr_spills, sgpr_spills;
    uint64_t lds;     /* bytes of static LDS memory per work group */
    uint64_t scratch; /* bytes of scratch memory per work item */
    uint64_t wave;    /* number of work items in a wave */
};

typedef void amdgpu_kernel_found(void *context, const struct amdgpu_kernel *kernel);
/* Calls |found| with |context| for each kernel. Returns the number of kernels, or SIZE_MAX if
 * the note is absent or damaged. Names are borrowed from |object|. */
size_t amdgpu_kernels(struct bytes object, amdgpu_kernel_found *found, void *context);
/* Like amdgpu_kernels, but |metadata| is only the content of the note. */
size_t amdgpu_metadata_kernels(struct bytes metadata, amdgpu_kernel_found *found, void *context);
