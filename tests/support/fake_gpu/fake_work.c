/* SPDX-License-Identifier: MIT */
#include "tests/support/fake_gpu/fake_gpu_parts.h"

#include <elf.h>

struct memory {
    struct object object;
    size_t bytes;
    _Alignas(FAKE_ALIGNMENT) unsigned char data[];
};

static struct memory *memory_of(const void *data)
{
    return (struct memory *)((uintptr_t)data - offsetof(struct memory, data));
}

PUBLIC int NAMED(cuMemAlloc_v2, hipMalloc)(void **ret_memory, size_t bytes);
int NAMED(cuMemAlloc_v2, hipMalloc)(void **ret_memory, size_t bytes)
{
    FAIL_IF_REPORTED(NAMED(cuMemAlloc_v2, hipMalloc));
    if (!fake_current())
        return INVALID_CONTEXT;
    if (bytes > ((size_t)1 << 26))
        return fake_remember(OUT_OF_MEMORY);
    struct memory *m = fake_make(FAKE_MEMORY, sizeof(*m) + bytes);
    m->bytes = bytes;
    *ret_memory = m->data;
    return 0;
}

PUBLIC int NAMED(cuMemFree_v2, hipFree)(void *memory);
int NAMED(cuMemFree_v2, hipFree)(void *memory)
{
    if (!fake_is_right(&memory_of(memory)->object, FAKE_MEMORY))
        return fake_remember(INVALID_VALUE);
    fake_destroy(&memory_of(memory)->object);
    return 0;
}

/* Stores the context of |memory| if |what| is 1, or its device if |what| is 9. */
PUBLIC int NAMED(cuPointerGetAttribute, hipPointerGetAttribute)(void *ret, int what, void *memory);
int NAMED(cuPointerGetAttribute, hipPointerGetAttribute)(void *ret, int what, void *memory)
{
    FAIL_IF_REPORTED(NAMED(cuPointerGetAttribute, hipPointerGetAttribute));
    if ((what != 9 && what != 1) || (uintptr_t)memory % FAKE_ALIGNMENT ||
        memory_of(memory)->object.kind != FAKE_MEMORY || !memory_of(memory)->object.owner)
        return fake_remember(INVALID_VALUE);
    struct context *owner = memory_of(memory)->object.owner;
    if (what == 1)
        memcpy(ret, &owner, sizeof(owner));
    else
        memcpy(ret, &owner->device, sizeof(owner->device));
    return 0;
}

static int check_copy(const void *memory, size_t bytes, void *stream)
{
    if (!fake_stream_of(stream))
        return fake_remember(INVALID_HANDLE);
    return fake_is_right(&memory_of(memory)->object, FAKE_MEMORY) &&
                   bytes <= memory_of(memory)->bytes
               ? 0
               : fake_remember(INVALID_VALUE);
}

PUBLIC int NAMED(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)(void *to, const void *from, size_t bytes,
                                                           void *stream);
int NAMED(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)(void *to, const void *from, size_t bytes,
                                                    void *stream)
{
    FAIL_IF_REPORTED(NAMED(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync));
    int status = check_copy(to, bytes, stream);
    if (!status)
        memcpy(to, from, bytes);
    return status;
}

PUBLIC int NAMED(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)(void *to, const void *from, size_t bytes,
                                                           void *stream);
int NAMED(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)(void *to, const void *from, size_t bytes,
                                                    void *stream)
{
    FAIL_IF_REPORTED(NAMED(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync));
    int status = check_copy(from, bytes, stream);
    if (!status)
        memcpy(to, from, bytes);
    return status;
}

PUBLIC int NAMED(cuMemsetD8Async, hipMemsetD8Async)(void *to, unsigned char value, size_t bytes,
                                                    void *stream);
int NAMED(cuMemsetD8Async, hipMemsetD8Async)(void *to, unsigned char value, size_t bytes,
                                             void *stream)
{
    FAIL_IF_REPORTED(NAMED(cuMemsetD8Async, hipMemsetD8Async));
    int status = check_copy(to, bytes, stream);
    if (!status)
        memset(to, value, bytes);
    return status;
}

