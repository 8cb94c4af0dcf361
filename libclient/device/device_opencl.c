/* SPDX-License-Identifier: MIT */
/*
 * OpenCL devices: one context and one in-order queue each, programs from binaries alone.
 */
#include "common/opencl_target.h"
#include "libclient/device/device.h"
#include "libclient/device/opencl_library.h"
#include "libclient/failure.h"

#include <stdio.h>
#include <string.h>

#define PLATFORMS_MOST 16
#define DEVICES_MOST 64

struct device_opencl {
    struct kiln_device base;
    const struct opencl_library *cl; /* static */
    cl_device_id id;                 /* borrowed from the platform */
    cl_context context;              /* owned */
    cl_command_queue queue;          /* owned */
};

struct memory_opencl {
    struct kiln_memory base;
    cl_mem buffer; /* owned */
};

struct device_module {
    cl_program program; /* owned */
    size_t count;
    cl_kernel kernels[]; /* owned; not shared, for their arguments are state */
};

static struct device_opencl *device_of(struct kiln_device *base)
{
    return (struct device_opencl *)base;
}

static cl_mem buffer_of(struct kiln_memory *memory)
{
    return ((struct memory_opencl *)memory)->buffer;
}

/* ---- finding devices ---- */

static enum kiln_code find_all(const struct opencl_library *cl, cl_device_id *ret_ids,
                               size_t *ret_count, struct kiln_err *err)
{
    cl_platform_id platforms[PLATFORMS_MOST];
    cl_uint platform_count = 0;
    cl_int status = cl->clGetPlatformIDs(PLATFORMS_MOST, platforms, &platform_count);
    if (status != CL_SUCCESS || platform_count == 0)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "the OpenCL loader knows no platform: install a driver, for CPUs "
                         "pocl-opencl-icd");
    *ret_count = 0;
    for (cl_uint i = 0; i < platform_count && i < PLATFORMS_MOST; i++) {
        cl_uint room = (cl_uint)(DEVICES_MOST - *ret_count), count = 0;
        if (room == 0 || cl->clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, room,
                                            ret_ids + *ret_count, &count) != CL_SUCCESS)
            continue; /* a platform without devices */
        *ret_count += count < room ? count : room;
    }
    if (*ret_count == 0)
        return kiln_fail(err, KILN_UNAVAILABLE, "no OpenCL platform has a device");
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

static void describe(struct device_opencl *d, unsigned index)
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
    cl_uint units = 0;
    if (cl->clGetDeviceInfo(d->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL) ==
        CL_SUCCESS)
        d->base.compute_units = units;
}

static enum kiln_code opencl_list(kiln_device_found *found, void *context, struct kiln_err *err)
{
    struct device_opencl d = { .cl = NULL };
    cl_device_id ids[DEVICES_MOST];
    size_t count = 0;
    enum kiln_code rc = opencl_library_use(&d.cl, err);
    if (!rc)
        rc = find_all(d.cl, ids, &count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        d.id = ids[i];
        describe(&d, (unsigned)i);
        found(context, d.base.name, d.base.model, d.base.target, /* why_not= */ NULL);
    }
    return rc;
}

/* ---- memory ---- */

static enum kiln_code opencl_create_memory(struct kiln_device *base, uint64_t bytes,
                                           struct kiln_memory **ret_memory, struct kiln_err *err)
{
    struct device_opencl *d = device_of(base);
    struct memory_opencl *m = calloc(1, sizeof(*m));
    if (!m)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a device buffer");
    cl_int status = CL_SUCCESS;
    m->buffer = d->cl->clCreateBuffer(d->context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &status);
    if (!m->buffer) {
        free(m);
        return opencl_fail(err, status, "cannot get %llu bytes of memory on %s",
                           (unsigned long long)bytes, base->name);
    }
    m->base = (struct kiln_memory){ .device = device_ref(base), .bytes = bytes };
    *ret_memory = &m->base;
    return KILN_OK;
}

static void opencl_destroy_memory(struct kiln_memory *memory)
{
    device_of(memory->device)->cl->clReleaseMemObject(buffer_of(memory));
    free(memory);
}

static enum kiln_code opencl_write(struct kiln_memory *memory, const void *from, uint64_t bytes,
                                   struct kiln_err *err)
{
    struct device_opencl *d = device_of(memory->device);
    if (bytes == 0)
        return KILN_OK;
    cl_int status = d->cl->clEnqueueWriteBuffer(d->queue, buffer_of(memory), CL_TRUE, 0,
                                                (size_t)bytes, from, 0, NULL, NULL);
    return status ? opencl_fail(err, status, "cannot copy %llu bytes to %s",
                                (unsigned long long)bytes, d->base.name)
                  : KILN_OK;
}

