/* SPDX-License-Identifier: MIT */
#pragma once

/* The kernel of made_plan_scale, y[i] = x[i] * w[0] * times + add + (wide >> 32), for this host's
 * OpenCL device. The test program keeps PoCL's files in a private directory. */
#include "common/base/bytes.h"

#include <kiln/device.h>

/* Opens the device, which the caller closes. |ret_binary| receives the kernel's binary, which
 * the caller borrows. If this host has no device, prints a message and returns NULL. */
struct kiln_device *opencl_scale_open(struct bytes *ret_binary);
