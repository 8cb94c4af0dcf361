/* SPDX-License-Identifier: MIT */
/*
 * CUDA devices: opens them in the job's context if it has one, otherwise in the primary context,
 * which the CUDA runtime also uses. driver.c implements the operations.
 */
#include "libclient/device/cuda_library.h"
#include "libclient/device/cuda_tensor_map.h"
#include "libclient/device/elf_check.h"
#include "libclient/device/text_file.h"
#include "libclient/device/uuid.h"

#include <stdio.h>
#include <string.h>

/* Values of CUdevice_attribute. */
#define ATTRIBUTE_CLOCK_KHZ 13
#define ATTRIBUTE_MULTIPROCESSORS 16
#define ATTRIBUTE_CAPABILITY_MAJOR 75
#define ATTRIBUTE_CAPABILITY_MINOR 76
/* bytes of shared memory that a group may have if it requests more than 48 KiB */
#define ATTRIBUTE_SHARED_MAX 97
/* Values of CUfunction_attribute. */
#define FUNCTION_SHARED_STATIC 1
#define FUNCTION_SHARED_DYNAMIC_MAX 8

#define STATUS_NOT_SUPPORTED 801

#define KERNEL_MODULE_VERSION "/proc/driver/nvidia/version"

struct cuda_device {
    struct driver_device driver;
    const struct cuda_library *cuda;
    int handle;
    void *context;
    bool is_retained;
    pthread_mutex_t shared;
};

static struct cuda_device *cuda_of(struct driver_device *d) { return (struct cuda_device *)d; }

/* ---- contexts ---- */

static enum kiln_code cuda_enter(struct driver_device *d, struct driver_scope *scope,
                                 struct kiln_err *err)
{
    struct cuda_device *c = cuda_of(d);
    void *current = NULL;
    int status = c->cuda->cuCtxGetCurrent(&current);
    if (!status && current == c->context)
        return KILN_OK;
    if (!status)
        status = c->cuda->cuCtxPushCurrent_v2(c->context);
    if (status)
        return driver_fail(d->kind, err, status, "cannot enter the context of %s", d->base.name);
    scope->device = d;
    return KILN_OK;
}

static void cuda_leave(struct driver_scope *scope)
{
    void *popped = NULL;
    (void)cuda_of(scope->device)->cuda->cuCtxPopCurrent_v2(&popped);
}

static const char *cuda_status_name(int status)
{
    const struct cuda_library *cuda = NULL;
    const char *name = NULL;
    struct kiln_err ignored = KILN_ERR_INIT;
    if (cuda_library_use(&cuda, &ignored) == KILN_OK)
        (void)cuda->cuGetErrorName(status, &name);
    return name;
}

static void release_primary(struct cuda_device *c)
{
    if (c->cuda->cuDevicePrimaryCtxRelease_v2)
        (void)c->cuda->cuDevicePrimaryCtxRelease_v2(c->handle);
    else
        (void)c->cuda->cuDevicePrimaryCtxRelease(c->handle);
}

static void cuda_close(struct driver_device *d)
{
    struct cuda_device *c = cuda_of(d);
    if (c->is_retained)
        release_primary(c);
}

/* Lets launches of |function| use |bytes| of dynamic shared memory.  The limit is never lowered
 * again, because it applies to all launches of the function. */
static enum kiln_code raise_shared_limit(struct cuda_device *c, void *function, const char *name,
                                         uint32_t bytes, struct kiln_err *err)
{
    int allowed = 0, fixed = 0, limit = 0;
    int status = c->cuda->cuFuncGetAttribute(&allowed, FUNCTION_SHARED_DYNAMIC_MAX, function);
    if (!status)
        status = c->cuda->cuFuncGetAttribute(&fixed, FUNCTION_SHARED_STATIC, function);
    if (!status)
        status = c->cuda->cuDeviceGetAttribute(&limit, ATTRIBUTE_SHARED_MAX, c->handle);
    if (!status && (uint64_t)bytes + (unsigned)fixed > (unsigned)limit)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "'%s' needs %u bytes of dynamic and %d bytes of static shared memory per "
                         "group; %s has %d",
                         name, bytes, fixed, c->driver.base.name, limit);
    if (!status && bytes > (unsigned)allowed)
        status = c->cuda->cuFuncSetAttribute(function, FUNCTION_SHARED_DYNAMIC_MAX, (int)bytes);
    return status ? driver_fail(c->driver.kind, err, status,
                                "cannot allow '%s' %u bytes of shared memory", name, bytes)
                  : KILN_OK;
}

static enum kiln_code cuda_allow_shared(struct driver_device *d, void *function, const char *name,
                                        uint32_t bytes, struct kiln_err *err)
{
    struct cuda_device *c = cuda_of(d);
    pthread_mutex_lock(&c->shared);
    enum kiln_code rc = raise_shared_limit(c, function, name, bytes, err);
    pthread_mutex_unlock(&c->shared);
    return rc;
}

