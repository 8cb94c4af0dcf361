/* SPDX-License-Identifier: MIT */
#include "libclient/device/device.h"

#include "common/miopen/device_database_id.h"
#include "libclient/failure.h"

#include <stdio.h>
#include <string.h>

/* maximum bytes of one runtime's reason; a message has up to three reasons */
#define REASON_MAX 130

static const struct device_runtime *const runtimes[] = {
    &device_runtime_hip,
    &device_runtime_cuda,
    &device_runtime_opencl,
};
#define RUNTIME_COUNT (sizeof(runtimes) / sizeof(runtimes[0]))

struct kiln_device *device_create(size_t size, const struct device_ops *ops)
{
    struct kiln_device *device = calloc(1, size);
    if (!device)
        return NULL;
    device->ops = ops;
    atomic_init(&device->references, 1);
    fork_guard_init(&device->guard);
    module_table_init(&device->modules);
    return device;
}

struct kiln_device *device_ref(struct kiln_device *device)
{
    atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
    return device;
}

void device_unref(struct kiln_device *device)
{
    if (!device || atomic_fetch_sub_explicit(&device->references, 1, memory_order_acq_rel) != 1)
        return;
    bool is_child = !fork_guard_holds(&device->guard);
    module_table_done(&device->modules, device, is_child);
    if (!is_child && device->stream)
        device->ops->drop_stream(device, device->stream, true);
    if (!is_child)
        device->ops->close(device);
    fork_guard_done(&device->guard);
    free(device);
}

enum kiln_code device_enter(const struct kiln_device *device, struct kiln_err *err)
{
    if (fork_guard_holds(&device->guard))
        return KILN_OK;
    return kiln_fail(
        err, KILN_INVALID,
        "%s was opened before this process was forked, and GPU runtimes do not survive "
        "a fork: open devices only in the child, or call exec in it",
        device->name);
}

enum kiln_code device_stream(const struct kiln_device *device, const struct kiln_stream *stream,
                             void **ret_stream, struct kiln_err *err)
{
    if (stream && stream->device != device)
        return kiln_fail(err, KILN_INVALID, "the stream belongs to %s, not to %s",
                         stream->device->name, device->name);
    *ret_stream = stream ? stream->native : device->stream;
    return KILN_OK;
}

void device_set_database_id(struct kiln_device *device)
{
    struct target target;
    struct kiln_err ignored = KILN_ERR_INIT;
    _Static_assert(sizeof(device->database_id) >= DATABASE_ID_MAX, "a database id does not fit");
    if (target_parse(bytes_of_text(device->target), &target, &ignored) ||
        !database_id_of_device(&target, device->compute_units, device->database_id))
        device->database_id[0] = '\0';
}

void device_report(const struct kiln_device *device, const struct kiln_err *why_not,
                   kiln_device_found *found, void *context)
{
    struct kiln_error error;
    struct kiln_device_info info = { .size = sizeof(info),
                                     .name = device->name,
                                     .model = device->model,
                                     .target = device->target,
                                     .database_id = device->database_id,
                                     .uuid = device->uuid,
                                     .driver = device->driver,
                                     .pci = device->pci,
                                     .compute_units = device->compute_units,
                                     .clock_mhz = device->clock_mhz,
                                     .memory = device->memory_bytes };
    if (why_not)
        error_return(why_not, why_not->code, &error);
    found(context, &info, why_not ? &error : NULL);
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

/* Truncates a long reason at a blank, so that no path is cut in two. */
static void add_reason(char *reasons, size_t size, const char *kind, const char *why)
{
    size_t used = strlen(reasons), limit = used + REASON_MAX < size ? used + REASON_MAX : size;
    int length = snprintf(reasons + used, limit - used, "%s%s: %s", used ? "; " : "", kind, why);
    if (length < 0 || (size_t)length < limit - used)
        return;
    size_t end = limit - sizeof(" ...");
    while (end > used && reasons[end] != ' ')
        end--;
    snprintf(reasons + end, limit - end, " ...");
}

static enum kiln_code open_first(struct kiln_device **ret_device, struct kiln_err *err)
{
    struct device_request first = { .uri = { .kind = DEVICE_AUTO } };
    char reasons[400] = "";
    for (size_t i = 0; i < RUNTIME_COUNT; i++) {
        struct kiln_err e = KILN_ERR_INIT;
        if (runtimes[i]->open(&first, ret_device, &e) == KILN_OK)
            return KILN_OK;
        add_reason(reasons, sizeof(reasons), runtimes[i]->kind, e.text);
    }
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "no device works here: %s ('kiln-driver devices' shows the whole reasons)",
                     reasons);
}

