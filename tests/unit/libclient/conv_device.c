/* SPDX-License-Identifier: MIT */
#include "tests/unit/libclient/conv_device.h"

#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct block {
    uint64_t bytes;
    unsigned char data[];
};

struct function {
    char what[16];
    double ms;
};

static struct made_device *made_of(struct kiln_device *device)
{
    return (struct made_device *)device;
}

static enum kiln_code lost(struct kiln_device *device, struct kiln_err *err)
{
    return made_of(device)->is_lost ? kiln_fail(err, KILN_GPU_FAULT, "the device is gone")
                                    : KILN_OK;
}

static enum kiln_code create_memory(struct kiln_device *device, uint64_t bytes, void **ret_memory,
                                    struct kiln_err *err)
{
    struct made_device *d = made_of(device);
    if (bytes > d->memory_left)
        return kiln_fail(err, KILN_NO_MEMORY, "the device has no %llu bytes left",
                         (unsigned long long)bytes);
    struct block *b = calloc(1, sizeof(*b) + bytes);
    assert_non_null(b);
    b->bytes = bytes;
    d->memory_left -= bytes;
    d->memory_used += bytes;
    if (d->memory_used > d->memory_used_max)
        d->memory_used_max = d->memory_used;
    d->memories++;
    *ret_memory = b;
    return KILN_OK;
}

static void drop_memory(struct kiln_device *device, void *memory, bool is_ours)
{
    struct block *b = memory;
    assert_true(is_ours);
    made_of(device)->memory_left += b->bytes;
    made_of(device)->memory_used -= b->bytes;
    made_of(device)->memories--;
    free(b);
}

static uint64_t free_bytes(struct kiln_device *device) { return made_of(device)->memory_left; }

static enum kiln_code write_memory(struct kiln_memory *memory, const void *from, uint64_t bytes,
                                   void *stream, struct kiln_err *err)
{
    struct kiln_device *device = memory->device;
    struct block *b = memory->native;
    made_of(device)->was_own_stream_used |= stream == device->stream;
    assert_true(bytes <= b->bytes);
    memcpy(b->data, from, bytes);
    return lost(device, err);
}

static enum kiln_code read_memory(struct kiln_memory *memory, void *to, uint64_t bytes,
                                  void *stream, struct kiln_err *err)
{
    struct kiln_device *device = memory->device;
    struct block *b = memory->native;
    made_of(device)->was_own_stream_used |= stream == device->stream;
    made_of(device)->was_read_early |= made_of(device)->busy_stream != NULL;
    assert_true(bytes <= b->bytes);
    memcpy(to, b->data, bytes);
    return lost(device, err);
}

static enum kiln_code fill(struct kiln_memory *memory, uint8_t value, void *stream,
                           struct kiln_err *err)
{
    struct block *b = memory->native;
    (void)stream;
    memset(b->data, value, b->bytes);
    return lost(memory->device, err);
}

static enum kiln_code finish(struct kiln_device *device, void *stream, struct kiln_err *err)
{
    if (stream == made_of(device)->busy_stream)
        made_of(device)->busy_stream = NULL;
    return lost(device, err);
}

static enum kiln_code create_stream(struct kiln_device *device, bool is_apart, void **ret_stream,
                                    struct kiln_err *err)
{
    made_of(device)->has_blocking_stream |= !is_apart;
    *ret_stream = malloc(1);
    assert_non_null(*ret_stream);
    return lost(device, err);
}

static void relax_captures(struct kiln_device *device) { made_of(device)->is_relaxed = true; }

static void drop_stream(struct kiln_device *device, void *stream, bool is_ours)
{
    (void)device;
    assert_true(is_ours);
    free(stream);
}

static enum kiln_code create_event(struct kiln_device *device, void **ret_event,
                                   struct kiln_err *err)
{
    (void)device, (void)err;
    *ret_event = calloc(1, sizeof(double));
    assert_non_null(*ret_event);
    return KILN_OK;
}

static void drop_event(struct kiln_device *device, void *event)
{
    (void)device;
    free(event);
}

static enum kiln_code record(struct kiln_device *device, void **event, void *stream,
                             struct kiln_err *err)
{
    (void)stream;
    *(double *)*event = made_of(device)->now_ms;
    return lost(device, err);
}

