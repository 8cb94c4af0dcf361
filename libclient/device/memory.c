/* SPDX-License-Identifier: MIT */
#include "libclient/device/device.h"
#include "libclient/failure.h"

#include <stdio.h>

static enum kiln_code make_memory(struct kiln_device *device, void *native, uint64_t bytes,
                                  struct kiln_memory **ret_memory, struct kiln_err *err)
{
    struct kiln_memory *m = calloc(1, sizeof(*m));
    if (!m)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a device buffer");
    bool is_ours = !native;
    enum kiln_code rc = device_enter(device, err);
    if (!rc && is_ours)
        rc = device->ops->create_memory(device, bytes, &native, err);
    else if (!rc)
        rc = device->ops->adopt_memory(device, native, bytes, err);
    if (rc) {
        free(m);
        return rc;
    }
    *m = (struct kiln_memory){
        .device = device_ref(device), .bytes = bytes, .native = native, .is_ours = is_ours
    };
    *ret_memory = m;
    return KILN_OK;
}

int kiln_memory_create(struct kiln_device *device, uint64_t bytes, struct kiln_memory **ret_memory,
                       struct kiln_error *err)
{
    if (!device || !ret_memory || bytes == 0)
        return error_argument(err, "kiln_memory_create needs a device, a size above 0 and a place "
                                   "for the memory");
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, make_memory(device, NULL, bytes, ret_memory, &e), err);
}

int kiln_memory_wrap(struct kiln_device *device, void *native, uint64_t bytes,
                     struct kiln_memory **ret_memory, struct kiln_error *err)
{
    if (!device || !native || !ret_memory || bytes == 0)
        return error_argument(err, "kiln_memory_wrap needs a device, its memory, a size above 0 "
                                   "and a pointer for the result");
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, make_memory(device, native, bytes, ret_memory, &e), err);
}

void kiln_memory_destroy(struct kiln_memory *memory)
{
    if (!memory)
        return;
    struct kiln_device *device = memory->device;
    if (fork_guard_holds(&device->guard))
        device->ops->drop_memory(device, memory->native, memory->is_ours);
    free(memory);
    device_unref(device);
}

void *kiln_memory_native(const struct kiln_memory *memory) { return memory->native; }
uint64_t kiln_memory_bytes(const struct kiln_memory *memory) { return memory->bytes; }

static bool is_within(const struct kiln_memory *memory, const void *host, uint64_t bytes)
{
    return memory && host && bytes <= memory->bytes;
}

enum kiln_code memory_write(struct kiln_memory *memory, const void *from, uint64_t bytes,
                            const struct kiln_stream *stream, struct kiln_err *err)
{
    void *native = NULL;
    enum kiln_code rc = device_enter(memory->device, err);
    if (!rc)
        rc = device_stream(memory->device, stream, &native, err);
    return rc || !bytes ? rc : memory->device->ops->write(memory, from, bytes, native, err);
}

enum kiln_code memory_read(struct kiln_memory *memory, void *to, uint64_t bytes,
                           const struct kiln_stream *stream, struct kiln_err *err)
{
    void *native = NULL;
    enum kiln_code rc = device_enter(memory->device, err);
    if (!rc)
        rc = device_stream(memory->device, stream, &native, err);
    return rc || !bytes ? rc : memory->device->ops->read(memory, to, bytes, native, err);
}

int kiln_memory_write(struct kiln_memory *memory, const void *from, uint64_t bytes,
                      struct kiln_error *err)
{
    if (!is_within(memory, from, bytes))
        return error_argument(err,
                              "cannot write %llu bytes: the memory is smaller, or no memory "
                              "was given",
                              (unsigned long long)bytes);
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, memory_write(memory, from, bytes, /* stream= */ NULL, &e), err);
}

int kiln_memory_read(struct kiln_memory *memory, void *to, uint64_t bytes, struct kiln_error *err)
{
    if (!is_within(memory, to, bytes))
        return error_argument(err,
                              "cannot read %llu bytes: the memory is smaller, or no memory "
                              "was given",
                              (unsigned long long)bytes);
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, memory_read(memory, to, bytes, /* stream= */ NULL, &e), err);
}

int kiln_memory_fill(struct kiln_memory *memory, unsigned char value, struct kiln_stream *stream,
                     struct kiln_error *err)
{
    if (!memory)
        return error_argument(err, "kiln_memory_fill needs a memory");
    struct kiln_device *device = memory->device;
    struct kiln_err e = KILN_ERR_INIT;
    void *native = NULL;
    enum kiln_code rc = device_enter(device, &e);
    if (!rc)
        rc = device_stream(device, stream, &native, &e);
    if (!rc)
        rc = device->ops->fill(memory, value, native, &e);
    return error_return(&e, rc, err);
}
