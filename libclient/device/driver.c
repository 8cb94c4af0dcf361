/* SPDX-License-Identifier: MIT */
#include "libclient/device/driver.h"

#include "libclient/device/elf_check.h"

#include <stdio.h>

/* The attribute DEVICE_ORDINAL, whose value is the same in CUpointer_attribute and in
 * hipPointer_attribute. */
#define POINTER_DEVICE_ORDINAL 9

/* CU_STREAM_NON_BLOCKING and hipStreamNonBlocking. */
#define STREAM_NON_BLOCKING 1u

/* CU_STREAM_CAPTURE_MODE_RELAXED and hipStreamCaptureModeRelaxed. */
#define CAPTURE_RELAXED 2

/* Status of a launch that has too many threads, groups or bytes of shared memory.  Also the status
 * after encoding a tensor map with sizes that the driver does not support.  The device still works
 * afterwards.  CUresult and hipError_t use the same number. */
#define STATUS_INVALID_VALUE 1
static const struct {
    int status;
    enum kiln_code code;
} codes[] = {
    { 2, KILN_NO_MEMORY },     /* out of memory */
    { 3, KILN_UNAVAILABLE },   /* not initialized */
    { 4, KILN_UNAVAILABLE },   /* deinitialized */
    { 9, KILN_UNSUPPORTED },   /* invalid configuration */
    { 34, KILN_UNAVAILABLE },  /* stub library */
    { 46, KILN_UNAVAILABLE },  /* device unavailable */
    { 100, KILN_UNAVAILABLE }, /* no device */
    { 101, KILN_NOT_FOUND },   /* invalid device */
    { 200, KILN_CORRUPT },     /* invalid image */
    { 201, KILN_INVALID },     /* invalid context */
    { 209, KILN_CORRUPT },     /* no binary for GPU */
    { 218, KILN_CORRUPT },     /* invalid PTX, kernel file */
    { 222, KILN_CORRUPT },     /* unsupported PTX version */
    { 400, KILN_INVALID },     /* invalid handle */
    { 500, KILN_CORRUPT },     /* no such entry point */
    { 701, KILN_UNSUPPORTED }, /* launch out of resources */
    { 709, KILN_INVALID },     /* context is destroyed */
    { 801, KILN_UNSUPPORTED }, /* not supported */
    { 803, KILN_UNAVAILABLE }, /* driver mismatch */
    { 900, KILN_INVALID },     /* stream capture unsupported */
    { 906, KILN_INVALID },     /* stream capture implicit */
};

enum kiln_code driver_fail(const struct driver_kind *kind, struct kiln_err *err, int status,
                           const char *fmt, ...)
{
    enum kiln_code code = KILN_GPU_FAULT;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].status == status)
            code = codes[i].code;
    const char *name = kind->status_name(status);
    char text[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (kind->forget_failure)
        kind->forget_failure();
    return kiln_fail(err, code, "%s: %s (%d)", text, name ? name : "an unknown error", status);
}

static enum kiln_code driver_enter(struct driver_device *d, struct driver_scope *scope,
                                   struct kiln_err *err)
{
    return d->kind->enter(d, scope, err);
}

/* Handles the status of a call that released a handle.  Ignores a failure, because libkiln does not
 * use the handle any longer. */
static void ignore_status(const struct driver_device *d, int status)
{
    if (status && d->kind->forget_failure)
        d->kind->forget_failure();
}

/* Sets how the calling thread treats captures of streams.  In every mode but the relaxed one, a
 * call such as one that loads a module fails while another thread captures its stream in the global
 * mode, and breaks that capture.  Returns the previous mode. */
static int exchange_capture_mode(const struct driver_device *d, int mode)
{
    if (d->calls->exchange_capture_mode)
        ignore_status(d, d->calls->exchange_capture_mode(&mode));
    return mode;
}

static void release_handle(struct kiln_device *device, int (*destroy)(void *), void *handle)
{
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    struct kiln_err ignored = KILN_ERR_INIT;
    if (driver_enter(d, &scope, &ignored) == KILN_OK)
        ignore_status(d, destroy(handle));
}

