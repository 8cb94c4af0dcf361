/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Devices inside libkiln: one interface (struct device_ops), with one implementation for each GPU
 * runtime.
 *
 * Role       operates devices (memory, copies, streams, events, loading code objects, launches),
 *            and names and describes them
 * Ownership  Devices are reference-counted.  Memory objects, streams, events and modules hold a
 *            reference to their device, so the order of closing does not matter.  Handles of a
 *            runtime ("native": a CUdeviceptr, a cl_mem, a CUstream, ...) are passed as void *. The
 *            struct kiln_memory, kiln_stream, kiln_event or device_module that contains a handle
 *            owns it
 * Threading  any call from any thread, as in <kiln/device.h>
 * Forks      GPU runtimes do not survive a fork: in a child every call fails, and nothing is
 *            released to the runtime
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "common/protocol/limits.h"
#include "common/protocol/tensor_map.h"
#include "libclient/connection/fork_guard.h"
#include "libclient/device/module_table.h"
#include "libclient/device/uri.h"

#include <kiln/device.h>
#include <stdatomic.h>

struct kiln_memory {
    struct kiln_device *device;
    uint64_t bytes;
    void *native;
    bool is_ours;
};

struct kiln_stream {
    struct kiln_device *device;
    void *native;
    bool is_ours; /* true if libkiln created it, false if it wraps an object of the job */
};

struct kiln_event {
    struct kiln_device *device;
    void *native; /* in OpenCL, NULL until the event is recorded */
    bool is_recorded;
};

struct device_map { /* encoded, ready to be passed as a kernel argument */
    _Alignas(64) uint64_t words[16];
};

struct device_argument {
    struct kiln_memory *memory; /* NULL if the argument is a number or a tensor map */
    uint64_t value;             /* the number; or, with |memory|, the offset in bytes inside it */
    size_t size;
    /* NULL unless the argument is a tensor map; borrowed during the launch */
    struct device_map *map;
};

struct device_entry_point {
    const char *name;
    /* Maximum dynamic shared memory of a launch of the function, in bytes. */
    uint32_t shared_bytes;
};

struct device_launch {
    /* three numbers each: |grid| counts the work groups, |group| the work items of a group */
    const uint32_t *grid, *group;
    uint32_t shared_bytes;
    const struct device_argument *arguments;
    uint32_t argument_count;
    void *stream;
};

struct device_ops {
    /* Native handles of memory are device addresses, not objects of the runtime. */
    bool memory_is_address;
    enum kiln_code (*create_memory)(struct kiln_device *device, uint64_t bytes, void **ret_memory,
                                    struct kiln_err *err);
    enum kiln_code (*adopt_memory)(struct kiln_device *device, void *memory, uint64_t bytes,
                                   struct kiln_err *err);
    void (*drop_memory)(struct kiln_device *device, void *memory, bool is_ours);
    /* Returns how much memory of the device is free, or UINT64_MAX if that is not known.  NULL if
     * the runtime does not tell. */
    uint64_t (*free_bytes)(struct kiln_device *device);
    /* Return when the copy is complete. */
    enum kiln_code (*write)(struct kiln_memory *memory, const void *from, uint64_t bytes,
                            void *stream, struct kiln_err *err);
    enum kiln_code (*read)(struct kiln_memory *memory, void *to, uint64_t bytes, void *stream,
                           struct kiln_err *err);
    enum kiln_code (*fill)(struct kiln_memory *memory, uint8_t value, void *stream,
                           struct kiln_err *err);

    /* If |is_apart|, work in the stream and in the legacy default stream (CUDA, HIP) do not wait
     * for each other. */
    enum kiln_code (*create_stream)(struct kiln_device *device, bool is_apart, void **ret_stream,
                                    struct kiln_err *err);
    enum kiln_code (*adopt_stream)(struct kiln_device *device, void *stream, struct kiln_err *err);
    void (*drop_stream)(struct kiln_device *device, void *stream, bool is_ours);
    /* From now on, no call of the calling thread breaks another thread's capture of a stream.  NULL
     * if the runtime has no captures. */
    void (*relax_captures)(struct kiln_device *device);
    enum kiln_code (*finish)(struct kiln_device *device, void *stream, struct kiln_err *err);

