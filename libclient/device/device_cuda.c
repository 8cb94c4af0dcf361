/* SPDX-License-Identifier: MIT */
/*
 * CUDA devices: found and named.  This version runs kernels on OpenCL devices only.
 */
#include "libclient/device/cuda_library.h"
#include "libclient/device/device.h"
#include "libclient/failure.h"

#include <stdio.h>

#define MODEL_ROOM 128
/* CUdevice_attribute, fixed since CUDA 5. */
#define COMPUTE_CAPABILITY_MAJOR 75
#define COMPUTE_CAPABILITY_MINOR 76

static enum kiln_code start(const struct cuda_library **ret_cuda, int *ret_count,
                            struct kiln_err *err)
{
    const struct cuda_library *cuda = NULL;
    enum kiln_code rc = cuda_library_use(&cuda, err);
    if (rc)
        return rc;
    int status = cuda->cuInit(0);
    int count = 0;
    if (status == 0)
        status = cuda->cuDeviceGetCount(&count);
    if (status || count <= 0)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "the CUDA driver finds no device (CUresult %d): check that /dev/nvidia0 "
                         "is there and that driver and kernel module match",
                         status);
    *ret_cuda = cuda;
    *ret_count = count;
    return KILN_OK;
}

static enum kiln_code unsupported(const char *what, struct kiln_err *err)
{
    return kiln_fail(err, KILN_UNSUPPORTED,
                     "%s is there, but libkiln %s runs kernels on OpenCL devices only; plans and "
                     "kernels for it can be had by naming its target",
                     what, KILN_VERSION);
}

static enum kiln_code cuda_open(const struct device_uri *uri, struct kiln_device **ret_device,
                                struct kiln_err *err)
{
    (void)ret_device;
    const struct cuda_library *cuda = NULL;
    int count = 0;
    enum kiln_code rc = start(&cuda, &count, err);
    if (rc)
        return rc;
    char name[32];
    snprintf(name, sizeof(name), "cuda:%u", uri->index);
    if (uri->index >= (unsigned)count)
        return kiln_fail(err, KILN_NOT_FOUND, "there is no %s: the CUDA driver has %d device(s)",
                         name, count);
    return unsupported(name, err);
}

/* False when the driver does not say. */
static bool describe(const struct cuda_library *cuda, int index, char model[MODEL_ROOM],
                     char *ret_target, size_t size)
{
    int device, major, minor;
    if (cuda->cuDeviceGet(&device, index) || cuda->cuDeviceGetName(model, MODEL_ROOM - 1, device) ||
        cuda->cuDeviceGetAttribute(&major, COMPUTE_CAPABILITY_MAJOR, device) ||
        cuda->cuDeviceGetAttribute(&minor, COMPUTE_CAPABILITY_MINOR, device))
        return false;
    snprintf(ret_target, size, "sm_%d%d", major, minor);
    return true;
}

static enum kiln_code cuda_list(kiln_device_found *found, void *context, struct kiln_err *err)
{
    const struct cuda_library *cuda = NULL;
    int count = 0;
    enum kiln_code rc = start(&cuda, &count, err);
    for (int i = 0; !rc && i < count; i++) {
        char name[32], model[MODEL_ROOM] = "", target[32];
        snprintf(name, sizeof(name), "cuda:%d", i);
        bool known = describe(cuda, i, model, target, sizeof(target));
        struct kiln_err e = KILN_ERR_INIT;
        struct kiln_error why_not;
        error_return(&e, unsupported(name, &e), &why_not);
        found(context, name, known ? model : "unknown", known ? target : NULL, &why_not);
    }
    return rc;
}

const struct device_runtime device_runtime_cuda = {
    .kind = "cuda",
    .open = cuda_open,
    .list = cuda_list,
};
