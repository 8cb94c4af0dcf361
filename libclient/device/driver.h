/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Code that HIP and CUDA devices share.  HIP's functions have the signatures and numbers of CUDA's
 * driver.
 *
 * Role       implements struct device_ops with a table of runtime calls; struct driver_kind holds
 *            the differences between HIP and CUDA
 * Ownership  a driver_device owns its stream; device_cuda.c or device_hip.c owns its context
 * Threading  any thread; a call leaves the thread's current context (or device) unchanged
 */
#include "libclient/device/device.h"

/* Each call returns 0 on success.  Device pointers are void * here; CUDA's 64-bit device pointers
 * are passed in the same way. */
struct driver_calls {
    int (*memory_create)(void **ret_memory, size_t bytes);
    int (*memory_destroy)(void *memory);
    int (*memory_info)(size_t *ret_free, size_t *ret_total); /* may be NULL */
    int (*write)(void *to, const void *from, size_t bytes, void *stream);
    int (*read)(void *to, const void *from, size_t bytes, void *stream);
    int (*fill)(void *to, unsigned char value, size_t bytes, void *stream);
    int (*pointer_attribute)(void *ret_value, int attribute, void *pointer);
    int (*stream_create)(void **ret_stream, unsigned flags);
    int (*exchange_capture_mode)(int *mode); /* may be NULL */
    int (*stream_destroy)(void *stream);
    int (*stream_finish)(void *stream);
    int (*event_create)(void **ret_event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_wait)(void *event);
    int (*event_elapsed)(float *ret_ms, void *begin, void *end);
    int (*module_load)(void **ret_module, const void *object);
    int (*module_unload)(void *module);
    int (*module_function)(void **ret_function, void *module, const char *name);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned group_x, unsigned group_y, unsigned group_z, unsigned shared_bytes,
                  void *stream, void **arguments, void **extra);
};

struct driver_device {
    struct kiln_device base;
    const struct driver_kind *kind;
    const struct driver_calls *calls;
    int ordinal; /* the device's number among the devices that this process sees */
};

/* From driver_enter to the end of the block, the device's context (CUDA) or the device (HIP) is
 * current for the calling thread. */
struct driver_scope {
    struct driver_device *device;
    int previous; /* HIP only: the device that was current before the scope */
};

struct driver_kind {
    const char *runtime;
    unsigned elf_machine;
    enum kiln_code (*enter)(struct driver_device *d, struct driver_scope *scope,
                            struct kiln_err *err);
    void (*leave)(struct driver_scope *scope);
    const char *(*status_name)(int status);
    /* called after a runtime call that failed; may be NULL */
    void (*forget_failure)(void);
    /* Allows launches of |function| to use |bytes| of dynamic shared memory.  NULL if the runtime
     * needs no such permission. */
    enum kiln_code (*allow_shared)(struct driver_device *d, void *function, const char *name,
                                   uint32_t bytes, struct kiln_err *err);
    /* Like device_ops.encode, but returns the runtime's status.  NULL if kernels take no tensor
     * maps. */
    int (*encode)(struct driver_device *d, const struct tensor_map *map, void *address,
                  struct device_map *ret_map);
    void (*close)(struct driver_device *d);
};

extern const struct device_ops driver_ops;

static inline struct driver_device *driver_of(struct kiln_device *device)
{
    return (struct driver_device *)device;
}

/* The device's context must exist. */
KILN_MUST_CHECK enum kiln_code driver_start(struct driver_device *d, struct kiln_err *err);

/* Fills |err| with "cannot <what>: CUDA_ERROR_INVALID_VALUE (1)", where |fmt| gives <what>. */
enum kiln_code driver_fail(const struct driver_kind *kind, struct kiln_err *err, int status,
                           const char *fmt, ...) KILN_PRINTF(4, 5);

static inline void driver_leave(struct driver_scope *scope)
{
    if (scope->device)
        scope->device->kind->leave(scope);
}
/* The scope is left automatically at the end of the block. */
#define DRIVER_SCOPE(name) \
    __attribute__((cleanup(driver_leave))) struct driver_scope name = { .device = NULL }
