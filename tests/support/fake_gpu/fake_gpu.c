/* SPDX-License-Identifier: MIT */
#include "tests/support/fake_gpu/fake_gpu_parts.h"

#include <stdio.h>

struct fake_gpu fake_control = { .devices = FAKE_GPU_DEVICES,
                                 .fail_status = 999,
                                 .arch = "gfx90a:sramecc+:xnack-",
                                 .capability = 90 };
pthread_mutex_t fake_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool is_ready;
unsigned fake_clock_ms;

PUBLIC struct fake_gpu *fake_gpu_control(void) { return &fake_control; }

int fake_failure_of(const char *name)
{
    pthread_mutex_lock(&fake_mutex);
    fake_control.calls++;
    bool fails = fake_control.fail_at > 0 && --fake_control.fail_at == 0;
    fails |= fake_control.fail_name && strcmp(fake_control.fail_name, name) == 0;
    int status = fails ? fake_control.fail_status : is_ready ? 0 : NOT_INITIALIZED;
    pthread_mutex_unlock(&fake_mutex);
    return fake_remember(status);
}

static void count(enum fake_gpu_kind kind, int by)
{
    pthread_mutex_lock(&fake_mutex);
    fake_control.live[kind] += by;
    pthread_mutex_unlock(&fake_mutex);
}

static struct context primary[FAKE_GPU_DEVICES];

#ifdef FAKE_CUDA
#define STACK_MAX 8
static _Thread_local struct context *stack[STACK_MAX];
static _Thread_local int depth;

struct context *fake_current(void) { return depth ? stack[depth - 1] : NULL; }

PUBLIC int cuCtxGetCurrent(void **ret_context);
int cuCtxGetCurrent(void **ret_context)
{
    FAIL_IF_REPORTED(cuCtxGetCurrent);
    *ret_context = fake_current();
    return 0;
}

PUBLIC int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context)
{
    if (!depth)
        depth = 1;
    stack[depth - 1] = context;
    if (!context)
        depth--;
    return 0;
}

PUBLIC int cuCtxPushCurrent_v2(void *context);
int cuCtxPushCurrent_v2(void *context)
{
    FAIL_IF_REPORTED(cuCtxPushCurrent_v2);
    if (depth == STACK_MAX)
        abort();
    stack[depth++] = context;
    return 0;
}

/* Does not call FAIL_IF_REPORTED, because callers could not recover from a failed pop. */
PUBLIC int cuCtxPopCurrent_v2(void **ret_context);
int cuCtxPopCurrent_v2(void **ret_context)
{
    if (!depth)
        return INVALID_CONTEXT;
    *ret_context = stack[--depth];
    return 0;
}

PUBLIC int cuCtxGetDevice(int *ret_device);
int cuCtxGetDevice(int *ret_device)
{
    FAIL_IF_REPORTED(cuCtxGetDevice);
    if (!fake_current())
        return INVALID_CONTEXT;
    *ret_device = fake_current()->device;
    return 0;
}

PUBLIC int cuCtxCreate_v2(void **ret_context, unsigned flags, int device);
int cuCtxCreate_v2(void **ret_context, unsigned flags, int device)
{
    (void)flags;
    struct context *c = calloc(1, sizeof(*c));
    c->device = device;
    *ret_context = c;
    count(FAKE_CONTEXT, 1);
    return cuCtxPushCurrent_v2(c);
}

PUBLIC int cuCtxDestroy_v2(void *context);
int cuCtxDestroy_v2(void *context)
{
    if (fake_current() == context)
        depth--;
    free(context);
    count(FAKE_CONTEXT, -1);
    return 0;
}

PUBLIC int cuDevicePrimaryCtxRetain(void **ret_context, int device);
int cuDevicePrimaryCtxRetain(void **ret_context, int device)
{
    FAIL_IF_REPORTED(cuDevicePrimaryCtxRetain);
    count(FAKE_CONTEXT, 1);
    pthread_mutex_lock(&fake_mutex);
    primary[device].users++;
    pthread_mutex_unlock(&fake_mutex);
    *ret_context = &primary[device];
    return 0;
}

PUBLIC int cuDevicePrimaryCtxRelease(int device);
int cuDevicePrimaryCtxRelease(int device)
{
    pthread_mutex_lock(&fake_mutex);
    primary[device].users--;
    pthread_mutex_unlock(&fake_mutex);
    count(FAKE_CONTEXT, -1);
    return 0;
}

PUBLIC int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device) { return cuDevicePrimaryCtxRelease(device); }

