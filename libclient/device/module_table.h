/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The cache of a device's loaded code objects, by key.
 *
 * Role       lets further runs, on any thread, use a kernel that is already loaded
 * Ownership  Modules are reference-counted.  An unused module stays loaded until MODULES_IDLE_MAX
 *            other modules were used after it, or until the device is closed.  A module keeps its
 *            kernel's bytes, because HIP also reads them after loading
 * Threading  any thread; a thread that needs a module waits while another thread loads it
 */
#include "common/base/hash_table.h"
#include "common/base/list.h"
#include "libclient/kernels/kernel.h"

#include <pthread.h>

/* Maximum number of unused modules that stay loaded: enough for ResNet-50, which has 69 problems
 * with up to three kernels each. */
#define MODULES_IDLE_MAX 512

struct kiln_device;

struct device_module {
    struct hash_link by_key;
    struct list_link by_use;
    struct kiln_kernel *kernel;
    void *native;
    unsigned users;
    bool is_loaded;
};

struct module_table {
    pthread_mutex_t mutex;
    pthread_cond_t loaded; /* signalled when a load ends, even if it failed */
    struct hash_table modules;
    struct list by_use; /* all of |modules|, most recently used first */
    size_t idle;
};

void module_table_init(struct module_table *table);
/* No module may be in use.  With |abandon|, frees the table without unloading the modules. */
void module_table_done(struct module_table *table, struct kiln_device *device, bool abandon);

/* Returns the module with |kernel|'s key; loads it if necessary.  The module counts as in use until
 * module_put. */
KILN_MUST_CHECK enum kiln_code module_get(struct kiln_device *device, struct kiln_kernel *kernel,
                                          struct device_module **ret_module, struct kiln_err *err);
void module_put(struct kiln_device *device, struct device_module *module);
