/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Devices inside libkiln: one vtable, with one implementation per GPU runtime.
 *
 * Role       memory, copies, streams, events, loading code objects, launching; names and targets
 * Ownership  Devices are reference-counted.  Memories, streams, events and modules hold a
 *            reference, so the order of closing does not matter.  Handles of a runtime ("native": a
 *            CUdeviceptr, a cl_mem, a CUstream, ...) are passed as void *.  The struct kiln_memory,
 *            kiln_stream, kiln_event or device_module that holds a handle owns it
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
    struct kiln_device *device; /* counted */
    uint64_t bytes;
    void *native;
    bool is_ours; /* else wrapped */
};

struct kiln_stream {
    struct kiln_device *device; /* counted */
    void *native;
    bool is_ours; /* else wrapped */
};

struct kiln_event {
    struct kiln_device *device; /* counted */
    void *native;               /* OpenCL: NULL until recorded */
    bool is_recorded;
};

struct device_map { /* an encoded tensor map, in the form of a kernel argument */
    _Alignas(64) uint64_t words[16];
};

struct device_argument {
    struct kiln_memory *memory; /* NULL: a number or a map */
    uint64_t value;             /* the number, or an offset in bytes, inside |memory| */
    size_t size;                /* of the number, bytes */
    struct device_map *map;     /* NULL: memory or a number; borrowed during the launch */
};

struct device_entry_point {
    const char *name;
    uint32_t shared_bytes; /* dynamic shared memory that its launches may request */
};

struct device_launch {
    const uint32_t *grid, *group; /* three each: groups, and items in a group */
    uint32_t shared_bytes;        /* as in find() */
    const struct device_argument *arguments;
    uint32_t argument_count;
    void *stream;
};

struct device_ops {
    bool memory_is_address; /* else native memory is an object of the runtime */
    enum kiln_code (*create_memory)(struct kiln_device *device, uint64_t bytes, void **ret_memory,
                                    struct kiln_err *err);
    /* Checks the job's own memory, and retains it if the runtime counts references. */
    enum kiln_code (*adopt_memory)(struct kiln_device *device, void *memory, uint64_t bytes,
                                   struct kiln_err *err);
    void (*drop_memory)(struct kiln_device *device, void *memory, bool is_ours);
    /* Both use the device's own stream, and return when the copy is complete. */
    enum kiln_code (*write)(struct kiln_device *device, void *memory, const void *from,
                            uint64_t bytes, struct kiln_err *err);
    enum kiln_code (*read)(struct kiln_device *device, void *memory, void *to, uint64_t bytes,
                           struct kiln_err *err);
    enum kiln_code (*fill)(struct kiln_memory *memory, uint8_t value, void *stream,
                           struct kiln_err *err);

    enum kiln_code (*create_stream)(struct kiln_device *device, void **ret_stream,
                                    struct kiln_err *err);
    enum kiln_code (*adopt_stream)(struct kiln_device *device, void *stream, struct kiln_err *err);
    void (*drop_stream)(struct kiln_device *device, void *stream, bool is_ours);
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
    void (*forget)(struct kiln_device *device, void *function); /* before unload; accepts NULL */
    /* Encodes |map|, which was checked, for |address|; KILN_UNSUPPORTED if kernels take no maps. */
    enum kiln_code (*encode)(struct kiln_device *device, const struct tensor_map *map,
                             void *address, struct device_map *ret_map, struct kiln_err *err);
    enum kiln_code (*launch)(struct kiln_device *device, void *function,
                             const struct device_launch *launch, struct kiln_err *err);
    /* Closes the runtime's side if it is open; everything obtained from it was released before. */
    void (*close)(struct kiln_device *device);
};

struct kiln_device { /* first member of each implementation's */
    const struct device_ops *ops;
    atomic_uint references;
    struct fork_guard guard;
    struct module_table modules;
    void *stream; /* the device's own; owned */
    char name[32];
    char model[128];
    char target[LIMIT_TARGET_TEXT];
    char database_id[64];
    char uuid[DEVICE_UUID_SIZE];
    char driver[160];
    char pci[16];
    unsigned compute_units, clock_mhz;
    uint64_t memory_bytes;
};

/* A zeroed implementation of |size| bytes with one reference; NULL when out of memory. */
struct kiln_device *device_create(size_t size, const struct device_ops *ops);
struct kiln_device *device_ref(struct kiln_device *device);
void device_unref(struct kiln_device *device); /* accepts NULL and half-open devices */
static inline void device_auto(struct kiln_device **device) { device_unref(*device); }

/* KILN_INVALID in a child of the process that opened |device|. */
KILN_MUST_CHECK enum kiln_code device_enter(const struct kiln_device *device, struct kiln_err *err);
/* The runtime's stream for |stream|; NULL means the device's own.  KILN_INVALID if |stream| belongs
 * to another device. */
KILN_MUST_CHECK enum kiln_code device_stream(const struct kiln_device *device,
                                             const struct kiln_stream *stream, void **ret_stream,
                                             struct kiln_err *err);

/* Fills |database_id| from target and compute units. */
void device_set_database_id(struct kiln_device *device);
/* Calls |found| with what is known of a device; |why_not| is NULL if it can be opened. */
void device_report(const struct kiln_device *device, const struct kiln_err *why_not,
                   kiln_device_found *found, void *context);

/* The device to open. */
struct device_request {
    struct device_uri uri;
    void *context; /* the job's context, borrowed; NULL: its current one, or a new one */
};

/* What each runtime offers.  |found| is called for every device that it sees, with |why_not| if the
 * device cannot be opened.  A failure says why the whole runtime is unusable. */
struct device_runtime {
    const char *kind; /* "opencl" */
    enum kiln_code (*open)(const struct device_request *request, struct kiln_device **ret_device,
                           struct kiln_err *err);
    enum kiln_code (*list)(kiln_device_found *found, void *context, struct kiln_err *err);
};

extern const struct device_runtime device_runtime_hip, device_runtime_cuda, device_runtime_opencl;
