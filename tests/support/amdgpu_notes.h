/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads the resources of an AMD code object's kernels from its note: MessagePack in
 * NT_AMDGPU_METADATA, code object versions 3 to 5.
 *
 * Ownership  names are borrowed from the object
 * Threading  pure functions
 */
#include "common/base/bytes.h"

struct amdgpu_kernel {
    struct bytes name;
    uint64_t vgprs; /* per work item; on gfx90a and gfx94x including the AGPRs */
    uint64_t agprs; /* 0: the target has none */
    uint64_t sgprs; /* per wave */
    uint64_t vgpr_spills, sgpr_spills;
    uint64_t lds;     /* static bytes of a work group */
    uint64_t scratch; /* bytes of a work item */
    uint64_t wave;    /* work items of a wave */
};

typedef void amdgpu_kernel_found(void *context, const struct amdgpu_kernel *kernel);
/* Returns the number of kernels; SIZE_MAX if the note is absent or damaged. */
size_t amdgpu_kernels(struct bytes object, amdgpu_kernel_found *found, void *context);
/* Does the same for the content of a note. */
size_t amdgpu_metadata_kernels(struct bytes metadata, amdgpu_kernel_found *found, void *context);