static bool has_tensor_maps(const struct cuda_library *cuda)
{
    return cuda->cuTensorMapEncodeTiled && cuda->cuTensorMapEncodeIm2col;
}

static int cuda_encode(struct driver_device *d, const struct tensor_map *map, void *address,
                       struct device_map *ret_map)
{
    const struct cuda_library *cuda = cuda_of(d)->cuda;
    return has_tensor_maps(cuda)
               ? cuda_tensor_map_encode(cuda->cuTensorMapEncodeTiled, cuda->cuTensorMapEncodeIm2col,
                                        map, address, ret_map)
               : STATUS_NOT_SUPPORTED;
}

static const struct driver_kind cuda_kind = {
    .runtime = "the CUDA driver",
    .elf_machine = ELF_MACHINE_CUDA,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .status_name = cuda_status_name,
    .allow_shared = cuda_allow_shared,
    .encode = cuda_encode,
    .close = cuda_close,
};

/* ---- finding devices ---- */

static enum kiln_code start_cuda(const struct cuda_library **ret_cuda, int *ret_count,
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
    char note[260];
    device_hidden_note("cuda", note, sizeof(note));
    if (status || count <= 0) {
        const char *name = status ? cuda_status_name(status) : "there is none";
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "the CUDA driver found no device: %s (%d): check that /dev/nvidia0 exists "
                         "and that driver and kernel module match%s",
                         name ? name : "an unknown error", status, note);
    }
    *ret_cuda = cuda;
    *ret_count = count;
    return KILN_OK;
}

/* Writes the device's uuid.  If this process sees only a part of a GPU (MIG), the newer of CUDA's
 * two functions returns the uuid of the part, and the older function returns the uuid of the whole
 * GPU. */
static bool uuid_of(const struct cuda_library *cuda, int handle, char text[DEVICE_UUID_SIZE])
{
    unsigned char whole[DEVICE_UUID_BYTES] = { 0 }, seen[DEVICE_UUID_BYTES] = { 0 };
    bool has_whole = cuda->cuDeviceGetUuid && cuda->cuDeviceGetUuid(whole, handle) == 0;
    bool has_seen = cuda->cuDeviceGetUuid_v2 && cuda->cuDeviceGetUuid_v2(seen, handle) == 0;
    if (!has_seen && !has_whole)
        return false;
    bool is_part = has_seen && has_whole && memcmp(seen, whole, sizeof(seen)) != 0;
    device_uuid_text(is_part ? "MIG-" : "GPU-", has_seen ? seen : whole, text);
    return text[0];
}

static bool uuid_at(const void *context, int index, char text[DEVICE_UUID_SIZE])
{
    const struct cuda_library *cuda = context;
    int handle;
    return cuda->cuDeviceGet(&handle, index) == 0 && uuid_of(cuda, handle, text);
}

/* ---- properties ---- */

/* For Hopper, the target is sm_90a if the driver can encode tensor maps.  Code for sm_90a may use
 * wgmma, which no other architecture has. */
static void set_target(struct kiln_device *base, const struct cuda_library *cuda, int major,
                       int minor)
{
    bool is_hopper = major == 9 && minor == 0;
    snprintf(base->target, sizeof(base->target), "sm_%d%d%s", major, minor,
             is_hopper && has_tensor_maps(cuda) ? "a" : "");
}

static void set_driver(struct kiln_device *base, const struct cuda_library *cuda)
{
    int version = 0;
    char module[64];
    (void)cuda->cuDriverGetVersion(&version);
    bool known = text_file_version(KERNEL_MODULE_VERSION, module, sizeof(module));
    snprintf(base->driver, sizeof(base->driver), "CUDA %d.%d%s%s", version / 1000,
             version % 1000 / 10, known ? ", NVIDIA " : "", known ? module : "");
}

static enum kiln_code describe_device(struct cuda_device *c, int index, struct kiln_err *err)
{
    const struct cuda_library *cuda = c->cuda;
    struct kiln_device *base = &c->driver.base;
    int major = 0, minor = 0, units = 0, clock = 0;
    size_t memory = 0;
    c->driver.ordinal = index;
    snprintf(base->name, sizeof(base->name), "cuda:%d", index);
    int status = cuda->cuDeviceGet(&c->handle, index);
    if (!status)
        status = cuda->cuDeviceGetName(base->model, (int)sizeof(base->model) - 1, c->handle);
    if (!status)
        status = cuda->cuDeviceGetAttribute(&major, ATTRIBUTE_CAPABILITY_MAJOR, c->handle);
    if (!status)
        status = cuda->cuDeviceGetAttribute(&minor, ATTRIBUTE_CAPABILITY_MINOR, c->handle);
    if (!status)
        status = cuda->cuDeviceGetAttribute(&units, ATTRIBUTE_MULTIPROCESSORS, c->handle);
    if (!status)
        status = cuda->cuDeviceTotalMem_v2(&memory, c->handle);
    if (status)
        return driver_fail(&cuda_kind, err, status, "cannot read the properties of %s", base->name);
    set_target(base, cuda, major, minor);
    base->compute_units = units > 0 ? (unsigned)units : 0;
    base->memory_bytes = memory;
    if (cuda->cuDeviceGetAttribute(&clock, ATTRIBUTE_CLOCK_KHZ, c->handle) == 0 && clock > 0)
        base->clock_mhz = (unsigned)clock / 1000;
    if (cuda->cuDeviceGetPCIBusId(base->pci, (int)sizeof(base->pci), c->handle))
        base->pci[0] = '\0';
    if (!uuid_of(cuda, c->handle, base->uuid))
        base->uuid[0] = '\0';
    set_driver(base, cuda);
    device_set_database_id(base);
    return KILN_OK;
}