struct event {
    struct object object;
    unsigned at_ms;
    /* as on a GPU, the time of an event can only be read after a wait for the event */
    bool is_waited_for;
};

PUBLIC int NAMED(cuMemGetInfo_v2, hipMemGetInfo)(size_t *ret_free, size_t *ret_total);
int NAMED(cuMemGetInfo_v2, hipMemGetInfo)(size_t *ret_free, size_t *ret_total)
{
    if (!fake_current())
        return INVALID_CONTEXT;
    *ret_free = 1000;
    *ret_total = 3000;
    return 0;
}

PUBLIC int NAMED(cuStreamCreate, hipStreamCreateWithFlags)(void **ret_stream, unsigned flags);
int NAMED(cuStreamCreate, hipStreamCreateWithFlags)(void **ret_stream, unsigned flags)
{
    fake_control.last_stream_flags = flags;
    FAIL_IF_REPORTED(NAMED(cuStreamCreate, hipStreamCreateWithFlags));
    if (!fake_current())
        return INVALID_CONTEXT;
    *ret_stream = fake_make(FAKE_STREAM, sizeof(struct stream));
    return 0;
}

PUBLIC int NAMED(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)(int *mode);
int NAMED(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)(int *mode)
{
    int before = fake_control.capture_mode;
    fake_control.capture_mode = *mode;
    *mode = before;
    return 0;
}

PUBLIC int NAMED(cuStreamDestroy_v2, hipStreamDestroy)(void *stream);
int NAMED(cuStreamDestroy_v2, hipStreamDestroy)(void *stream)
{
    if (!fake_is_right(stream, FAKE_STREAM))
        return fake_remember(INVALID_HANDLE);
    fake_destroy(stream);
    return 0;
}

PUBLIC int NAMED(cuStreamSynchronize, hipStreamSynchronize)(void *stream);
int NAMED(cuStreamSynchronize, hipStreamSynchronize)(void *stream)
{
    FAIL_IF_REPORTED(NAMED(cuStreamSynchronize, hipStreamSynchronize));
    struct stream *s = fake_stream_of(stream);
    return fake_remember(s ? s->failure : INVALID_HANDLE);
}

PUBLIC int NAMED(cuEventCreate, hipEventCreateWithFlags)(void **ret_event, unsigned flags);
int NAMED(cuEventCreate, hipEventCreateWithFlags)(void **ret_event, unsigned flags)
{
    FAIL_IF_REPORTED(NAMED(cuEventCreate, hipEventCreateWithFlags));
    if (flags || !fake_current())
        return INVALID_CONTEXT;
    *ret_event = fake_make(FAKE_EVENT, sizeof(struct event));
    return 0;
}

PUBLIC int NAMED(cuEventDestroy_v2, hipEventDestroy)(void *event);
int NAMED(cuEventDestroy_v2, hipEventDestroy)(void *event)
{
    if (!fake_is_right(event, FAKE_EVENT))
        return fake_remember(INVALID_HANDLE);
    fake_destroy(event);
    return 0;
}

PUBLIC int NAMED(cuEventRecord, hipEventRecord)(void *event, void *stream);
int NAMED(cuEventRecord, hipEventRecord)(void *event, void *stream)
{
    FAIL_IF_REPORTED(NAMED(cuEventRecord, hipEventRecord));
    if (!fake_is_right(event, FAKE_EVENT) || !fake_stream_of(stream))
        return fake_remember(INVALID_HANDLE);
    pthread_mutex_lock(&fake_mutex);
    ((struct event *)event)->at_ms = fake_clock_ms;
    ((struct event *)event)->is_waited_for = false;
    pthread_mutex_unlock(&fake_mutex);
    return 0;
}

PUBLIC int NAMED(cuEventSynchronize, hipEventSynchronize)(void *event);
int NAMED(cuEventSynchronize, hipEventSynchronize)(void *event)
{
    FAIL_IF_REPORTED(NAMED(cuEventSynchronize, hipEventSynchronize));
    if (!fake_is_right(event, FAKE_EVENT))
        return fake_remember(INVALID_HANDLE);
    ((struct event *)event)->is_waited_for = true;
    return 0;
}

