/* SPDX-License-Identifier: MIT */
/*
 * HIP devices: found and named.  This version runs kernels on OpenCL devices only.
 */
#include "libclient/device/device.h"
#include "libclient/device/hip_library.h"
#include "libclient/failure.h"

#include <stdio.h>

#define MODEL_ROOM 128

static enum kiln_code start(const struct hip_library **ret_hip, int *ret_count,
                            struct kiln_err *err)
{
    const struct hip_library *hip = NULL;
    enum kiln_code rc = hip_library_use(&hip, err);
    if (rc)
        return rc;
    int status = hip->hipInit(0);
    int count = 0;
    if (status == 0)
        status = hip->hipGetDeviceCount(&count);
    if (status || count <= 0)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "the HIP runtime finds no device (hipError_t %d): check that /dev/kfd is "
                         "there and that this user may open it",
                         status);
    *ret_hip = hip;
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

static enum kiln_code hip_open(const struct device_uri *uri, struct kiln_device **ret_device,
                               struct kiln_err *err)
{
    (void)ret_device;
    const struct hip_library *hip = NULL;
    int count = 0;
    enum kiln_code rc = start(&hip, &count, err);
    if (rc)
        return rc;
    if (uri->uuid[0])
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "cannot tell whether hip://%s is here: libkiln %s does not look HIP "
                         "devices up by their uuid, nor run kernels on them",
                         uri->uuid, KILN_VERSION);
    char name[32];
    snprintf(name, sizeof(name), "hip:%u", uri->index);
    if (uri->index >= (unsigned)count)
        return kiln_fail(err, KILN_NOT_FOUND, "there is no %s: the HIP runtime has %d device(s)",
                         name, count);
    return unsupported(name, err);
}

static enum kiln_code hip_list(kiln_device_found *found, void *context, struct kiln_err *err)
{
    const struct hip_library *hip = NULL;
    int count = 0;
    enum kiln_code rc = start(&hip, &count, err);
    for (int i = 0; !rc && i < count; i++) {
        char name[32], model[MODEL_ROOM] = "";
        int device = i;
        snprintf(name, sizeof(name), "hip:%d", i);
        if (hip->hipDeviceGet(&device, i) || hip->hipDeviceGetName(model, MODEL_ROOM - 1, device))
            snprintf(model, sizeof(model), "unknown");
        struct kiln_err e = KILN_ERR_INIT;
        struct kiln_error why_not;
        error_return(&e, unsupported(name, &e), &why_not);
        found(context, name, model, /* target= */ NULL, &why_not);
    }
    return rc;
}

const struct device_runtime device_runtime_hip = {
    .kind = "hip",
    .open = hip_open,
    .list = hip_list,
};