PUBLIC int cuDevicePrimaryCtxGetState(int device, unsigned *ret_flags, int *ret_active);
int cuDevicePrimaryCtxGetState(int device, unsigned *ret_flags, int *ret_active)
{
    FAIL_IF_REPORTED(cuDevicePrimaryCtxGetState);
    *ret_flags = 0;
    pthread_mutex_lock(&fake_mutex);
    *ret_active = primary[device].users > 0;
    pthread_mutex_unlock(&fake_mutex);
    return 0;
}
#else
static _Thread_local int current_device;
static _Thread_local int last_error;

struct context *fake_current(void) { return &primary[current_device]; }

PUBLIC int hipGetDevice(int *ret_device);
int hipGetDevice(int *ret_device)
{
    FAIL_IF_REPORTED(hipGetDevice);
    *ret_device = current_device;
    return 0;
}

PUBLIC int hipSetDevice(int device);
int hipSetDevice(int device)
{
    FAIL_IF_REPORTED(hipSetDevice);
    if (device < 0 || device >= fake_control.devices)
        return INVALID_DEVICE;
    current_device = device;
    return 0;
}

PUBLIC int hipGetLastError(void);
int hipGetLastError(void)
{
    int was = last_error;
    last_error = 0;
    return was;
}

PUBLIC int hipPeekAtLastError(void);
int hipPeekAtLastError(void) { return last_error; }
#endif

int fake_remember(int status)
{
#ifndef FAKE_CUDA
    last_error = status ? status : last_error;
#endif
    return status;
}

void *fake_make(enum fake_gpu_kind kind, size_t size)
{
    size = (size + FAKE_ALIGNMENT - 1) / FAKE_ALIGNMENT * FAKE_ALIGNMENT;
    struct object *o = aligned_alloc(FAKE_ALIGNMENT, size);
    if (!o)
        abort();
    memset(o, 0, size);
    *o = (struct object){ .kind = kind, .owner = fake_current() };
    count(kind, 1);
    return o;
}

void fake_destroy(struct object *o)
{
    count(o->kind, -1);
    free(o);
}

bool fake_is_right(const struct object *o, enum fake_gpu_kind kind)
{
    return o && o->kind == kind && fake_current() && o->owner == fake_current();
}

struct stream *fake_stream_of(void *handle)
{
    if (!handle)
        return fake_current() ? &fake_current()->default_stream : NULL;
    return fake_is_right(handle, FAKE_STREAM) ? handle : NULL;
}

PUBLIC int NAMED(cuInit, hipInit)(unsigned flags);
int NAMED(cuInit, hipInit)(unsigned flags)
{
    pthread_mutex_lock(&fake_mutex);
    is_ready = flags == 0;
    for (int i = 0; i < FAKE_GPU_DEVICES; i++)
        primary[i].device = i;
    pthread_mutex_unlock(&fake_mutex);
    FAIL_IF_REPORTED(NAMED(cuInit, hipInit));
    return 0;
}

PUBLIC int NAMED(cuDriverGetVersion, hipRuntimeGetVersion)(int *ret_version);
int NAMED(cuDriverGetVersion, hipRuntimeGetVersion)(int *ret_version)
{
    FAIL_IF_REPORTED(NAMED(cuDriverGetVersion, hipRuntimeGetVersion));
#ifdef FAKE_CUDA
    *ret_version = FAKE_CUDA * 1000 + 10;
#else
    *ret_version = FAKE_HIP * 10000000 + 2 * 100000 + 41133;
#endif
    return 0;
}

PUBLIC int NAMED(cuDeviceGetCount, hipGetDeviceCount)(int *ret_count);
int NAMED(cuDeviceGetCount, hipGetDeviceCount)(int *ret_count)
{
    FAIL_IF_REPORTED(NAMED(cuDeviceGetCount, hipGetDeviceCount));
    *ret_count = fake_control.devices;
    return 0;
}

PUBLIC int NAMED(cuDeviceGet, hipDeviceGet)(int *ret_device, int ordinal);
int NAMED(cuDeviceGet, hipDeviceGet)(int *ret_device, int ordinal)
{
    FAIL_IF_REPORTED(NAMED(cuDeviceGet, hipDeviceGet));
    *ret_device = ordinal;
    return ordinal < fake_control.devices ? 0 : INVALID_DEVICE;
}