/* ---- memory ---- */

static enum kiln_code driver_create_memory(struct kiln_device *device, uint64_t bytes,
                                           void **ret_memory, struct kiln_err *err)
{
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc)
        return rc;
    int status = d->calls->memory_create(ret_memory, (size_t)bytes);
    return status ? driver_fail(d->kind, err, status, "cannot get %llu bytes of memory on %s",
                                (unsigned long long)bytes, device->name)
                  : KILN_OK;
}

static enum kiln_code driver_adopt_memory(struct kiln_device *device, void *memory, uint64_t bytes,
                                          struct kiln_err *err)
{
    (void)bytes;
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc || !d->calls->pointer_attribute)
        return rc;
    int ordinal = -1;
    int status = d->calls->pointer_attribute(&ordinal, POINTER_DEVICE_ORDINAL, memory);
    if (status) {
        (void)driver_fail(d->kind, err, status, "%p is not memory of %s", memory, d->kind->runtime);
        return err->code = KILN_INVALID;
    }
    if (ordinal != d->ordinal)
        return kiln_fail(err, KILN_INVALID, "%p is memory of device %d, not of %s", memory, ordinal,
                         device->name);
    return KILN_OK;
}

static void driver_drop_memory(struct kiln_device *device, void *memory, bool is_ours)
{
    if (is_ours)
        release_handle(device, driver_of(device)->calls->memory_destroy, memory);
}

static enum kiln_code finish_in_scope(struct driver_device *d, void *stream, struct kiln_err *err)
{
    int status = d->calls->stream_finish(stream);
    return status ? driver_fail(d->kind, err, status, "%s failed to execute its work", d->base.name)
                  : KILN_OK;
}

static uint64_t driver_free_bytes(struct kiln_device *device)
{
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    struct kiln_err ignored = KILN_ERR_INIT;
    size_t left = 0, total = 0;
    if (!d->calls->memory_info || driver_enter(d, &scope, &ignored))
        return UINT64_MAX;
    int status = d->calls->memory_info(&left, &total);
    ignore_status(d, status);
    return status ? UINT64_MAX : left;
}

static enum kiln_code driver_write(struct kiln_memory *memory, const void *from, uint64_t bytes,
                                   void *stream, struct kiln_err *err)
{
    struct kiln_device *device = memory->device;
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc || bytes == 0)
        return rc;
    int status = d->calls->write(memory->native, from, (size_t)bytes, stream);
    return status ? driver_fail(d->kind, err, status, "cannot copy %llu bytes to %s",
                                (unsigned long long)bytes, device->name)
                  : finish_in_scope(d, stream, err);
}

static enum kiln_code driver_read(struct kiln_memory *memory, void *to, uint64_t bytes,
                                  void *stream, struct kiln_err *err)
{
    struct kiln_device *device = memory->device;
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc || bytes == 0)
        return rc;
    int status = d->calls->read(to, memory->native, (size_t)bytes, stream);
    return status ? driver_fail(d->kind, err, status, "cannot copy %llu bytes from %s",
                                (unsigned long long)bytes, device->name)
                  : finish_in_scope(d, stream, err);
}

static enum kiln_code driver_fill(struct kiln_memory *memory, uint8_t value, void *stream,
                                  struct kiln_err *err)
{
    struct driver_device *d = driver_of(memory->device);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc)
        return rc;
    int status = d->calls->fill(memory->native, value, (size_t)memory->bytes, stream);
    return status ? driver_fail(d->kind, err, status, "cannot fill %llu bytes on %s",
                                (unsigned long long)memory->bytes, d->base.name)
                  : KILN_OK;
}

/* ---- streams ---- */

static enum kiln_code driver_create_stream(struct kiln_device *device, bool is_apart,
                                           void **ret_stream, struct kiln_err *err)
{
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc)
        return rc;
    int status = d->calls->stream_create(ret_stream, is_apart ? STREAM_NON_BLOCKING : 0);
    return status ? driver_fail(d->kind, err, status, "cannot create a stream on %s", device->name)
                  : KILN_OK;
}

