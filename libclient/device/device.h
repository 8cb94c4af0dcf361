/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Devices inside libkiln: one vtable, one implementation a GPU runtime.
 *
 * Role       memory, copies, loading code objects, launching; names and targets
 * Ownership  a device is counted: memories and modules hold a reference, so that closing one
 *            in the wrong order is harmless
 * Threading  as <kiln/device.h> says: launches of one module from one thread at a time, all else
 *            from any
 */
#include "common/bytes.h"
#include "common/err.h"
#include "common/limits.h"
#include "libclient/device/uri.h"

#include <kiln/device.h>
#include <stdatomic.h>

struct kiln_memory {            /* first member of each implementation's */
    struct kiln_device *device; /* counted */
    uint64_t bytes;
};

struct device_module;

struct device_argument {
    struct kiln_memory *memory; /* NULL: a number */
    uint64_t value;             /* the number, or an offset in bytes into |memory| */
    size_t size;                /* of the number, bytes */
};

struct device_launch {
    const uint32_t *grid, *group; /* three each: groups, and items in a group */
    const struct device_argument *arguments;
    uint32_t argument_count;
};

struct device_ops {
    enum kiln_code (*create_memory)(struct kiln_device *device, uint64_t bytes,
                                    struct kiln_memory **ret_memory, struct kiln_err *err);
    void (*destroy_memory)(struct kiln_memory *memory);
    enum kiln_code (*write)(struct kiln_memory *memory, const void *from, uint64_t bytes,
                            struct kiln_err *err);
    enum kiln_code (*read)(struct kiln_memory *memory, void *to, uint64_t bytes,
                           struct kiln_err *err);
    enum kiln_code (*finish)(struct kiln_device *device, struct kiln_err *err);
    /* Loads a code object and finds the entry points |names|, which launch() numbers. */
    enum kiln_code (*load)(struct kiln_device *device, struct bytes object,
                           const char *const *names, size_t count,
                           struct device_module **ret_module, struct kiln_err *err);
    void (*unload)(struct kiln_device *device, struct device_module *module); /* accepts NULL */
    enum kiln_code (*launch)(struct kiln_device *device, struct device_module *module, size_t entry,
                             const struct device_launch *launch, struct kiln_err *err);
    void (*destroy)(struct kiln_device *device);
};

struct kiln_device { /* first member of each implementation's */
    const struct device_ops *ops;
    atomic_uint references;
    char name[32];
    char model[128];
    char target[LIMIT_TARGET_TEXT];
    char database_id[64];
    unsigned compute_units;
};

struct kiln_device *device_ref(struct kiln_device *device);
void device_unref(struct kiln_device *device); /* accepts NULL */

/* What each runtime offers.  |found| is called for every device it sees, with why_not where it
 * cannot be opened; a failure says why the runtime is of no use at all. */
struct device_runtime {
    const char *kind; /* "opencl" */
    enum kiln_code (*open)(const struct device_uri *uri, struct kiln_device **ret_device,
                           struct kiln_err *err);
    enum kiln_code (*list)(kiln_device_found *found, void *context, struct kiln_err *err);
};

extern const struct device_runtime device_runtime_hip, device_runtime_cuda, device_runtime_opencl;
