/* SPDX-License-Identifier: MIT */
#include "libclient/device/module_table.h"

#include "libclient/device/device.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <string.h>

#define THREADS 6
#define ROUNDS 300

struct fixture {
    struct kiln_device *device;
    atomic_uint loads, unloads, loaded;
    unsigned failures;  /* number of the next loads that fail */
    atomic_uint asking; /* number of threads that have called module_get */
    unsigned wait_for;  /* a load waits until |asking| is this large */
};

static struct fixture f;

static enum kiln_code load(struct kiln_device *device, struct bytes object, void **ret_module,
                           struct kiln_err *err)
{
    (void)device;
    WAIT_FOR(atomic_load(&f.asking) >= f.wait_for);
    atomic_fetch_add(&f.loads, 1);
    if (f.failures) {
        f.failures--;
        return kiln_fail(err, KILN_CORRUPT, "told to fail");
    }
    atomic_fetch_add(&f.loaded, 1);
    *ret_module = (void *)object.data;
    return KILN_OK;
}

static void unload(struct kiln_device *device, void *module)
{
    (void)device;
    assert_non_null(module);
    atomic_fetch_add(&f.unloads, 1);
    atomic_fetch_sub(&f.loaded, 1);
}

static void close_nothing(struct kiln_device *device) { (void)device; }

static const struct device_ops ops = { .load = load, .unload = unload, .close = close_nothing };

SET_UP_STATIC(set_up)
{
    memset(&f, 0, sizeof(f));
    f.device = device_create(sizeof(*f.device), &ops);
    assert_non_null(f.device);
}

TEAR_DOWN_STATIC(tear_down)
{
    device_unref(f.device);
    assert_int_equal(f.loaded, 0);
}

FIXTURE(module_table, set_up, tear_down);

static struct kiln_kernel *kernel_of(unsigned seed)
{
    static const char content[] = "code";
    struct digest key = fake_key(seed);
    struct message_result o = fake_inline_result(0, &key, bytes_of(content, sizeof(content)));
    struct reply reply = { .capabilities = CAPABILITY_INLINE };
    struct kiln_kernel *kernel = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    must(kernel_create(&o, &reply, &kernel, &err), err);
    return kernel;
}

static struct device_module *get(unsigned seed)
{
    struct kiln_kernel *kernel = kernel_of(seed);
    struct device_module *module = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    must(module_get(f.device, kernel, &module, &err), err);
    kernel_destroy(kernel);
    return module;
}

TEST(module_table, a_module_is_loaded_once_and_stays)
{
    struct device_module *first = get(1), *second = get(1), *other = get(2);
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, other);
    module_put(f.device, first);
    module_put(f.device, second);
    module_put(f.device, other);
    module_put(f.device, NULL);
    assert_ptr_equal(get(1), first);
    module_put(f.device, first);
    assert_int_equal(f.loads, 2);
    assert_int_equal(f.unloads, 0);
}

/* HIP reads the object's bytes even after it has loaded the module. */
TEST(module_table, a_module_keeps_its_kernels_bytes)
{
    struct device_module *module = get(1);
    assert_memory_equal(module->native, "code", 5);
    module_put(f.device, module);
}

TEST(module_table, a_load_that_fails_leaves_nothing_and_may_be_tried_again)
{
    struct kiln_kernel *kernel = kernel_of(1);
    struct device_module *module = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    f.failures = 1;
    assert_int_equal(module_get(f.device, kernel, &module, &err), KILN_CORRUPT);
    assert_null(module);
    assert_int_equal(f.device->modules.modules.count, 0);
    assert_true(list_is_empty(&f.device->modules.by_use));
    must(module_get(f.device, kernel, &module, &err), err);
    module_put(f.device, module);
    kernel_destroy(kernel);
    assert_int_equal(f.loads, 2);
}

TEST(module_table, the_least_recently_used_goes_when_too_many_are_idle)
{
    for (unsigned i = 0; i < MODULES_IDLE_MAX; i++)
        module_put(f.device, get(i));
    module_put(f.device, get(0));
    assert_int_equal(f.unloads, 0);
    module_put(f.device, get(MODULES_IDLE_MAX));
    assert_int_equal(f.unloads, 1);
    assert_int_equal(f.loads, MODULES_IDLE_MAX + 1);
    module_put(f.device, get(0));
    assert_int_equal(f.loads, MODULES_IDLE_MAX + 1);
    module_put(f.device, get(1));
    assert_int_equal(f.loads, MODULES_IDLE_MAX + 2);
    assert_int_equal(f.device->modules.idle, MODULES_IDLE_MAX);
}

TEST(module_table, a_module_in_use_is_never_unloaded)
{
    struct device_module *kept = get(0);
    for (unsigned i = 1; i <= MODULES_IDLE_MAX + 3; i++)
        module_put(f.device, get(i));
    assert_int_equal(f.unloads, 3);
    assert_ptr_equal(get(0), kept);
    module_put(f.device, kept);
    assert_int_equal(f.unloads, 3);
    module_put(f.device, kept);
    assert_int_equal(f.unloads, 4);
    assert_ptr_equal(get(0), kept);
    module_put(f.device, kept);
}

TEST(module_table, abandoned_modules_are_forgotten_and_not_unloaded)
{
    module_put(f.device, get(1));
    module_put(f.device, get(2));
    module_table_done(&f.device->modules, f.device, /* abandon= */ true);
    assert_int_equal(f.unloads, 0);
    f.loaded = 0;
    module_table_init(&f.device->modules);
}

static void *ask(void *ret_failed)
{
    struct kiln_kernel *kernel = kernel_of(1);
    struct device_module *module = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    atomic_fetch_add(&f.asking, 1);
    enum kiln_code rc = module_get(f.device, kernel, &module, &err);
    if (!rc)
        module_put(f.device, module);
    kernel_destroy(kernel);
    *(bool *)ret_failed = rc != KILN_OK;
    return NULL;
}

static unsigned ask_all_at_once(void)
{
    pthread_t threads[THREADS];
    bool failed[THREADS] = { false };
    unsigned count = 0;
    f.wait_for = THREADS;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &failed[i]), 0);
    for (int i = 0; i < THREADS; i++)
        await_thread(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        count += failed[i];
    return count;
}

TEST(module_table, a_request_for_a_module_being_loaded_waits_for_it)
{
    assert_int_equal(ask_all_at_once(), 0);
    assert_int_equal(f.loads, 1);
}

/* Threads that waited for a failed load try to load the module themselves, because the next load
 * may succeed. */
TEST(module_table, a_failed_load_fails_only_for_the_thread_that_tried_it)
{
    f.failures = 2;
    assert_int_equal(ask_all_at_once(), 2);
    assert_int_equal(f.loads, 3);
}

static void *mix(void *seed)
{
    unsigned n = *(unsigned *)seed;
    for (unsigned i = 0; i < ROUNDS; i++) {
        n = n * 1664525 + 1013904223;
        module_put(f.device, get(n >> 8 & 0x3ff));
    }
    return NULL;
}

TEST(module_table, threads_that_load_and_evict_keep_the_counts_consistent)
{
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = i + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, mix, &seeds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        await_thread(threads[i], NULL);
    size_t count = 0;
    LIST_EACH (&f.device->modules.by_use, struct device_module, by_use, m) {
        assert_int_equal(m->users, 0);
        count++;
    }
    assert_int_equal(count, f.device->modules.modules.count);
    assert_int_equal(count, f.device->modules.idle);
    assert_int_equal(count, f.loaded);
    assert_true(count <= MODULES_IDLE_MAX && f.unloads > 0);
}
