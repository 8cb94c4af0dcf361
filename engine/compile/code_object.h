/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks a compiler's output without loading it: is it the kind of object that the target needs,
 * and for exactly that target?
 *
 *   AMD     ELF64, machine EM_AMDGPU, e_flags' processor number of the target's arch
 *   NVIDIA  ELF64, machine EM_CUDA, the SM number of the target
 *   OpenCL  a program binary: not empty (PoCL checks its own header when it loads it)
 *
 * Threading  pure functions
 */
#include "common/target/target.h"

/* KILN_CORRUPT, with what was expected and what was found. */
KILN_MUST_CHECK enum kiln_code code_object_check(struct bytes object, const struct target *target,
                                                 struct kiln_err *err);

/* Whether an object that passed the check for the arch also runs with |target|'s feature
 * settings.  An object built for either state of a feature does. */
bool code_object_suits(struct bytes object, const struct target *target);

/* Calls |each| with the name of every kernel entry point (AMD: symbols NAME.kd;  NVIDIA:
 * sections .text.NAME).  Returns how many there are, or 0 where the format does not say
 * (OpenCL). */
size_t code_object_kernels(struct bytes object, const struct target *target,
                           void (*each)(void *context, struct bytes name), void *context);
