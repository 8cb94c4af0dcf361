/* SPDX-License-Identifier: MIT */
/* Finds, describes and opens OpenCL devices. opencl_work.c implements the operations. */
#include "common/target/opencl_target.h"
#include "libclient/device/opencl_device.h"
#include "libclient/device/uuid.h"

#include <stdio.h>
#include <string.h>

#define PLATFORMS_MAX 16
#define DEVICES_MAX 64
/* The value of CL_DEVICE_UUID_KHR, which OpenCL 1.2 does not define. */
#define DEVICE_UUID 0x106A

static enum kiln_code find_all(const struct opencl_library *cl, cl_device_id *ret_ids,
                               size_t *ret_count, struct kiln_err *err)
{
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_uint platform_count = 0;
    cl_int status = cl->clGetPlatformIDs(PLATFORMS_MAX, platforms, &platform_count);
    if (status != CL_SUCCESS || platform_count == 0)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "the OpenCL loader found no platform: install a driver, for example "
                         "pocl-opencl-icd for CPUs");
    *ret_count = 0;
    for (cl_uint i = 0; i < platform_count && i < PLATFORMS_MAX; i++) {
        cl_uint left = (cl_uint)(DEVICES_MAX - *ret_count), count = 0;
        if (left == 0 || cl->clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, left,
                                            ret_ids + *ret_count, &count) != CL_SUCCESS)
            continue;
        *ret_count += count < left ? count : left;
    }
    if (*ret_count == 0)
        return kiln_fail(
            err, KILN_UNAVAILABLE,
            "no OpenCL platform has a device: check with clinfo that the driver of the "
            "device is installed and that this user may open the device");
    return KILN_OK;
}

static void device_text(const struct opencl_library *cl, cl_device_id id, cl_device_info what,
                        char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    if (cl->clGetDeviceInfo(id, what, size, ret_text, NULL) != CL_SUCCESS)
        ret_text[0] = '\0';
    ret_text[size - 1] = '\0';
}

static void platform_text(const struct opencl_library *cl, cl_platform_id id, cl_platform_info what,
                          char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    if (cl->clGetPlatformInfo(id, what, size, ret_text, NULL) != CL_SUCCESS)
        ret_text[0] = '\0';
    ret_text[size - 1] = '\0';
}

static bool uuid_of(const struct opencl_library *cl, cl_device_id id, char text[DEVICE_UUID_SIZE])
{
    unsigned char bytes[DEVICE_UUID_BYTES] = { 0 };
    if (cl->clGetDeviceInfo(id, DEVICE_UUID, sizeof(bytes), bytes, NULL) != CL_SUCCESS)
        return false;
    device_uuid_text("GPU-", bytes, text);
    return text[0];
}

static void describe_device(struct opencl_device *d, unsigned index)
{
    const struct opencl_library *cl = d->cl;
    char platform[256] = "", platform_version[256] = "", name[256], version[256], driver[256];
    cl_platform_id p = NULL;
    if (cl->clGetDeviceInfo(d->id, CL_DEVICE_PLATFORM, sizeof(p), &p, NULL) == CL_SUCCESS) {
        platform_text(cl, p, CL_PLATFORM_NAME, platform, sizeof(platform));
        platform_text(cl, p, CL_PLATFORM_VERSION, platform_version, sizeof(platform_version));
    }
    device_text(cl, d->id, CL_DEVICE_NAME, name, sizeof(name));
    device_text(cl, d->id, CL_DEVICE_VERSION, version, sizeof(version));
    device_text(cl, d->id, CL_DRIVER_VERSION, driver, sizeof(driver));
    struct opencl_names names = { .platform_name = platform,
                                  .platform_version = platform_version,
                                  .device_name = name,
                                  .device_version = version,
                                  .driver_version = driver };
    opencl_target_text(&names, d->base.target);
    snprintf(d->base.name, sizeof(d->base.name), "opencl:%u", index);
    snprintf(d->base.model, sizeof(d->base.model), "%.*s", (int)sizeof(d->base.model) - 1, name);
    cl_uint units = 0, clock = 0;
    cl_ulong memory = 0;
    if (cl->clGetDeviceInfo(d->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL) ==
        CL_SUCCESS)
        d->base.compute_units = units;
    if (cl->clGetDeviceInfo(d->id, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof(clock), &clock, NULL) ==
        CL_SUCCESS)
        d->base.clock_mhz = clock;
    if (cl->clGetDeviceInfo(d->id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(memory), &memory, NULL) ==
        CL_SUCCESS)
        d->base.memory_bytes = memory;
    snprintf(d->base.driver, sizeof(d->base.driver), "%.60s %.90s", platform, driver);
    if (!uuid_of(cl, d->id, d->base.uuid))
        d->base.uuid[0] = '\0';
    device_set_database_id(&d->base);
}