static enum kiln_code opencl_read(struct kiln_memory *memory, void *to, uint64_t bytes,
                                  struct kiln_err *err)
{
    struct device_opencl *d = device_of(memory->device);
    if (bytes == 0)
        return KILN_OK;
    cl_int status = d->cl->clEnqueueReadBuffer(d->queue, buffer_of(memory), CL_TRUE, 0,
                                               (size_t)bytes, to, 0, NULL, NULL);
    return status ? opencl_fail(err, status, "cannot copy %llu bytes from %s",
                                (unsigned long long)bytes, d->base.name)
                  : KILN_OK;
}

static enum kiln_code opencl_finish(struct kiln_device *base, struct kiln_err *err)
{
    struct device_opencl *d = device_of(base);
    cl_int status = d->cl->clFinish(d->queue);
    return status ? opencl_fail(err, status, "%s failed at its work", base->name) : KILN_OK;
}

/* ---- code objects ---- */

static void opencl_unload(struct kiln_device *base, struct device_module *module)
{
    if (!module)
        return;
    const struct opencl_library *cl = device_of(base)->cl;
    for (size_t i = 0; i < module->count; i++)
        if (module->kernels[i])
            cl->clReleaseKernel(module->kernels[i]);
    if (module->program)
        cl->clReleaseProgram(module->program);
    free(module);
}

static enum kiln_code build_failed(struct device_opencl *d, cl_program program, cl_int status,
                                   struct kiln_err *err)
{
    char log[300] = "";
    d->cl->clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, sizeof(log), log, NULL);
    log[sizeof(log) - 1] = '\0';
    return opencl_fail(err, status, "%s refuses a program binary%s%s", d->base.name,
                       log[0] ? ": " : "", log);
}

static enum kiln_code load_program(struct device_opencl *d, struct bytes object,
                                   cl_program *ret_program, struct kiln_err *err)
{
    const unsigned char *data = object.data;
    cl_int status = CL_SUCCESS, of_binary = CL_SUCCESS;
    cl_program program = d->cl->clCreateProgramWithBinary(d->context, 1, &d->id, &object.size,
                                                          &data, &of_binary, &status);
    if (!program)
        return opencl_fail(err, of_binary ? of_binary : status,
                           "%s does not take a program binary of %zu bytes", d->base.name,
                           object.size);
    *ret_program = program; /* the module's, also when building fails */
    status = of_binary ? of_binary : d->cl->clBuildProgram(program, 1, &d->id, "", NULL, NULL);
    return status ? build_failed(d, program, status, err) : KILN_OK;
}

static enum kiln_code find_entries(struct device_opencl *d, struct device_module *m,
                                   const char *const *names, struct kiln_err *err)
{
    for (size_t i = 0; i < m->count; i++) {
        cl_int status = CL_SUCCESS;
        m->kernels[i] = d->cl->clCreateKernel(m->program, names[i], &status);
        if (!m->kernels[i])
            return opencl_fail(err, status, "%s finds no kernel '%s' in its code object",
                               d->base.name, names[i]);
    }
    return KILN_OK;
}

static enum kiln_code opencl_load(struct kiln_device *base, struct bytes object,
                                  const char *const *names, size_t count,
                                  struct device_module **ret_module, struct kiln_err *err)
{
    struct device_opencl *d = device_of(base);
    struct device_module *m = calloc(1, sizeof(*m) + count * sizeof(m->kernels[0]));
    if (!m)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to load a code object");
    m->count = count;
    enum kiln_code rc = load_program(d, object, &m->program, err);
    if (!rc)
        rc = find_entries(d, m, names, err);
    if (rc)
        opencl_unload(base, m);
    else
        *ret_module = m;
    return rc;
}

/* ---- launching ---- */

/* Kernels do not hold on to their arguments: parts of buffers must live until enqueued. */
struct parts {
    const struct opencl_library *cl;
    cl_mem buffers[LIMIT_KERNEL_ARGUMENTS]; /* owned */
    size_t count;
};

static void parts_done(struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        parts->cl->clReleaseMemObject(parts->buffers[i]);
}