/* ---- choosing the context ---- */

static enum kiln_code retain_primary(struct cuda_device *c, struct kiln_err *err)
{
    int status = c->cuda->cuDevicePrimaryCtxRetain(&c->context, c->handle);
    if (status)
        return driver_fail(c->driver.kind, err, status, "cannot get a context on %s",
                           c->driver.base.name);
    c->is_retained = true;
    return KILN_OK;
}

static void *find_current(struct cuda_device *c)
{
    void *current = NULL;
    int device = -1;
    if (c->cuda->cuCtxGetCurrent(&current) || !current || c->cuda->cuCtxGetDevice(&device) ||
        device != c->handle)
        return NULL;
    return current;
}

/* If |current| is the primary context, takes a reference to it.  The context then remains valid if
 * the job releases its own reference first. */
static enum kiln_code use_current(struct cuda_device *c, void *current, struct kiln_err *err)
{
    unsigned flags = 0;
    int is_active = 0;
    enum kiln_code rc = KILN_OK;
    if (c->cuda->cuDevicePrimaryCtxGetState(c->handle, &flags, &is_active) == 0 && is_active)
        rc = retain_primary(c, err);
    if (!rc && c->is_retained && c->context != current) {
        release_primary(c);
        c->is_retained = false;
    }
    if (!rc)
        c->context = current;
    return rc;
}

static enum kiln_code use_given(struct cuda_device *c, void *given, struct kiln_err *err)
{
    int device = -1;
    void *popped = NULL;
    int status = c->cuda->cuCtxPushCurrent_v2(given);
    if (!status) {
        status = c->cuda->cuCtxGetDevice(&device);
        (void)c->cuda->cuCtxPopCurrent_v2(&popped);
    }
    if (status)
        return driver_fail(c->driver.kind, err, status, "cannot use the context %p", given);
    if (device != c->handle)
        return kiln_fail(err, KILN_INVALID,
                         "the context %p does not belong to %s, but to device %d", given,
                         c->driver.base.name, device);
    c->context = given;
    return KILN_OK;
}

static enum kiln_code take_context(struct cuda_device *c, void *given, struct kiln_err *err)
{
    if (given)
        return use_given(c, given, err);
    void *current = find_current(c);
    return current ? use_current(c, current, err) : retain_primary(c, err);
}

/* ---- opening and listing ---- */

static enum kiln_code open_cuda(struct cuda_device *c, const struct device_request *request,
                                struct kiln_err *err)
{
    int count = 0, index = 0;
    enum kiln_code rc = start_cuda(&c->cuda, &count, err);
    if (rc)
        return rc;
    struct device_census census = {
        .kind = "cuda", .what = "CUDA", .count = count, .uuid = uuid_at, .context = c->cuda
    };
    rc = device_find(&census, &request->uri, &index, err);
    if (rc)
        return rc;
    c->driver.calls = &c->cuda->calls;
    rc = describe_device(c, index, err);
    if (!rc)
        rc = take_context(c, request->context, err);
    return rc ? rc : driver_start(&c->driver, err);
}

static enum kiln_code cuda_open(const struct device_request *request,
                                struct kiln_device **ret_device, struct kiln_err *err)
{
    KILN_AUTO(device)
    struct kiln_device *base = device_create(sizeof(struct cuda_device), &driver_ops);
    if (!base)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a device");
    struct cuda_device *c = cuda_of(driver_of(base));
    c->driver.kind = &cuda_kind;
    pthread_mutex_init(&c->shared, NULL);
    enum kiln_code rc = open_cuda(c, request, err);
    if (!rc)
        *ret_device = KILN_TAKE(base);
    return rc;
}

static enum kiln_code cuda_list(kiln_device_found *found, void *context, struct kiln_err *err)
{
    const struct cuda_library *cuda = NULL;
    int count = 0;
    enum kiln_code rc = start_cuda(&cuda, &count, err);
    for (int i = 0; !rc && i < count; i++) {
        struct cuda_device c = { .cuda = cuda };
        struct kiln_err why = KILN_ERR_INIT;
        enum kiln_code described = describe_device(&c, i, &why);
        device_report(&c.driver.base, described ? &why : NULL, found, context);
    }
    return rc;
}

const struct device_runtime device_runtime_cuda = {
    .kind = "cuda",
    .open = cuda_open,
    .list = cuda_list,
};
