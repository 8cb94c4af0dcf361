/* SPDX-License-Identifier: MIT */
#include "libclient/device/opencl_device.h"

#include <pthread.h>
#include <string.h>

/* An entry point of a loaded code object.  Each run has its own, because a cl_kernel stores its
 * arguments. */
struct entry {
    cl_kernel kernel;
    pthread_mutex_t mutex; /* held while arguments are set and the kernel is launched */
};

/* ---- memory ---- */

static enum kiln_code opencl_create_memory(struct kiln_device *device, uint64_t bytes,
                                           void **ret_memory, struct kiln_err *err)
{
    struct opencl_device *d = opencl_of(device);
    cl_int status = CL_SUCCESS;
    *ret_memory =
        d->cl->clCreateBuffer(d->context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &status);
    return *ret_memory ? KILN_OK
                       : opencl_fail(err, status, "cannot get %llu bytes of memory on %s",
                                     (unsigned long long)bytes, device->name);
}

static enum kiln_code opencl_adopt_memory(struct kiln_device *device, void *memory, uint64_t bytes,
                                          struct kiln_err *err)
{
    struct opencl_device *d = opencl_of(device);
    cl_context context = NULL;
    size_t size = 0;
    cl_int status =
        d->cl->clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof(context), &context, NULL);
    if (!status)
        status = d->cl->clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof(size), &size, NULL);
    if (status)
        return opencl_fail(err, status, "%p is not a cl_mem", memory);
    if (context != d->context)
        return kiln_fail(err, KILN_INVALID,
                         "the cl_mem belongs to another context than %s: open the device in that "
                         "context (kiln_device_open_in)",
                         device->name);
    if (size < bytes)
        return kiln_fail(err, KILN_INVALID, "the cl_mem has %zu bytes, not %llu", size,
                         (unsigned long long)bytes);
    status = d->cl->clRetainMemObject(memory);
    return status ? opencl_fail(err, status, "cannot retain a cl_mem") : KILN_OK;
}

/* Also releases wrapped memory, because libkiln holds a reference to it. */
static void opencl_drop_memory(struct kiln_device *device, void *memory, bool is_ours)
{
    (void)is_ours;
    (void)opencl_of(device)->cl->clReleaseMemObject(memory);
}

static enum kiln_code opencl_write(struct kiln_memory *memory, const void *from, uint64_t bytes,
                                   void *stream, struct kiln_err *err)
{
    struct kiln_device *device = memory->device;
    struct opencl_device *d = opencl_of(device);
    cl_int status = d->cl->clEnqueueWriteBuffer(stream, memory->native, CL_TRUE, 0, (size_t)bytes,
                                                from, 0, NULL, NULL);
    return status ? opencl_fail(err, status, "cannot copy %llu bytes to %s",
                                (unsigned long long)bytes, device->name)
                  : KILN_OK;
}

static enum kiln_code opencl_read(struct kiln_memory *memory, void *to, uint64_t bytes,
                                  void *stream, struct kiln_err *err)
{
    struct kiln_device *device = memory->device;
    struct opencl_device *d = opencl_of(device);
    cl_int status = d->cl->clEnqueueReadBuffer(stream, memory->native, CL_TRUE, 0, (size_t)bytes,
                                               to, 0, NULL, NULL);
    return status ? opencl_fail(err, status, "cannot copy %llu bytes from %s",
                                (unsigned long long)bytes, device->name)
                  : KILN_OK;
}

static enum kiln_code opencl_fill(struct kiln_memory *memory, uint8_t value, void *stream,
                                  struct kiln_err *err)
{
    struct opencl_device *d = opencl_of(memory->device);
    cl_int status = d->cl->clEnqueueFillBuffer(stream, memory->native, &value, sizeof(value), 0,
                                               (size_t)memory->bytes, 0, NULL, NULL);
    return status ? opencl_fail(err, status, "cannot fill %llu bytes on %s",
                                (unsigned long long)memory->bytes, d->base.name)
                  : KILN_OK;
}