static enum kiln_code opencl_list(kiln_device_found *found, void *context, struct kiln_err *err)
{
    struct opencl_device d = { .cl = NULL };
    cl_device_id ids[DEVICES_MAX];
    size_t count = 0;
    enum kiln_code rc = opencl_library_use(&d.cl, err);
    if (!rc)
        rc = find_all(d.cl, ids, &count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        d.id = ids[i];
        describe_device(&d, (unsigned)i);
        device_report(&d.base, NULL, found, context);
    }
    return rc;
}

static bool has_device(const cl_device_id *ids, size_t count, cl_device_id id)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* The job's context must contain the device.  Takes a reference to the context. */
static enum kiln_code use_given(struct opencl_device *d, cl_context given, struct kiln_err *err)
{
    cl_device_id ids[DEVICES_MAX];
    size_t size = 0;
    cl_int status = d->cl->clGetContextInfo(given, CL_CONTEXT_DEVICES, sizeof(ids), ids, &size);
    if (status)
        return opencl_fail(err, status, "cannot use the context %p", (void *)given);
    if (!has_device(ids, size / sizeof(ids[0]), d->id))
        return kiln_fail(err, KILN_INVALID, "the context %p does not contain %s", (void *)given,
                         d->base.name);
    status = d->cl->clRetainContext(given);
    if (status)
        return opencl_fail(err, status, "cannot retain the context %p", (void *)given);
    d->context = given;
    return KILN_OK;
}

static enum kiln_code take_context(struct opencl_device *d, cl_context given, struct kiln_err *err)
{
    if (given)
        return use_given(d, given, err);
    cl_int status = CL_SUCCESS;
    d->context = d->cl->clCreateContext(NULL, 1, &d->id, NULL, NULL, &status);
    return d->context ? KILN_OK : opencl_fail(err, status, "cannot open %s", d->base.name);
}

static enum kiln_code open_opencl(struct opencl_device *d, const struct device_request *request,
                                  struct kiln_err *err)
{
    cl_device_id ids[DEVICES_MAX];
    size_t count = 0;
    int index = 0;
    enum kiln_code rc = opencl_library_use(&d->cl, err);
    if (!rc)
        rc = find_all(d->cl, ids, &count, err);
    if (rc)
        return rc;
    struct device_census census = { .kind = "opencl", .what = "OpenCL", .count = (int)count };
    rc = device_find(&census, &request->uri, &index, err);
    if (rc)
        return rc;
    d->id = ids[index];
    describe_device(d, (unsigned)index);
    rc = take_context(d, request->context, err);
    return rc ? rc : opencl_ops.create_stream(&d->base, /* is_apart= */ true, &d->base.stream, err);
}

static enum kiln_code opencl_open(const struct device_request *request,
                                  struct kiln_device **ret_device, struct kiln_err *err)
{
    KILN_AUTO(device)
    struct kiln_device *base = device_create(sizeof(struct opencl_device), &opencl_ops);
    if (!base)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a device");
    enum kiln_code rc = open_opencl(opencl_of(base), request, err);
    if (!rc)
        *ret_device = KILN_TAKE(base);
    return rc;
}

const struct device_runtime device_runtime_opencl = {
    .kind = "opencl",
    .open = opencl_open,
    .list = opencl_list,
};
