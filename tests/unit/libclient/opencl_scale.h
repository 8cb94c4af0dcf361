/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A program binary of the OpenCL device that is here, as a compiler would make it, with the kernel
 * of made_plan_scale: y[i] = x[i] * w[0] * times + add + (wide >> 32).
 *
 * Ownership  opencl_scale_build: the caller frees the data
 * Threading  before there are threads
 */
#include "common/bytes.h"

/* PoCL's files go to a directory that opencl_scale_done removes. */
void opencl_scale_init(void);
void opencl_scale_done(void);
/* Asserts that there is a device. */
struct bytes opencl_scale_build(void);