PUBLIC int NAMED(cuEventElapsedTime, hipEventElapsedTime)(float *ret_ms, void *begin, void *end);
int NAMED(cuEventElapsedTime, hipEventElapsedTime)(float *ret_ms, void *begin, void *end)
{
    FAIL_IF_REPORTED(NAMED(cuEventElapsedTime, hipEventElapsedTime));
    if (!fake_is_right(begin, FAKE_EVENT) || !fake_is_right(end, FAKE_EVENT))
        return fake_remember(INVALID_HANDLE);
    if (!((struct event *)begin)->is_waited_for || !((struct event *)end)->is_waited_for)
        return fake_remember(NOT_READY);
    *ret_ms = (float)(((struct event *)end)->at_ms - ((struct event *)begin)->at_ms);
    return 0;
}

#define KERNELS_MAX 8

struct function {
    struct module *module;
    const struct kernel *kernel;
    int shared_allowed;
};

struct module {
    struct object object;
    /* borrowed; HIP reads the image at each look-up of a function, so this fake does, too */
    const unsigned char *image;
    size_t size;
    struct function functions[KERNELS_MAX];
};

struct work {
    const unsigned *grid, *group;
    unsigned shared;
    void **arguments;
    struct stream *stream;
};

static float *floats(const struct work *w, int index) { return *(float **)w->arguments[index]; }

static void run_scale(const struct work *w)
{
    float times;
    memcpy(&times, w->arguments[4], sizeof(times));
    uint64_t wide;
    memcpy(&wide, w->arguments[5], sizeof(wide));
    unsigned add;
    memcpy(&add, w->arguments[3], sizeof(add));
    for (unsigned i = 0; i < w->grid[0] * w->group[0]; i++)
        floats(w, 2)[i] =
            floats(w, 0)[i] * floats(w, 1)[0] * times + (float)add + (float)(wide >> 32);
}

static void run_reverse(const struct work *w)
{
    unsigned n;
    memcpy(&n, w->arguments[2], sizeof(n));
    if (w->shared < n * sizeof(float))
        w->stream->failure = LAUNCH_FAILED;
    for (unsigned i = 0; i < n && !w->stream->failure; i++)
        floats(w, 1)[i] = floats(w, 0)[n - 1 - i];
}

static void run_count_up(const struct work *w)
{
    pthread_mutex_lock(&fake_mutex);
    floats(w, 0)[0] += (float)w->grid[0];
    pthread_mutex_unlock(&fake_mutex);
}

static void run_fault(const struct work *w) { w->stream->failure = LAUNCH_FAILED; }

static void run_copy_mapped(const struct work *w)
{
    const struct encoded *map = w->arguments[0];
    memcpy(floats(w, 1), map->address, map->bytes);
}

static const struct kernel {
    const char *name;
    void (*run)(const struct work *work);
} kernels[] = {
    { "scale", run_scale }, { "reverse", run_reverse },         { "count_up", run_count_up },
    { "fault", run_fault }, { "copy_mapped", run_copy_mapped },
};

/* Returns the end of the section headers, which come last in compilers' output and in the tests'
 * fake objects. */
static size_t image_size(const Elf64_Ehdr *header)
{
    return header->e_shoff + (size_t)header->e_shnum * sizeof(Elf64_Shdr);
}

PUBLIC int NAMED(cuModuleLoadData, hipModuleLoadData)(void **ret_module, const void *image);
int NAMED(cuModuleLoadData, hipModuleLoadData)(void **ret_module, const void *image)
{
    FAIL_IF_REPORTED(NAMED(cuModuleLoadData, hipModuleLoadData));
    const Elf64_Ehdr *header = image;
    if (!fake_current())
        return INVALID_CONTEXT;
    if (header->e_machine != MACHINE)
        return fake_remember(INVALID_IMAGE);
    if (header->e_flags == FAKE_GPU_OTHER_TARGET)
        return fake_remember(NO_BINARY);
    struct module *m = fake_make(FAKE_MODULE, sizeof(*m));
    m->image = image;
    m->size = image_size(header);
    pthread_mutex_lock(&fake_mutex);
    fake_control.modules_ever++;
    fake_control.last_load_mode = fake_control.capture_mode;
    pthread_mutex_unlock(&fake_mutex);
    *ret_module = m;
    return 0;
}

