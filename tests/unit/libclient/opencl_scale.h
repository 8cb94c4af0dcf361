/* SPDX-License-Identifier: MIT */
#pragma once

/* Builds a program binary for this host's OpenCL device, with the kernel of made_plan_scale:
 * y[i] = x[i] * w[0] * times + add + (wide >> 32). */
#include "common/base/bytes.h"

/* Creates a directory for PoCL's files, which opencl_scale_done removes. Call it before any
 * thread starts. */
void opencl_scale_init(void);
void opencl_scale_done(void);
/* Fails the test if there is no device. The caller frees the data. */
struct bytes opencl_scale_build(void);