static enum kiln_code driver_adopt_stream(struct kiln_device *device, void *stream,
                                          struct kiln_err *err)
{
    (void)device;
    (void)stream;
    (void)err;
    return KILN_OK;
}

static void driver_drop_stream(struct kiln_device *device, void *stream, bool is_ours)
{
    if (is_ours)
        release_handle(device, driver_of(device)->calls->stream_destroy, stream);
}

static enum kiln_code driver_finish(struct kiln_device *device, void *stream, struct kiln_err *err)
{
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    return rc ? rc : finish_in_scope(d, stream, err);
}

enum kiln_code driver_start(struct driver_device *d, struct kiln_err *err)
{
    return driver_create_stream(&d->base, /* is_apart= */ false, &d->base.stream, err);
}

/* ---- events ---- */

static enum kiln_code driver_create_event(struct kiln_device *device, void **ret_event,
                                          struct kiln_err *err)
{
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc)
        return rc;
    int status = d->calls->event_create(ret_event, 0);
    return status ? driver_fail(d->kind, err, status, "cannot create an event on %s", device->name)
                  : KILN_OK;
}

static void driver_drop_event(struct kiln_device *device, void *event)
{
    release_handle(device, driver_of(device)->calls->event_destroy, event);
}

static enum kiln_code driver_record(struct kiln_device *device, void **event, void *stream,
                                    struct kiln_err *err)
{
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc)
        return rc;
    int status = d->calls->event_record(*event, stream);
    return status ? driver_fail(d->kind, err, status, "cannot record an event on %s", device->name)
                  : KILN_OK;
}

static enum kiln_code driver_wait(struct kiln_device *device, void *event, struct kiln_err *err)
{
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc)
        return rc;
    int status = d->calls->event_wait(event);
    return status ? driver_fail(d->kind, err, status, "%s failed before an event", device->name)
                  : KILN_OK;
}

static enum kiln_code driver_elapsed(struct kiln_device *device, void *begin, void *end,
                                     double *ret_ms, struct kiln_err *err)
{
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc)
        return rc;
    float ms = 0;
    int status = d->calls->event_elapsed(&ms, begin, end);
    if (status)
        return driver_fail(d->kind, err, status, "%s cannot measure the time between two events",
                           device->name);
    *ret_ms = (double)ms;
    return KILN_OK;
}

/* ---- code objects ---- */

/* The message gives advice only if the failure is due to the object, not to the device. */
static enum kiln_code fail_load(struct driver_device *d, struct bytes object, int status,
                                struct kiln_err *err)
{
    const struct kiln_device *device = &d->base;
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc =
        driver_fail(d->kind, &why, status, "%s does not accept it", d->kind->runtime);
    bool is_object = rc == KILN_CORRUPT || rc == KILN_UNSUPPORTED;
    return kiln_fail(err, rc, "cannot load a code object of %zu bytes on '%s' (%s): %s%s",
                     object.size, device->name, device->target, why.text,
                     is_object ? ": compile it for this target, with a compiler that is not newer "
                                 "than the driver"
                               : "");
}

static enum kiln_code driver_load(struct kiln_device *device, struct bytes object,
                                  void **ret_module, struct kiln_err *err)
{
    struct driver_device *d = driver_of(device);
    enum kiln_code rc = elf_check(object, d->kind->elf_machine, err);
    if (rc)
        return kiln_while(err, "cannot load a code object on '%s' (%s)", device->name,
                          device->target);
    DRIVER_SCOPE(scope);
    rc = driver_enter(d, &scope, err);
    if (rc)
        return rc;
    int before = exchange_capture_mode(d, CAPTURE_RELAXED);
    int status = d->calls->module_load(ret_module, object.data);
    (void)exchange_capture_mode(d, before);
    return status ? fail_load(d, object, status, err) : KILN_OK;
}

static void driver_relax_captures(struct kiln_device *device)
{
    (void)exchange_capture_mode(driver_of(device), CAPTURE_RELAXED);
}

static void driver_unload(struct kiln_device *device, void *module)
{
    release_handle(device, driver_of(device)->calls->module_unload, module);
}

