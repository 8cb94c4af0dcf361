/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A look at a code object before a GPU runtime gets it: runtimes are given a pointer without a
 * size and believe the headers, so that a cut object would make them read what is not ours.
 *
 * Threading  pure functions
 */
#include "common/bytes.h"
#include "common/err.h"

#define ELF_MACHINE_CUDA 190
#define ELF_MACHINE_AMDGPU 224

/* KILN_CORRUPT unless |object| is a whole 64-bit ELF file for |machine|. */
KILN_MUST_CHECK enum kiln_code elf_check(struct bytes object, unsigned machine,
                                         struct kiln_err *err);
