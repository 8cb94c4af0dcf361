/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/target/target.h"

/* Calls |each| for every kernel entry point (AMD: symbols NAME.kd; NVIDIA: sections .text.NAME).
 * Names are borrowed from |object|. Returns their number, or 0 if the format does not contain
 * the names (OpenCL). */
size_t code_object_kernels(struct bytes object, const struct target *target,
                           void (*each)(void *context, struct bytes name), void *context);