    enum kiln_code (*create_event)(struct kiln_device *device, void **ret_event,
                                   struct kiln_err *err);
    void (*drop_event)(struct kiln_device *device, void *event);
    enum kiln_code (*record)(struct kiln_device *device, void **event, void *stream,
                             struct kiln_err *err);
    enum kiln_code (*wait)(struct kiln_device *device, void *event, struct kiln_err *err);
    enum kiln_code (*elapsed)(struct kiln_device *device, void *begin, void *end, double *ret_ms,
                              struct kiln_err *err);

    enum kiln_code (*load)(struct kiln_device *device, struct bytes object, void **ret_module,
                           struct kiln_err *err);
    void (*unload)(struct kiln_device *device, void *module);
    enum kiln_code (*find)(struct kiln_device *device, void *module,
                           const struct device_entry_point *entry, void **ret_function,
                           struct kiln_err *err);
    /* Releases a function before its module is unloaded.  Accepts NULL. */
    void (*forget)(struct kiln_device *device, void *function);
    /* Encodes |map|, which the caller has checked, for |address|.  Returns KILN_UNSUPPORTED if
     * kernels of this runtime take no tensor maps. */
    enum kiln_code (*encode)(struct kiln_device *device, const struct tensor_map *map,
                             void *address, struct device_map *ret_map, struct kiln_err *err);
    enum kiln_code (*launch)(struct kiln_device *device, void *function,
                             const struct device_launch *launch, struct kiln_err *err);
    /* Called after all objects that the runtime supplied were released. */
    void (*close)(struct kiln_device *device);
};

struct kiln_device { /* each implementation's own struct begins with a struct kiln_device */
    const struct device_ops *ops;
    atomic_uint references;
    struct fork_guard guard;
    struct module_table modules;
    void *stream;
    char name[32];
    char model[128];
    char target[LIMIT_TARGET_TEXT];
    char database_id[64];
    char uuid[DEVICE_UUID_SIZE];
    char driver[160];
    char pci[16];
    unsigned compute_units, clock_mhz;
    uint64_t memory_bytes;
    /* whether the driver refused kernels of a package, but loaded those that kilnd compiled */
    atomic_bool refuses_packages;
};

/* Allocates |size| zeroed bytes, with one reference.  Returns NULL if out of memory. */
struct kiln_device *device_create(size_t size, const struct device_ops *ops);
struct kiln_device *device_ref(struct kiln_device *device);
void device_unref(struct kiln_device *device);
static inline void device_auto(struct kiln_device **device) { device_unref(*device); }

/* Returns KILN_INVALID in a child that was forked by the process that opened |device|. */
KILN_MUST_CHECK enum kiln_code device_enter(const struct kiln_device *device, struct kiln_err *err);
/* Gets the native handle of |stream|.  NULL means the device's own stream.  Returns KILN_INVALID if
 * |stream| belongs to another device. */
KILN_MUST_CHECK enum kiln_code device_stream(const struct kiln_device *device,
                                             const struct kiln_stream *stream, void **ret_stream,
                                             struct kiln_err *err);

/* Creates a stream that does not wait for the legacy default stream, which PyTorch uses. */
KILN_MUST_CHECK enum kiln_code stream_create_apart(struct kiln_device *device,
                                                   struct kiln_stream **ret_stream,
                                                   struct kiln_err *err);
/* Like kiln_memory_write and kiln_memory_read, but in |stream| (NULL: the device's own). */
KILN_MUST_CHECK enum kiln_code memory_write(struct kiln_memory *memory, const void *from,
                                            uint64_t bytes, const struct kiln_stream *stream,
                                            struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code memory_read(struct kiln_memory *memory, void *to, uint64_t bytes,
                                           const struct kiln_stream *stream, struct kiln_err *err);

/* Derives the database id from target and compute units. */
void device_set_database_id(struct kiln_device *device);
/* Calls |found| for |device|.  |why_not| is NULL if the device can be opened. */
void device_report(const struct kiln_device *device, const struct kiln_err *why_not,
                   kiln_device_found *found, void *context);

struct device_request {
    struct device_uri uri;
    /* borrowed: a context of the job; NULL means the calling thread's current context, or a new
     * one */
    void *context;
};

/* list() calls |found| for every device that the runtime sees, with |why_not| if the device cannot
 * be opened. list() fails only if the whole runtime is unusable; its error gives the reason. */
struct device_runtime {
    const char *kind;
    enum kiln_code (*open)(const struct device_request *request, struct kiln_device **ret_device,
                           struct kiln_err *err);
    enum kiln_code (*list)(kiln_device_found *found, void *context, struct kiln_err *err);
};

extern const struct device_runtime device_runtime_hip, device_runtime_cuda, device_runtime_opencl;