static enum kiln_code wait_event(struct kiln_device *device, void *event, struct kiln_err *err)
{
    (void)event;
    return lost(device, err);
}

static enum kiln_code elapsed(struct kiln_device *device, void *begin, void *end, double *ret_ms,
                              struct kiln_err *err)
{
    *ret_ms = *(double *)end - *(double *)begin;
    return lost(device, err);
}

static enum kiln_code load(struct kiln_device *device, struct bytes object, void **ret_module,
                           struct kiln_err *err)
{
    (void)device, (void)object, (void)err;
    *ret_module = device;
    return KILN_OK;
}

static void unload(struct kiln_device *device, void *module) { assert_ptr_equal(device, module); }

static enum kiln_code find(struct kiln_device *device, void *module,
                           const struct device_entry_point *entry, void **ret_function,
                           struct kiln_err *err)
{
    if (strncmp(entry->name, "damaged", 7) == 0)
        return kiln_fail(err, KILN_CORRUPT, "there is no code of that name");
    if (strncmp(entry->name, "large", 5) == 0) {
        made_of(device)->large_kernels++;
        return kiln_fail(err, KILN_NO_MEMORY, "the code does not fit into memory");
    }
    struct function *f = calloc(1, sizeof(*f));
    (void)module;
    assert_non_null(f);
    assert_int_equal(sscanf(entry->name, "%15s %lf", f->what, &f->ms), 2);
    made_of(device)->functions++;
    *ret_function = f;
    return KILN_OK;
}

static void forget(struct kiln_device *device, void *function)
{
    made_of(device)->functions -= function != NULL;
    free(function);
}

static void compute(const struct device_launch *launch)
{
    const struct block *x = launch->arguments[0].memory->native;
    const struct block *w = launch->arguments[1].memory->native;
    struct block *y = launch->arguments[2].memory->native;
    const float *a = (const void *)x->data, *b = (const void *)w->data;
    float *to = (void *)y->data;
    for (uint64_t i = 0; i < y->bytes / sizeof(float); i++)
        to[i] = a[i % (x->bytes / sizeof(float))] * b[i % (w->bytes / sizeof(float))];
}

static enum kiln_code run(struct kiln_device *device, void *function,
                          const struct device_launch *launch, struct kiln_err *err)
{
    struct made_device *d = made_of(device);
    const struct function *f = function;
    struct block *y = launch->arguments[2].memory->native;
    d->launches++;
    d->now_ms += f->ms;
    if (strcmp(f->what, "real") == 0)
        (void)usleep((useconds_t)(f->ms * 1000));
    if (strcmp(f->what, "fatal") == 0)
        d->is_lost = true;
    if (strcmp(f->what, "broken") == 0)
        return kiln_fail(err, KILN_UNSUPPORTED, "too many resources are asked for");
    if (strcmp(f->what, "lazy") != 0)
        compute(launch);
    if (strcmp(f->what, "wrong") == 0)
        ((float *)(void *)y->data)[y->bytes / sizeof(float) - 1] += 0.25F;
    return lost(device, err);
}

static void close_device(struct kiln_device *device) { (void)device; }

static const struct device_ops ops = {
    .create_memory = create_memory,
    .drop_memory = drop_memory,
    .free_bytes = free_bytes,
    .write = write_memory,
    .read = read_memory,
    .fill = fill,
    .finish = finish,
    .create_stream = create_stream,
    .drop_stream = drop_stream,
    .relax_captures = relax_captures,
    .create_event = create_event,
    .drop_event = drop_event,
    .record = record,
    .wait = wait_event,
    .elapsed = elapsed,
    .load = load,
    .unload = unload,
    .find = find,
    .forget = forget,
    .launch = run,
    .close = close_device,
};

struct made_device *made_device_open(void)
{
    struct kiln_device *device = device_create(sizeof(struct made_device), &ops);
    assert_non_null(device);
    strcpy(device->name, "made:0");
    strcpy(device->model, "Made Device");
    strcpy(device->target, "gfx90a");
    strcpy(device->database_id, "gfx90a68");
    strcpy(device->driver, "Made 1.0");
    strcpy(device->uuid, "GPU-0000");
    device->clock_mhz = 1700;
    made_of(device)->memory_left = 1u << 30;
    return made_of(device);
}