/* ---- queues ---- */

static enum kiln_code opencl_create_stream(struct kiln_device *device, bool is_apart,
                                           void **ret_stream, struct kiln_err *err)
{
    (void)is_apart; /* every queue is */
    struct opencl_device *d = opencl_of(device);
    cl_int status = CL_SUCCESS;
    *ret_stream =
        d->cl->clCreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &status);
    return *ret_stream ? KILN_OK
                       : opencl_fail(err, status, "cannot create a queue on %s", device->name);
}

static enum kiln_code opencl_adopt_stream(struct kiln_device *device, void *stream,
                                          struct kiln_err *err)
{
    struct opencl_device *d = opencl_of(device);
    const struct opencl_library *cl = d->cl;
    cl_context context = NULL;
    cl_device_id id = NULL;
    cl_command_queue_properties properties = 0;
    if (!stream)
        return kiln_fail(err, KILN_INVALID,
                         "no cl_command_queue was given, and OpenCL has no default queue");
    cl_int status =
        cl->clGetCommandQueueInfo(stream, CL_QUEUE_CONTEXT, sizeof(context), &context, NULL);
    if (!status)
        status = cl->clGetCommandQueueInfo(stream, CL_QUEUE_DEVICE, sizeof(id), &id, NULL);
    if (!status)
        status = cl->clGetCommandQueueInfo(stream, CL_QUEUE_PROPERTIES, sizeof(properties),
                                           &properties, NULL);
    if (status)
        return opencl_fail(err, status, "%p is not a cl_command_queue", stream);
    if (context != d->context || id != d->id)
        return kiln_fail(err, KILN_INVALID,
                         "the cl_command_queue belongs to another context or device than %s: open "
                         "the device in that context (kiln_device_open_in)",
                         device->name);
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "the cl_command_queue executes out of order: a plan's kernels need an "
                         "in-order queue");
    status = cl->clRetainCommandQueue(stream);
    return status ? opencl_fail(err, status, "cannot retain a cl_command_queue") : KILN_OK;
}

static void opencl_drop_stream(struct kiln_device *device, void *stream, bool is_ours)
{
    (void)is_ours;
    (void)opencl_of(device)->cl->clReleaseCommandQueue(stream);
}

static enum kiln_code opencl_finish(struct kiln_device *device, void *stream, struct kiln_err *err)
{
    cl_int status = opencl_of(device)->cl->clFinish(stream);
    return status ? opencl_fail(err, status, "%s failed to execute its work", device->name)
                  : KILN_OK;
}

/* ---- events ---- */

static enum kiln_code opencl_create_event(struct kiln_device *device, void **ret_event,
                                          struct kiln_err *err)
{
    (void)device;
    (void)err;
    *ret_event = NULL;
    return KILN_OK;
}

static void opencl_drop_event(struct kiln_device *device, void *event)
{
    if (event)
        (void)opencl_of(device)->cl->clReleaseEvent(event);
}

static enum kiln_code opencl_record(struct kiln_device *device, void **event, void *stream,
                                    struct kiln_err *err)
{
    cl_event fresh = NULL;
    cl_int status = opencl_of(device)->cl->clEnqueueMarkerWithWaitList(stream, 0, NULL, &fresh);
    if (status)
        return opencl_fail(err, status, "cannot record an event on %s", device->name);
    opencl_drop_event(device, *event);
    *event = fresh;
    return KILN_OK;
}

static enum kiln_code opencl_wait(struct kiln_device *device, void *event, struct kiln_err *err)
{
    cl_event waited = event;
    cl_int status = opencl_of(device)->cl->clWaitForEvents(1, &waited);
    return status ? opencl_fail(err, status, "%s failed before an event", device->name) : KILN_OK;
}

