/* SPDX-License-Identifier: MIT */
/* A HIP runtime for tests of MIOpen, which is preloaded before the real one: it has one device,
 * whose memory is the process's own. A code object can be loaded, but a launch does nothing, and
 * each takes a millisecond. $STAND_IN_ARCH is the device's architecture. */
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES ((size_t)16 << 30)
#define SHARED_BYTES 65536
#define THREADS_MAX 1024
#define GRID_MAX 2147483647

static void *new_handle(void) { return calloc(1, 8); }

/* ---- the device ---- */

hipError_t hipInit(unsigned flags) { return flags ? hipErrorInvalidValue : hipSuccess; }
hipError_t hipSetDevice(int device) { return device ? hipErrorInvalidDevice : hipSuccess; }

hipError_t hipGetDeviceCount(int *ret)
{
    *ret = 1;
    return hipSuccess;
}

hipError_t hipGetDevice(int *ret)
{
    *ret = 0;
    return hipSuccess;
}

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *p, int device)
{
    const char *arch = getenv("STAND_IN_ARCH");
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "a stand-in");
    snprintf(p->gcnArchName, sizeof(p->gcnArchName), "%s", arch ? arch : "gfx90a:sramecc+:xnack-");
    p->totalGlobalMem = MEMORY_BYTES;
    p->sharedMemPerBlock = p->sharedMemPerMultiprocessor = SHARED_BYTES;
    p->maxSharedMemoryPerMultiProcessor = SHARED_BYTES;
    p->warpSize = strncmp(p->gcnArchName, "gfx1", 4) == 0 ? 32 : 64;
    p->maxThreadsPerBlock = THREADS_MAX;
    p->maxThreadsPerMultiProcessor = 2 * THREADS_MAX;
    p->multiProcessorCount = 104;
    p->clockRate = 1700000;
    for (int i = 0; i < 3; i++) {
        p->maxThreadsDim[i] = THREADS_MAX;
        p->maxGridSize[i] = GRID_MAX;
    }
    return device ? hipErrorInvalidDevice : hipSuccess;
}

hipError_t hipDeviceGetAttribute(int *ret, hipDeviceAttribute_t attribute, int device)
{
    hipDeviceProp_tR0600 p;
    hipError_t rc = hipGetDevicePropertiesR0600(&p, device);
    switch (attribute) {
    case hipDeviceAttributeMultiprocessorCount: *ret = p.multiProcessorCount; break;
    case hipDeviceAttributeWarpSize: *ret = p.warpSize; break;
    case hipDeviceAttributeMaxThreadsPerBlock: *ret = THREADS_MAX; break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor: *ret = SHARED_BYTES; break;
    case hipDeviceAttributeClockRate: *ret = p.clockRate; break;
    default: *ret = 0;
    }
    return rc;
}

hipError_t hipDeviceTotalMem(size_t *ret, hipDevice_t device)
{
    *ret = MEMORY_BYTES;
    return device ? hipErrorInvalidDevice : hipSuccess;
}

hipError_t hipDeviceSynchronize(void) { return hipSuccess; }
hipError_t hipGetLastError(void) { return hipSuccess; }
hipError_t hipPeekAtLastError(void) { return hipSuccess; }

/* ---- memory ---- */

hipError_t hipMemGetInfo(size_t *ret_free, size_t *ret_total)
{
    *ret_free = *ret_total = MEMORY_BYTES;
    return hipSuccess;
}