static enum kiln_code driver_find(struct kiln_device *device, void *module,
                                  const struct device_entry_point *entry, void **ret_function,
                                  struct kiln_err *err)
{
    struct driver_device *d = driver_of(device);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc)
        return rc;
    void *function = NULL;
    int status = d->calls->module_function(&function, module, entry->name);
    if (status)
        return driver_fail(d->kind, err, status,
                           "'%s' found no kernel '%s' in its code object: "
                           "compile it again from the source that defines the kernel",
                           device->name, entry->name);
    if (entry->shared_bytes && d->kind->allow_shared)
        rc = d->kind->allow_shared(d, function, entry->name, entry->shared_bytes, err);
    if (!rc)
        *ret_function = function;
    return rc;
}

static void driver_forget(struct kiln_device *device, void *function)
{
    (void)device;
    (void)function;
}

static enum kiln_code driver_encode(struct kiln_device *device, const struct tensor_map *map,
                                    void *address, struct device_map *ret_map, struct kiln_err *err)
{
    struct driver_device *d = driver_of(device);
    if (!d->kind->encode)
        return kiln_fail(err, KILN_UNSUPPORTED, "'%s' (%s) has no tensor maps: use another solver",
                         device->name, device->target);
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc)
        return rc;
    int status = d->kind->encode(d, map, address, ret_map);
    if (!status)
        return KILN_OK;
    rc = driver_fail(d->kind, err, status, "%s cannot encode a tensor map at %p", device->name,
                     address);
    return status == STATUS_INVALID_VALUE ? (err->code = KILN_UNSUPPORTED) : rc;
}

static enum kiln_code driver_launch(struct kiln_device *device, void *function,
                                    const struct device_launch *launch, struct kiln_err *err)
{
    struct driver_device *d = driver_of(device);
    uint64_t values[LIMIT_KERNEL_ARGUMENTS];
    void *arguments[LIMIT_KERNEL_ARGUMENTS];
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        const struct device_argument *a = &launch->arguments[i];
        /* the host is little-endian, so the low bytes of a number come first */
        values[i] = a->memory ? (uint64_t)(uintptr_t)a->memory->native + a->value : a->value;
        arguments[i] = a->map ? (void *)a->map : &values[i];
    }
    DRIVER_SCOPE(scope);
    enum kiln_code rc = driver_enter(d, &scope, err);
    if (rc)
        return rc;
    const uint32_t *grid = launch->grid, *group = launch->group;
    int status = d->calls->launch(function, grid[0], grid[1], grid[2], group[0], group[1], group[2],
                                  launch->shared_bytes, launch->stream, arguments, NULL);
    if (!status)
        return KILN_OK;
    rc = driver_fail(d->kind, err, status, "%s rejected the launch of %ux%ux%u groups of %ux%ux%u",
                     device->name, grid[0], grid[1], grid[2], group[0], group[1], group[2]);
    return status == STATUS_INVALID_VALUE ? (err->code = KILN_UNSUPPORTED) : rc;
}

static void driver_close(struct kiln_device *device)
{
    struct driver_device *d = driver_of(device);
    d->kind->close(d);
}

const struct device_ops driver_ops = {
    .memory_is_address = true,
    .create_memory = driver_create_memory,
    .adopt_memory = driver_adopt_memory,
    .drop_memory = driver_drop_memory,
    .free_bytes = driver_free_bytes,
    .write = driver_write,
    .read = driver_read,
    .fill = driver_fill,
    .create_stream = driver_create_stream,
    .adopt_stream = driver_adopt_stream,
    .drop_stream = driver_drop_stream,
    .relax_captures = driver_relax_captures,
    .finish = driver_finish,
    .create_event = driver_create_event,
    .drop_event = driver_drop_event,
    .record = driver_record,
    .wait = driver_wait,
    .elapsed = driver_elapsed,
    .load = driver_load,
    .unload = driver_unload,
    .find = driver_find,
    .forget = driver_forget,
    .encode = driver_encode,
    .launch = driver_launch,
    .close = driver_close,
};
