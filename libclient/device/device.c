/* SPDX-License-Identifier: MIT */
#include "libclient/device/device.h"

#include "libclient/failure.h"

#include <stdio.h>
#include <string.h>

/* In the order that "auto" tries them. */
static const struct device_runtime *const runtimes[] = {
    &device_runtime_hip,
    &device_runtime_cuda,
    &device_runtime_opencl,
};
#define RUNTIME_COUNT (sizeof(runtimes) / sizeof(runtimes[0]))

struct kiln_device *device_ref(struct kiln_device *device)
{
    atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
    return device;
}

void device_unref(struct kiln_device *device)
{
    if (device && atomic_fetch_sub_explicit(&device->references, 1, memory_order_acq_rel) == 1)
        device->ops->destroy(device);
}

static const struct device_runtime *runtime_of(enum device_kind kind)
{
    switch (kind) {
    case DEVICE_HIP: return &device_runtime_hip;
    case DEVICE_CUDA: return &device_runtime_cuda;
    case DEVICE_OPENCL: return &device_runtime_opencl;
    case DEVICE_AUTO: break;
    }
    return NULL;
}

static enum kiln_code open_first(struct kiln_device **ret_device, struct kiln_err *err)
{
    struct device_uri first = { .kind = DEVICE_AUTO };
    char reasons[400] = "";
    for (size_t i = 0; i < RUNTIME_COUNT; i++) {
        struct kiln_err e = KILN_ERR_INIT;
        if (runtimes[i]->open(&first, ret_device, &e) == KILN_OK)
            return KILN_OK;
        size_t used = strlen(reasons);
        snprintf(reasons + used, sizeof(reasons) - used, "%s%s: %.120s", used ? "; " : "",
                 runtimes[i]->kind, e.text);
    }
    return kiln_fail(err, KILN_UNAVAILABLE, "no device works here: %s", reasons);
}

int kiln_device_open(const char *name, struct kiln_device **ret_device, struct kiln_error *err)
{
    if (!ret_device)
        return error_argument(err, "kiln_device_open needs a place for the device");
    struct kiln_err e = KILN_ERR_INIT;
    struct device_uri uri;
    enum kiln_code rc = device_uri_parse(name, &uri, &e);
    if (!rc && uri.kind == DEVICE_AUTO)
        rc = open_first(ret_device, &e);
    else if (!rc)
        rc = runtime_of(uri.kind)->open(&uri, ret_device, &e);
    return error_return(&e, rc, err);
}

int kiln_device_list(kiln_device_found *found, void *context, struct kiln_error *err)
{
    if (!found)
        return error_argument(err, "kiln_device_list needs a callback");
    struct {
        bool failed;
        struct kiln_error error;
    } kinds[RUNTIME_COUNT];
    for (size_t i = 0; i < RUNTIME_COUNT; i++) {
        struct kiln_err e = KILN_ERR_INIT;
        enum kiln_code rc = runtimes[i]->list(found, context, &e);
        kinds[i].failed = rc != KILN_OK;
        error_return(&e, rc, &kinds[i].error);
    }
    for (size_t i = 0; i < RUNTIME_COUNT; i++)
        if (kinds[i].failed)
            found(context, runtimes[i]->kind, /* model= */ NULL, /* target= */ NULL,
                  &kinds[i].error);
    return KILN_E_OK;
}

void kiln_device_close(struct kiln_device *device) { device_unref(device); }
const char *kiln_device_name(const struct kiln_device *device) { return device->name; }
const char *kiln_device_model(const struct kiln_device *device) { return device->model; }
const char *kiln_device_target(const struct kiln_device *device) { return device->target; }
const char *kiln_device_database_id(const struct kiln_device *device)
{
    return device->database_id;
}
unsigned kiln_device_compute_units(const struct kiln_device *device)
{
    return device->compute_units;
}

/* ---- memory ---- */

int kiln_memory_create(struct kiln_device *device, uint64_t bytes, struct kiln_memory **ret_memory,
                       struct kiln_error *err)
{
    if (!device || !ret_memory || bytes == 0)
        return error_argument(err, "kiln_memory_create needs a device, a size above 0 and a place "
                                   "for the memory");
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, device->ops->create_memory(device, bytes, ret_memory, &e), err);
}

void kiln_memory_destroy(struct kiln_memory *memory)
{
    if (!memory)
        return;
    struct kiln_device *device = memory->device;
    device->ops->destroy_memory(memory);
    device_unref(device);
}

static bool fits(const struct kiln_memory *memory, const void *host, uint64_t bytes)
{
    return memory && host && bytes <= memory->bytes;
}

int kiln_memory_write(struct kiln_memory *memory, const void *from, uint64_t bytes,
                      struct kiln_error *err)
{
    if (!fits(memory, from, bytes))
        return error_argument(err,
                              "cannot write %llu bytes: more than the memory has, or no "
                              "memory given",
                              (unsigned long long)bytes);
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, memory->device->ops->write(memory, from, bytes, &e), err);
}

int kiln_memory_read(struct kiln_memory *memory, void *to, uint64_t bytes, struct kiln_error *err)
{
    if (!fits(memory, to, bytes))
        return error_argument(err,
                              "cannot read %llu bytes: more than the memory has, or no "
                              "memory given",
                              (unsigned long long)bytes);
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, memory->device->ops->read(memory, to, bytes, &e), err);
}

int kiln_device_finish(struct kiln_device *device, struct kiln_error *err)
{
    if (!device)
        return error_argument(err, "kiln_device_finish needs a device");
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, device->ops->finish(device, &e), err);
}