hipError_t hipMalloc(void **ret, size_t size)
{
    *ret = calloc(1, size + 1);
    return *ret ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t hipHostMalloc(void **ret, size_t size, unsigned flags)
{
    (void)flags;
    return hipMalloc(ret, size);
}

hipError_t hipFree(void *memory)
{
    free(memory);
    return hipSuccess;
}

hipError_t hipMemPtrGetInfo(void *memory, size_t *ret_size)
{
    *ret_size = MEMORY_BYTES;
    return memory ? hipSuccess : hipErrorInvalidValue;
}

hipError_t hipMemcpy(void *to, const void *from, size_t size, hipMemcpyKind kind)
{
    (void)kind;
    memcpy(to, from, size);
    return hipSuccess;
}

hipError_t hipMemcpyWithStream(void *to, const void *from, size_t size, hipMemcpyKind kind,
                               hipStream_t stream)
{
    (void)stream;
    return hipMemcpy(to, from, size, kind);
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, hipMemcpyKind kind,
                          hipStream_t stream)
{
    (void)stream;
    return hipMemcpy(to, from, size, kind);
}

hipError_t hipMemsetAsync(void *to, int value, size_t size, hipStream_t stream)
{
    (void)stream;
    memset(to, value, size);
    return hipSuccess;
}

/* ---- streams and events ---- */

hipError_t hipStreamCreate(hipStream_t *ret)
{
    *ret = new_handle();
    return hipSuccess;
}

hipError_t hipStreamCreateWithFlags(hipStream_t *ret, unsigned flags)
{
    (void)flags;
    return hipStreamCreate(ret);
}

hipError_t hipStreamDestroy(hipStream_t stream)
{
    free(stream);
    return hipSuccess;
}

hipError_t hipStreamSynchronize(hipStream_t stream)
{
    (void)stream;
    return hipSuccess;
}

hipError_t hipStreamQuery(hipStream_t stream)
{
    (void)stream;
    return hipSuccess;
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    (void)stream;
    (void)event;
    return flags ? hipErrorInvalidValue : hipSuccess;
}

hipError_t hipEventCreate(hipEvent_t *ret)
{
    *ret = new_handle();
    return hipSuccess;
}

hipError_t hipEventCreateWithFlags(hipEvent_t *ret, unsigned flags)
{
    (void)flags;
    return hipEventCreate(ret);
}

hipError_t hipEventDestroy(hipEvent_t event)
{
    free(event);
    return hipSuccess;
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    (void)stream;
    return event ? hipSuccess : hipErrorInvalidValue;
}

hipError_t hipEventSynchronize(hipEvent_t event)
{
    return event ? hipSuccess : hipErrorInvalidValue;
}

hipError_t hipEventElapsedTime(float *ret_ms, hipEvent_t begin, hipEvent_t end)
{
    *ret_ms = 1;
    return begin && end ? hipSuccess : hipErrorInvalidValue;
}

/* ---- modules and kernels ---- */

hipError_t hipModuleLoad(hipModule_t *ret, const char *path)
{
    FILE *file = fopen(path, "rb");
    *ret = new_handle();
    return file && fclose(file) == 0 ? hipSuccess : hipErrorFileNotFound;
}

hipError_t hipModuleLoadData(hipModule_t *ret, const void *code)
{
    bool is_code =
        memcmp(code, "\177ELF", 4) == 0 || memcmp(code, "__CLANG_OFFLOAD_BUNDLE__", 24) == 0;
    *ret = new_handle();
    return is_code ? hipSuccess : hipErrorInvalidImage;
}

hipError_t hipModuleUnload(hipModule_t module)
{
    free(module);
    return hipSuccess;
}

hipError_t hipModuleGetFunction(hipFunction_t *ret, hipModule_t module, const char *name)
{
    *ret = new_handle();
    return module && name ? hipSuccess : hipErrorInvalidValue;
}

#define LAUNCH(type, ...)                                                                      \
    hipFunction_t function, type gx, type gy, type gz, type lx, type ly, type lz, __VA_ARGS__, \
        hipStream_t stream, void **arguments

static hipError_t launch(hipFunction_t function, bool has_threads, const void *arguments)
{
    (void)arguments;
    return function && has_threads ? hipSuccess : hipErrorInvalidValue;
}

hipError_t hipExtModuleLaunchKernel(LAUNCH(uint32_t, size_t shared), void **extra, hipEvent_t begin,
                                    hipEvent_t end, uint32_t flags)
{
    (void)shared, (void)stream, (void)extra, (void)begin, (void)end, (void)flags;
    return launch(function, gx && gy && gz && lx && ly && lz, arguments);
}

hipError_t hipModuleLaunchCooperativeKernel(LAUNCH(unsigned, unsigned shared))
{
    (void)shared, (void)stream;
    return launch(function, gx && gy && gz && lx && ly && lz, arguments);
}