PUBLIC int NAMED(cuModuleUnload, hipModuleUnload)(void *module);
int NAMED(cuModuleUnload, hipModuleUnload)(void *module)
{
    if (!fake_is_right(module, FAKE_MODULE))
        return fake_remember(INVALID_HANDLE);
    fake_destroy(module);
    return 0;
}

PUBLIC int NAMED(cuModuleGetFunction, hipModuleGetFunction)(void **ret_function, void *module,
                                                            const char *name);
int NAMED(cuModuleGetFunction, hipModuleGetFunction)(void **ret_function, void *module,
                                                     const char *name)
{
    FAIL_IF_REPORTED(NAMED(cuModuleGetFunction, hipModuleGetFunction));
    struct module *m = module;
    if (!fake_is_right(module, FAKE_MODULE))
        return fake_remember(INVALID_HANDLE);
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        if (strcmp(kernels[i].name, name) != 0 || !memmem(m->image, m->size, name, strlen(name)))
            continue;
        struct function *f = &m->functions[i];
        pthread_mutex_lock(&fake_mutex);
        f->module = m;
        f->kernel = &kernels[i];
        if (!f->shared_allowed)
            f->shared_allowed = FAKE_GPU_SHARED_ALLOWED;
        pthread_mutex_unlock(&fake_mutex);
        *ret_function = f;
        return 0;
    }
    return fake_remember(NOT_FOUND);
}

#ifdef FAKE_CUDA
PUBLIC int cuFuncGetAttribute(int *ret_value, int what, void *function);
int cuFuncGetAttribute(int *ret_value, int what, void *function)
{
    FAIL_IF_REPORTED(cuFuncGetAttribute);
    *ret_value = what == 8 ? ((struct function *)function)->shared_allowed : 0;
    return what == 8 || what == 1 ? 0 : INVALID_VALUE;
}

PUBLIC int cuFuncSetAttribute(void *function, int what, int value);
int cuFuncSetAttribute(void *function, int what, int value)
{
    FAIL_IF_REPORTED(cuFuncSetAttribute);
    if (what != 8 || value > FAKE_GPU_SHARED_MAX)
        return INVALID_VALUE;
    ((struct function *)function)->shared_allowed = value;
    return 0;
}
#endif

PUBLIC int NAMED(cuLaunchKernel,
                 hipModuleLaunchKernel)(void *function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned group_x, unsigned group_y,
                                        unsigned group_z, unsigned shared, void *stream,
                                        void **arguments, void **extra);
int NAMED(cuLaunchKernel,
          hipModuleLaunchKernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned group_x, unsigned group_y, unsigned group_z,
                                 unsigned shared, void *stream, void **arguments, void **extra)
{
    FAIL_IF_REPORTED(NAMED(cuLaunchKernel, hipModuleLaunchKernel));
    struct function *f = function;
    if (!fake_is_right(&f->module->object, FAKE_MODULE) || !fake_stream_of(stream) || extra)
        return fake_remember(INVALID_HANDLE);
    if (group_x * group_y * group_z > 1024 || grid_y > 65535 || grid_z > 65535)
        return fake_remember(INVALID_VALUE);
    if (NAMED(shared > (unsigned)f->shared_allowed, false))
        return fake_remember(INVALID_VALUE);
    const unsigned grid[3] = { grid_x, grid_y, grid_z }, group[3] = { group_x, group_y, group_z };
    struct work work = { .grid = grid,
                         .group = group,
                         .shared = shared,
                         .arguments = arguments,
                         .stream = fake_stream_of(stream) };
    f->kernel->run(&work);
    pthread_mutex_lock(&fake_mutex);
    fake_control.launches++;
    fake_control.last_stream = stream;
    fake_control.last_shared = shared;
    fake_clock_ms += FAKE_GPU_MS_PER_LAUNCH;
    pthread_mutex_unlock(&fake_mutex);
    return 0;
}