static enum kiln_code opencl_elapsed(struct kiln_device *device, void *begin, void *end,
                                     double *ret_ms, struct kiln_err *err)
{
    const struct opencl_library *cl = opencl_of(device)->cl;
    cl_ulong from = 0, to = 0;
    cl_int status =
        cl->clGetEventProfilingInfo(begin, CL_PROFILING_COMMAND_END, sizeof(from), &from, NULL);
    if (!status)
        status = cl->clGetEventProfilingInfo(end, CL_PROFILING_COMMAND_END, sizeof(to), &to, NULL);
    if (status)
        return opencl_fail(err, status,
                           "%s cannot measure the time between two events: create the queue with "
                           "CL_QUEUE_PROFILING_ENABLE",
                           device->name);
    *ret_ms = to > from ? (double)(to - from) / 1e6 : 0;
    return KILN_OK;
}

/* ---- code objects ---- */

static void opencl_unload(struct kiln_device *device, void *module)
{
    (void)opencl_of(device)->cl->clReleaseProgram(module);
}

static enum kiln_code fail_load(struct opencl_device *d, size_t size, cl_int status,
                                const char *log, struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = opencl_fail(&why, status, "the OpenCL driver does not accept it%s%s",
                                    log[0] ? ": " : "", log);
    return kiln_fail(err, rc, "cannot load a program binary of %zu bytes on '%s': %s%s", size,
                     d->base.name, why.text,
                     rc == KILN_CORRUPT ? ": build it again for this device and driver" : "");
}

static enum kiln_code build_program(struct opencl_device *d, cl_program program, size_t size,
                                    struct kiln_err *err)
{
    char log[200] = "";
    cl_int status = d->cl->clBuildProgram(program, 1, &d->id, "", NULL, NULL);
    if (!status)
        return KILN_OK;
    d->cl->clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, sizeof(log), log, NULL);
    log[sizeof(log) - 1] = '\0';
    return fail_load(d, size, status, log, err);
}

static enum kiln_code opencl_load(struct kiln_device *device, struct bytes object,
                                  void **ret_module, struct kiln_err *err)
{
    struct opencl_device *d = opencl_of(device);
    const unsigned char *data = object.data;
    cl_int status = CL_SUCCESS, of_binary = CL_SUCCESS;
    cl_program program = d->cl->clCreateProgramWithBinary(d->context, 1, &d->id, &object.size,
                                                          &data, &of_binary, &status);
    enum kiln_code rc = KILN_OK;
    if (!program || of_binary)
        rc = fail_load(d, object.size, of_binary ? of_binary : status, "", err);
    else
        rc = build_program(d, program, object.size, err);
    if (rc && program)
        opencl_unload(device, program);
    if (!rc)
        *ret_module = program;
    return rc;
}

static enum kiln_code opencl_find(struct kiln_device *device, void *module,
                                  const struct device_entry_point *point, void **ret_function,
                                  struct kiln_err *err)
{
    if (point->shared_bytes)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "'%s' needs %u bytes of dynamic shared memory, which OpenCL kernels do "
                         "not have",
                         point->name, point->shared_bytes);
    struct entry *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a kernel's arguments");
    cl_int status = CL_SUCCESS;
    entry->kernel = opencl_of(device)->cl->clCreateKernel(module, point->name, &status);
    if (!entry->kernel) {
        free(entry);
        return opencl_fail(err, status, "'%s' found no kernel '%s' in its program binary",
                           device->name, point->name);
    }
    pthread_mutex_init(&entry->mutex, NULL);
    *ret_function = entry;
    return KILN_OK;
}

static void opencl_forget(struct kiln_device *device, void *function)
{
    struct entry *entry = function;
    if (!entry)
        return;
    (void)opencl_of(device)->cl->clReleaseKernel(entry->kernel);
    pthread_mutex_destroy(&entry->mutex);
    free(entry);
}

/* ---- launching ---- */

/* The sub-buffers that a launch needs for its arguments (make_part).  They must exist until the
 * launch is enqueued. */
struct parts {
    const struct opencl_library *cl;
    cl_mem buffers[LIMIT_KERNEL_ARGUMENTS];
    size_t count;
};