PUBLIC int NAMED(cuDeviceGetName, hipDeviceGetName)(char *name, int size, int device);
int NAMED(cuDeviceGetName, hipDeviceGetName)(char *name, int size, int device)
{
    FAIL_IF_REPORTED(NAMED(cuDeviceGetName, hipDeviceGetName));
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return 0;
}

PUBLIC int NAMED(cuDeviceGetAttribute, hipDeviceGetAttribute)(int *ret_value, int what, int device);
int NAMED(cuDeviceGetAttribute, hipDeviceGetAttribute)(int *ret_value, int what, int device)
{
    (void)device;
    FAIL_IF_REPORTED(NAMED(cuDeviceGetAttribute, hipDeviceGetAttribute));
    switch (what) {
    case NAMED(13, 5): *ret_value = 1700000; return 0;
    case NAMED(16, 63): *ret_value = 104; return 0;
#ifdef FAKE_CUDA
    case 75: *ret_value = fake_control.capability / 10; return 0;
    case 76: *ret_value = fake_control.capability % 10; return 0;
    case 97: *ret_value = FAKE_GPU_SHARED_MAX; return 0;
#endif
    default: return INVALID_VALUE;
    }
}

PUBLIC int NAMED(cuDeviceTotalMem_v2, hipDeviceTotalMem)(size_t *ret_bytes, int device);
int NAMED(cuDeviceTotalMem_v2, hipDeviceTotalMem)(size_t *ret_bytes, int device)
{
    (void)device;
    FAIL_IF_REPORTED(NAMED(cuDeviceTotalMem_v2, hipDeviceTotalMem));
    *ret_bytes = FAKE_GPU_MEMORY_MAX;
    return 0;
}

PUBLIC int NAMED(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId)(char *text, int size, int device);
int NAMED(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId)(char *text, int size, int device)
{
    FAIL_IF_REPORTED(NAMED(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId));
    snprintf(text, (size_t)size, "0000:%02x:00.0", 0x43 + device);
    return 0;
}

#ifdef FAKE_CUDA
PUBLIC int cuDeviceGetUuid(void *ret_uuid, int device);
int cuDeviceGetUuid(void *ret_uuid, int device)
{
    FAIL_IF_REPORTED(cuDeviceGetUuid);
    memset(ret_uuid, 0x10 * (device + 1) + 1, 16);
    return 0;
}

PUBLIC int cuDeviceGetUuid_v2(void *ret_uuid, int device);
int cuDeviceGetUuid_v2(void *ret_uuid, int device)
{
    FAIL_IF_REPORTED(cuDeviceGetUuid_v2);
    memset(ret_uuid, 0x10 * (device + 1) + (fake_control.is_mig ? 2 : 1), 16);
    return 0;
}

PUBLIC int cuGetErrorName(int status, const char **ret_name);
int cuGetErrorName(int status, const char **ret_name)
{
    *ret_name = status == OUT_OF_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
                : status == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
                                          : NULL;
    return *ret_name ? 0 : INVALID_VALUE;
}
#else
PUBLIC int hipDeviceGetUuid(void *ret_uuid, int device);
int hipDeviceGetUuid(void *ret_uuid, int device)
{
    char text[17];
    FAIL_IF_REPORTED(hipDeviceGetUuid);
    snprintf(text, sizeof(text), "1901ead3a2ecd4%02x", device);
    memcpy(ret_uuid, text, 16);
    return 0;
}

PUBLIC const char *hipGetErrorName(int status);
const char *hipGetErrorName(int status)
{
    return status == OUT_OF_MEMORY   ? "hipErrorOutOfMemory"
           : status == LAUNCH_FAILED ? "hipErrorLaunchFailure"
                                     : "hipErrorUnknown";
}

/* Writes gcnArchName at its offset in the properties struct of this HIP version. */
#if FAKE_HIP >= 6
PUBLIC int hipGetDevicePropertiesR0600(char *properties, int device);
int hipGetDevicePropertiesR0600(char *properties, int device)
{
    (void)device;
    FAIL_IF_REPORTED(hipGetDevicePropertiesR0600);
    memset(properties, 'n', 1472);
    snprintf(properties + 1160, 256, "%s", fake_control.arch);
    return 0;
}
#endif
#if FAKE_HIP <= 6
PUBLIC int hipGetDeviceProperties(char *properties, int device);
int hipGetDeviceProperties(char *properties, int device)
{
    (void)device;
    FAIL_IF_REPORTED(hipGetDeviceProperties);
    memset(properties, 'o', 792);
    snprintf(properties + 396, 256, "%s", fake_control.arch);
    return 0;
}
#endif
#endif