/* OpenCL has no pointer arithmetic on buffers: an offset needs a buffer of its own. */
static enum kiln_code part_of(const struct device_argument *a, struct parts *parts,
                              cl_mem *ret_buffer, struct kiln_err *err)
{
    unsigned long long offset = a->value, size = a->memory->bytes;
    if (a->value >= a->memory->bytes)
        return kiln_fail(err, KILN_INVALID, "an argument begins at byte %llu of a memory of %llu",
                         offset, size);
    cl_buffer_region region = { .origin = (size_t)a->value,
                                .size = (size_t)(a->memory->bytes - a->value) };
    cl_int status = CL_SUCCESS;
    cl_mem part = parts->cl->clCreateSubBuffer(buffer_of(a->memory), 0,
                                               CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
    if (!part)
        return opencl_fail(err, status, "cannot offset an argument by %llu bytes", offset);
    parts->buffers[parts->count++] = part;
    *ret_buffer = part;
    return KILN_OK;
}

static enum kiln_code set_argument(struct device_opencl *d, cl_kernel kernel, cl_uint index,
                                   const struct device_argument *a, struct parts *parts,
                                   struct kiln_err *err)
{
    const void *value = &a->value; /* little-endian: the low bytes come first */
    size_t size = a->size;
    cl_mem buffer;
    if (a->memory) {
        buffer = buffer_of(a->memory);
        enum kiln_code rc = a->value ? part_of(a, parts, &buffer, err) : KILN_OK;
        if (rc)
            return rc;
        value = &buffer;
        size = sizeof(buffer);
    }
    cl_int status = d->cl->clSetKernelArg(kernel, index, size, value);
    return status ? opencl_fail(err, status, "cannot set argument %u of %zu bytes", index, size)
                  : KILN_OK;
}

static enum kiln_code opencl_launch(struct kiln_device *base, struct device_module *module,
                                    size_t entry, const struct device_launch *launch,
                                    struct kiln_err *err)
{
    struct device_opencl *d = device_of(base);
    cl_kernel kernel = module->kernels[entry];
    __attribute__((cleanup(parts_done))) struct parts parts = { .cl = d->cl };
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        enum kiln_code rc = set_argument(d, kernel, i, &launch->arguments[i], &parts, err);
        if (rc)
            return rc;
    }
    size_t global[3], local[3];
    for (int i = 0; i < 3; i++) {
        local[i] = launch->group[i];
        global[i] = (size_t)launch->grid[i] * launch->group[i];
    }
    cl_int status =
        d->cl->clEnqueueNDRangeKernel(d->queue, kernel, 3, NULL, global, local, 0, NULL, NULL);
    return status ? opencl_fail(err, status, "%s refuses the launch", base->name) : KILN_OK;
}

/* ---- life ---- */

static void opencl_destroy(struct kiln_device *base)
{
    struct device_opencl *d = device_of(base);
    if (d->queue)
        d->cl->clReleaseCommandQueue(d->queue);
    if (d->context)
        d->cl->clReleaseContext(d->context);
    free(d);
}

static const struct device_ops opencl_ops = {
    .create_memory = opencl_create_memory,
    .destroy_memory = opencl_destroy_memory,
    .write = opencl_write,
    .read = opencl_read,
    .finish = opencl_finish,
    .load = opencl_load,
    .unload = opencl_unload,
    .launch = opencl_launch,
    .destroy = opencl_destroy,
};

static enum kiln_code set_up(struct device_opencl *d, unsigned index, struct kiln_err *err)
{
    cl_device_id ids[DEVICES_MOST];
    size_t count = 0;
    enum kiln_code rc = opencl_library_use(&d->cl, err);
    if (!rc)
        rc = find_all(d->cl, ids, &count, err);
    if (rc)
        return rc;
    if (index >= count)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "there is no opencl:%u: this host has %zu OpenCL "
                         "device(s), counted from 0",
                         index, count);
    d->id = ids[index];
    describe(d, index);
    cl_int status = CL_SUCCESS;
    d->context = d->cl->clCreateContext(NULL, 1, &d->id, NULL, NULL, &status);
    if (!d->context)
        return opencl_fail(err, status, "cannot open %s", d->base.name);
    d->queue = d->cl->clCreateCommandQueue(d->context, d->id, 0, &status);
    if (!d->queue)
        return opencl_fail(err, status, "cannot make a queue on %s", d->base.name);
    return KILN_OK;
}

static enum kiln_code opencl_open(const struct device_uri *uri, struct kiln_device **ret_device,
                                  struct kiln_err *err)
{
    struct device_opencl *d = calloc(1, sizeof(*d));
    if (!d)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a device");
    d->base.ops = &opencl_ops;
    atomic_init(&d->base.references, 1);
    enum kiln_code rc = set_up(d, uri->index, err);
    if (rc)
        opencl_destroy(&d->base);
    else
        *ret_device = &d->base;
    return rc;
}

const struct device_runtime device_runtime_opencl = {
    .kind = "opencl",
    .open = opencl_open,
    .list = opencl_list,
};
