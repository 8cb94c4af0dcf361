/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * OpenCL devices.  Each device has one context and one in-order queue, and only loads program
 * binaries.
 *
 * Role       declarations shared by device_opencl.c, which opens devices, and opencl_work.c, which
 *            operates them
 * Ownership  an opencl_device owns a reference to its context
 * Threading  as in <kiln/device.h>
 */
#include "libclient/device/device.h"
#include "libclient/device/opencl_library.h"

struct opencl_device {
    struct kiln_device base;
    const struct opencl_library *cl;
    cl_device_id id;
    cl_context context;
};

static inline struct opencl_device *opencl_of(struct kiln_device *base)
{
    return (struct opencl_device *)base;
}

extern const struct device_ops opencl_ops;
