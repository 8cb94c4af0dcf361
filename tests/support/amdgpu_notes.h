/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What an AMD code object says of its kernels' resources: the MessagePack in its note
 * (NT_AMDGPU_METADATA, code object versions 3 to 5).
 *
 * Ownership  names are borrowed from the object
 * Threading  pure functions
 */
#include "common/bytes.h"

struct amdgpu_kernel {
    struct bytes name;
    uint64_t vgprs; /* per item; on gfx90a and gfx94x the AGPRs are among them */
    uint64_t agprs; /* 0 where the target has none */
    uint64_t sgprs; /* per wave */
    uint64_t vgpr_spills, sgpr_spills;
    uint64_t lds;     /* bytes a group, static */
    uint64_t scratch; /* bytes an item */
    uint64_t wave;    /* items */
};

typedef void amdgpu_kernel_found(void *context, const struct amdgpu_kernel *kernel);
/* How many there are; SIZE_MAX where the object has no such note, or a damaged one. */
size_t amdgpu_kernels(struct bytes object, amdgpu_kernel_found *found, void *context);
/* The same of the note's content alone. */
size_t amdgpu_metadata_kernels(struct bytes metadata, amdgpu_kernel_found *found, void *context);
