/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks a code object before a GPU runtime loads it.  A runtime gets a pointer without a size and
 * trusts the object's headers, so it would read beyond the end of a truncated object.
 *
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

#define ELF_MACHINE_CUDA 190
#define ELF_MACHINE_AMDGPU 224

/* Returns KILN_CORRUPT unless |object| is a whole 64-bit ELF file for |machine|. */
KILN_MUST_CHECK enum kiln_code elf_check(struct bytes object, unsigned machine,
                                         struct kiln_err *err);