static enum kiln_code open_device(const char *name, void *context, struct kiln_device **ret_device,
                                  struct kiln_err *err)
{
    struct device_request request = { .context = context };
    enum kiln_code rc = device_uri_parse(name, &request.uri, err);
    if (rc)
        return rc;
    if (request.uri.kind != DEVICE_AUTO)
        return runtime_of(request.uri.kind)->open(&request, ret_device, err);
    if (context)
        return kiln_fail(err, KILN_INVALID,
                         "a context was given with 'auto': name its device, for example cuda:0");
    return open_first(ret_device, err);
}

int kiln_device_open(const char *name, struct kiln_device **ret_device, struct kiln_error *err)
{
    return kiln_device_open_in(name, NULL, ret_device, err);
}

int kiln_device_open_in(const char *name, void *context, struct kiln_device **ret_device,
                        struct kiln_error *err)
{
    if (!ret_device)
        return error_argument(err, "kiln_device_open needs a pointer for the device");
    struct kiln_err e = KILN_ERR_INIT;
    return error_return(&e, open_device(name, context, ret_device, &e), err);
}

static enum kiln_code open_next(const char *name, struct kiln_device **devices, size_t count,
                                size_t capacity, struct kiln_err *err)
{
    if (count == capacity)
        return kiln_fail(err, KILN_INVALID,
                         "the list has more than %zu devices, which is the capacity of the result",
                         capacity);
    enum kiln_code rc = open_device(name, NULL, &devices[count], err);
    if (rc)
        return rc;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(devices[i]->name, devices[count]->name) != 0)
            continue;
        device_unref(devices[count]);
        return kiln_fail(err, KILN_INVALID, "'%s' is in the list twice, as %s", name,
                         devices[i]->name);
    }
    return KILN_OK;
}

int kiln_device_open_list(const char *names, struct kiln_device **ret_devices, size_t capacity,
                          size_t *ret_count, struct kiln_error *err)
{
    if (!names || !ret_devices || !ret_count || capacity == 0)
        return error_argument(err,
                              "kiln_device_open_list needs a list and a pointer for devices and "
                              "their number");
    struct kiln_err e = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    char name[DEVICE_NAME_MAX];
    size_t count = 0;
    while (!rc && device_uri_next(&names, name)) {
        rc = open_next(name, ret_devices, count, capacity, &e);
        count += rc == KILN_OK;
    }
    while (rc && count > 0)
        device_unref(ret_devices[--count]);
    if (!rc)
        *ret_count = count;
    return error_return(&e, rc, err);
}

static void report_absent(const char *kind, const struct kiln_error *why_not,
                          kiln_device_found *found, void *context)
{
    struct kiln_device_info info = { .size = sizeof(info),
                                     .name = kind,
                                     .model = "",
                                     .target = "",
                                     .database_id = "",
                                     .uuid = "",
                                     .driver = "",
                                     .pci = "" };
    found(context, &info, why_not);
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
            report_absent(runtimes[i]->kind, &kinds[i].error, found, context);
    return KILN_E_OK;
}

void kiln_device_close(struct kiln_device *device) { device_unref(device); }
const char *kiln_device_name(const struct kiln_device *device) { return device->name; }
const char *kiln_device_model(const struct kiln_device *device) { return device->model; }
const char *kiln_device_target(const struct kiln_device *device) { return device->target; }
const char *kiln_device_uuid(const struct kiln_device *device) { return device->uuid; }
const char *kiln_device_driver(const struct kiln_device *device) { return device->driver; }
const char *kiln_device_pci(const struct kiln_device *device) { return device->pci; }
unsigned kiln_device_clock_mhz(const struct kiln_device *device) { return device->clock_mhz; }
uint64_t kiln_device_memory(const struct kiln_device *device) { return device->memory_bytes; }
const char *kiln_device_database_id(const struct kiln_device *device)
{
    return device->database_id;
}
unsigned kiln_device_compute_units(const struct kiln_device *device)
{
    return device->compute_units;
}

int kiln_device_finish(struct kiln_device *device, struct kiln_error *err)
{
    if (!device)
        return error_argument(err, "kiln_device_finish needs a device");
    struct kiln_err e = KILN_ERR_INIT;
    enum kiln_code rc = device_enter(device, &e);
    if (!rc)
        rc = device->ops->finish(device, device->stream, &e);
    return error_return(&e, rc, err);
}