static void parts_done(struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        parts->cl->clReleaseMemObject(parts->buffers[i]);
}

/* OpenCL has no pointer arithmetic on buffers, so an argument with an offset needs a sub-buffer. */
static enum kiln_code make_part(const struct device_argument *a, struct parts *parts,
                                cl_mem *ret_buffer, struct kiln_err *err)
{
    cl_buffer_region region = { .origin = (size_t)a->value,
                                .size = (size_t)(a->memory->bytes - a->value) };
    cl_int status = CL_SUCCESS;
    cl_mem part = parts->cl->clCreateSubBuffer(a->memory->native, 0, CL_BUFFER_CREATE_TYPE_REGION,
                                               &region, &status);
    if (!part)
        return opencl_fail(err, status, "cannot offset an argument by %llu bytes",
                           (unsigned long long)a->value);
    parts->buffers[parts->count++] = part;
    *ret_buffer = part;
    return KILN_OK;
}

static enum kiln_code set_argument(cl_kernel kernel, cl_uint index, const struct device_argument *a,
                                   struct parts *parts, struct kiln_err *err)
{
    const void *value = &a->value; /* the host is little-endian, so the low bytes come first */
    size_t size = a->size;
    cl_mem buffer;
    if (a->memory) {
        buffer = a->memory->native;
        enum kiln_code rc = a->value ? make_part(a, parts, &buffer, err) : KILN_OK;
        if (rc)
            return rc;
        value = &buffer;
        size = sizeof(buffer);
    }
    cl_int status = parts->cl->clSetKernelArg(kernel, index, size, value);
    return status ? opencl_fail(err, status, "cannot set argument %u of %zu bytes", index, size)
                  : KILN_OK;
}

static enum kiln_code enqueue_launch(struct opencl_device *d, cl_kernel kernel,
                                     const struct device_launch *launch, struct kiln_err *err)
{
    __attribute__((cleanup(parts_done))) struct parts parts = { .cl = d->cl };
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        enum kiln_code rc = set_argument(kernel, i, &launch->arguments[i], &parts, err);
        if (rc)
            return rc;
    }
    size_t global[3], local[3];
    for (int i = 0; i < 3; i++) {
        local[i] = launch->group[i];
        global[i] = (size_t)launch->grid[i] * launch->group[i];
    }
    cl_int status = d->cl->clEnqueueNDRangeKernel(launch->stream, kernel, 3, NULL, global, local, 0,
                                                  NULL, NULL);
    return status ? opencl_fail(err, status, "%s rejected the launch", d->base.name) : KILN_OK;
}

static enum kiln_code opencl_launch(struct kiln_device *device, void *function,
                                    const struct device_launch *launch, struct kiln_err *err)
{
    struct entry *entry = function;
    pthread_mutex_lock(&entry->mutex);
    enum kiln_code rc = enqueue_launch(opencl_of(device), entry->kernel, launch, err);
    pthread_mutex_unlock(&entry->mutex);
    return rc;
}

static void opencl_close(struct kiln_device *device)
{
    struct opencl_device *d = opencl_of(device);
    if (d->context)
        (void)d->cl->clReleaseContext(d->context);
}

const struct device_ops opencl_ops = {
    .create_memory = opencl_create_memory,
    .adopt_memory = opencl_adopt_memory,
    .drop_memory = opencl_drop_memory,
    .write = opencl_write,
    .read = opencl_read,
    .fill = opencl_fill,
    .create_stream = opencl_create_stream,
    .adopt_stream = opencl_adopt_stream,
    .drop_stream = opencl_drop_stream,
    .finish = opencl_finish,
    .create_event = opencl_create_event,
    .drop_event = opencl_drop_event,
    .record = opencl_record,
    .wait = opencl_wait,
    .elapsed = opencl_elapsed,
    .load = opencl_load,
    .unload = opencl_unload,
    .find = opencl_find,
    .forget = opencl_forget,
    .launch = opencl_launch,
    .close = opencl_close,
};
