/* SPDX-License-Identifier: MIT */
#include "libclient/device/module_table.h"

#include "libclient/device/device.h"

void module_table_init(struct module_table *table)
{
    *table = (struct module_table){ .idle = 0 };
    list_init(&table->by_use);
    pthread_mutex_init(&table->mutex, NULL);
    pthread_cond_init(&table->loaded, NULL);
}

static void unlink_module(struct module_table *t, struct device_module *m)
{
    hash_table_remove(&t->modules, &m->by_key);
    list_remove(&m->by_use);
}

void module_table_done(struct module_table *table, struct kiln_device *device, bool abandon)
{
    LIST_EACH (&table->by_use, struct device_module, by_use, m) {
        unlink_module(table, m);
        if (!abandon)
            device->ops->unload(device, m->native);
        kernel_destroy(m->kernel);
        free(m);
    }
    hash_table_done(&table->modules);
    pthread_cond_destroy(&table->loaded);
    pthread_mutex_destroy(&table->mutex);
}

static struct device_module *find_module(const struct module_table *t, const struct digest *key)
{
    HASH_EACH (&t->modules, digest_hash(key), struct device_module, by_key, m)
        if (digest_equal(&m->kernel->content->key, key))
            return m;
    return NULL;
}

/* Finds a loaded module, and waits while another thread loads it.  Returns NULL if the module is
 * neither loaded nor being loaded. */
static struct device_module *find_loaded(struct module_table *t, const struct digest *key)
{
    struct device_module *m = find_module(t, key);
    while (m && !m->is_loaded) {
        pthread_cond_wait(&t->loaded, &t->mutex);
        m = find_module(t, key);
    }
    return m;
}

static void use_module(struct module_table *t, struct device_module *m)
{
    t->idle -= m->users == 0;
    m->users++;
    list_remove(&m->by_use);
    list_prepend(&t->by_use, &m->by_use);
}

/* Loads |m|.  The caller holds the mutex, which this function releases while the runtime loads the
 * code. */
static enum kiln_code load_module(struct kiln_device *device, struct device_module *m,
                                  struct kiln_err *err)
{
    struct module_table *t = &device->modules;
    struct bytes object = bytes_of(kiln_kernel_data(m->kernel), kiln_kernel_size(m->kernel));
    pthread_mutex_unlock(&t->mutex);
    enum kiln_code rc = device->ops->load(device, object, &m->native, err);
    pthread_mutex_lock(&t->mutex);
    m->is_loaded = rc == KILN_OK;
    pthread_cond_broadcast(&t->loaded);
    return rc;
}

static enum kiln_code add_module(struct kiln_device *device, struct kiln_kernel *kernel,
                                 struct device_module **ret_module, struct kiln_err *err)
{
    struct module_table *t = &device->modules;
    struct device_module *m = calloc(1, sizeof(*m));
    if (!m)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a module");
    m->kernel = kiln_kernel_ref(kernel);
    m->users = 1;
    hash_table_add(&t->modules, &m->by_key, digest_hash(&kernel->content->key));
    list_prepend(&t->by_use, &m->by_use);
    enum kiln_code rc = load_module(device, m, err);
    if (rc) {
        unlink_module(t, m);
        kernel_destroy(m->kernel);
        free(m);
        return rc;
    }
    *ret_module = m;
    return KILN_OK;
}

enum kiln_code module_get(struct kiln_device *device, struct kiln_kernel *kernel,
                          struct device_module **ret_module, struct kiln_err *err)
{
    struct module_table *t = &device->modules;
    enum kiln_code rc = KILN_OK;
    pthread_mutex_lock(&t->mutex);
    struct device_module *m = find_loaded(t, &kernel->content->key);
    if (m)
        use_module(t, m);
    else
        rc = add_module(device, kernel, &m, err);
    pthread_mutex_unlock(&t->mutex);
    if (!rc)
        *ret_module = m;
    return rc;
}

static struct device_module *take_oldest_idle(struct module_table *t)
{
    LIST_EACH_BACK (&t->by_use, struct device_module, by_use, m) {
        if (m->users)
            continue;
        unlink_module(t, m);
        t->idle--;
        return m;
    }
    return NULL;
}

void module_put(struct kiln_device *device, struct device_module *module)
{
    if (!module)
        return;
    struct module_table *t = &device->modules;
    struct device_module *surplus = NULL;
    pthread_mutex_lock(&t->mutex);
    module->users--;
    t->idle += module->users == 0;
    if (t->idle > MODULES_IDLE_MAX)
        surplus = take_oldest_idle(t);
    pthread_mutex_unlock(&t->mutex);
    if (!surplus)
        return;
    device->ops->unload(device, surplus->native);
    kernel_destroy(surplus->kernel);
    free(surplus);
}
