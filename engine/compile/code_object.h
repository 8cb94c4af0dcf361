/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks that a compiler's output is the kind of object that a target needs, and that it was
 * compiled for exactly this target. Does not load the object.
 *
 *   AMD     ELF64, machine EM_AMDGPU, processor number (in e_flags) of the target's arch
 *   NVIDIA  ELF64, machine EM_CUDA, the SM number of the target
 *   OpenCL  a program binary: not empty (PoCL checks its own header when it loads it)
 *
 * Threading  pure functions
 */
#include "common/target/target.h"

KILN_MUST_CHECK enum kiln_code code_object_check(struct bytes object, const struct target *target,
                                                 struct kiln_err *err);

/* Returns whether |object| also runs on |target| with |target|'s feature settings (such as xnack).
 * |object| must have passed code_object_check for some target. */
bool code_object_suits(struct bytes object, const struct target *target);
