/* SPDX-License-Identifier: MIT */
#include "tests/faults/engine_cases.h"

#include "engine/store/kernel_store.h"
#include "tests/faults/invariants.h"
#include "tests/support/test.h"
#include "tests/support/whole_store.h"

#include <stdio.h>
#include <string.h>

#define KERNELS 6u
#define NEW 100u
#define ROOMY (1ull << 30)
#define TIGHT (1ull << 20)
#define SIZE 20000u

static struct digest key_of(unsigned number)
{
    struct digest key = { .bytes = { (uint8_t)number, (uint8_t)(number >> 8), 7 } };
    return key;
}

static struct object *object_of(unsigned number)
{
    static uint8_t data[SIZE];
    struct object *object = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    uint64_t x = number + 1;
    for (size_t i = 0; i < sizeof(data); i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        data[i] = i % 2 ? (uint8_t)(x >> 56) : (uint8_t)i;
    }
    must(object_from_bytes(bytes_of(data, sizeof(data)), 5000000, &object, &err), err);
    return object;
}

static struct kernel_store *open_store(const char *directory, uint64_t limit,
                                       enum kiln_code *ret_rc, struct kiln_err *err)
{
    struct kernel_store *store = NULL;
    char notice[512] = "";
    const struct kernel_store_options options = {
        .directory = directory, .limit_bytes = limit, .readers = 1, .allow_network_fs = true
    };
    *ret_rc = kernel_store_open(&options, &store, notice, err);
    return store;
}

static enum kiln_code put_kernel(struct kernel_store *store, unsigned number, struct object *object,
                                 struct kiln_err *err)
{
    const struct kernel_record record = { .key = key_of(number),
                                          .toolchain_id = key_of(1),
                                          .target = "gfx90a",
                                          .toolchain = "clang",
                                          .program = "ConvDirectNaive.cl",
                                          .options = "-O3",
                                          .compile_ns = 1000000000,
                                          .created = 1700000000,
                                          .last_used = 1700000000 + number,
                                          .uid = 1000 };
    uint64_t evicted = 0;
    return kernel_store_put(store, &record, object, &evicted, err);
}

static void prepare_full(const char *directory)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    struct kernel_store *store = open_store(directory, ROOMY, &rc, &err);
    must(rc, err);
    for (unsigned i = 0; i < KERNELS; i++) {
        struct object *object = object_of(i);
        must(put_kernel(store, i, object, &err), err);
        object_unref(object);
    }
    kernel_store_destroy(store);
}

static void prepare_empty(const char *directory) { (void)directory; }

static void act_open(struct trial *t)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    trial_mark(t);
    struct kernel_store *store = open_store(t->directory, ROOMY, &rc, &err);
    trial_step(t, rc, &err);
    kernel_store_destroy(store);
    trial_over(t);
}

static void put_and_close(struct trial *t, uint64_t limit)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    struct digest first = key_of(0);
    bool found = false;
    struct object *objects[] = { object_of(NEW), object_of(NEW + 1) };
    struct kernel_store *store = open_store(t->directory, limit, &rc, &err);
    must(rc, err);
    trial_mark(t);
    if (trial_step(t, put_kernel(store, NEW, objects[0], &err), &err))
        trial_step(t, put_kernel(store, NEW + 1, objects[1], &err), &err);
    trial_over(t);
    must(kernel_store_pin(store, &first, true, &found, &err), err);
    kernel_store_destroy(store);
    object_unref(objects[0]);
    object_unref(objects[1]);
}

static void act_put(struct trial *t) { put_and_close(t, ROOMY); }
static void act_evict(struct trial *t) { put_and_close(t, TIGHT); }

static bool get_kernel(struct trial *t, struct kernel_store *store, unsigned number,
                       const struct object *expected)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct object *object = NULL;
    struct digest key = key_of(number);
    bool damaged = false;
    enum kiln_code rc = kernel_store_get(store, &key, &object, &damaged, &err);
    if (!rc && !digest_equal(&object->digest, &expected->digest))
        abort(); /* wrong bytes must never be served */
    object_unref(object);
    return trial_step(t, rc, &err);
}

static void act_get(struct trial *t)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    struct object *expected[3];
    for (unsigned i = 0; i < 3; i++)
        expected[i] = object_of(i);
    struct kernel_store *store = open_store(t->directory, ROOMY, &rc, &err);
    must(rc, err);
    trial_mark(t);
    for (unsigned i = 0; i < 3; i++)
        get_kernel(t, store, i, expected[i]);
    trial_over(t);
    /* Reports kernel 0 as damaged. The store checks the kernel, finds it intact, and does not
     * quarantine it. */
    struct digest key = key_of(0);
    must(kernel_store_quarantine(store, &key, &err), err);
    kernel_store_destroy(store);
    for (unsigned i = 0; i < 3; i++)
        object_unref(expected[i]);
}

static void act_clear(struct trial *t)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    uint64_t count = 0, bytes = 0;
    const struct kernel_filter all = { .target = NULL };
    struct kernel_store *store = open_store(t->directory, ROOMY, &rc, &err);
    must(rc, err);
    trial_mark(t);
    trial_step(t, kernel_store_clear(store, &all, &count, &bytes, &err), &err);
    kernel_store_destroy(store);
    trial_over(t);
}

static void act_gc(struct trial *t)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    const struct kernel_gc gc = { .shrink = true, .to_bytes = 200000 };
    struct kernel_gc_result result;
    struct kernel_store *store = open_store(t->directory, ROOMY, &rc, &err);
    must(rc, err);
    trial_mark(t);
    trial_step(t, kernel_store_gc(store, &gc, &result, &err), &err);
    kernel_store_destroy(store);
    trial_over(t);
}

static void act_care(struct trial *t)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    struct digest keys[] = { key_of(0), key_of(1), key_of(2) };
    bool found = false, more = false;
    struct kernel_store *store = open_store(t->directory, ROOMY, &rc, &err);
    must(rc, err);
    trial_mark(t);
    trial_step(t, kernel_store_touch(store, keys, 3, 1800000000, &err), &err);
    trial_step(t, kernel_store_pin(store, &keys[0], true, &found, &err), &err);
    trial_step(t, kernel_store_tidy(store, &more, &err), &err);
    kernel_store_destroy(store);
    trial_over(t);
}

static void act_close(struct trial *t)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    struct object *object = object_of(NEW);
    struct kernel_store *store = open_store(t->directory, ROOMY, &rc, &err);
    must(rc, err);
    trial_step(t, put_kernel(store, NEW, object, &err), &err);
    trial_mark(t);
    kernel_store_destroy(store);
    trial_over(t);
    object_unref(object);
}

struct found {
    unsigned old, first, second;
    uint64_t all;
};

static bool store_holds(struct kernel_store *store, unsigned number)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct object *object = NULL, *expected = object_of(number);
    struct digest key = key_of(number);
    bool damaged = false;
    enum kiln_code rc = kernel_store_get(store, &key, &object, &damaged, &err);
    if (rc != KILN_NOT_FOUND)
        must(rc, err);
    assert_false(damaged);
    if (object)
        assert_true(digest_equal(&object->digest, &expected->digest));
    object_unref(object);
    object_unref(expected);
    return rc == KILN_OK;
}

static struct found check_kernels(const struct trial *t)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct kernel_store *store = NULL;
    struct kernel_usage usage;
    struct found found = { 0 };
    char notice[512] = "";
    const struct kernel_store_options options = {
        .directory = t->directory, .limit_bytes = ROOMY, .readers = 1, .allow_network_fs = true
    };
    expect_sound_kernels(t->directory);
    must(kernel_store_open(&options, &store, notice, &err), err);
    assert_string_equal(notice, "");
    for (unsigned i = 0; i < KERNELS; i++)
        found.old += store_holds(store, i);
    found.first = store_holds(store, NEW);
    found.second = store_holds(store, NEW + 1);
    must(kernel_store_usage(store, &usage, &err), err);
    found.all = usage.kernels;
    assert_int_equal(usage.objects, usage.kernels);
    assert_int_equal(found.all, found.old + found.first + found.second);
    struct object *object = object_of(NEW + 2);
    must(put_kernel(store, NEW + 2, object, &err), err);
    object_unref(object);
    assert_true(store_holds(store, NEW + 2));
    kernel_store_destroy(store);
    return found;
}

static void check_kept(const struct trial *t)
{
    struct found found = check_kernels(t);
    assert_int_equal(found.old, KERNELS);
    assert_int_equal(found.first + found.second > 0, found.first);
}

static void check_put(const struct trial *t)
{
    struct found found = check_kernels(t);
    assert_int_equal(found.old, KERNELS);
    assert_true(found.first || t->end->done < 1);
    assert_true(found.second || t->end->done < 2);
}

static void check_evicted(const struct trial *t)
{
    struct found found = check_kernels(t);
    assert_true(found.second || t->end->done < 2);
    assert_true(found.old > KERNELS / 2 && found.old <= KERNELS);
}

static void check_cleared(const struct trial *t)
{
    struct found found = check_kernels(t);
    assert_true(found.old == 0 || t->end->done == 0);
}

static void check_anything(const struct trial *t) { check_kernels(t); }

#define OPERATION(label, prepare, act, check) \
    ENGINE_OPERATION(label, BIT(KIND_MEMFD), prepare, act, check)

const struct operation store_operations[] = {
    OPERATION("store-create", prepare_empty, act_open, check_anything),
    OPERATION("store-open", prepare_full, act_open, check_kept),
    OPERATION("store-put", prepare_full, act_put, check_put),
    OPERATION("store-close", prepare_full, act_close, check_put),
    OPERATION("store-get", prepare_full, act_get, check_kept),
    OPERATION("store-evict", prepare_full, act_evict, check_evicted),
    OPERATION("store-clear", prepare_full, act_clear, check_cleared),
    OPERATION("store-gc", prepare_full, act_gc, check_anything),
    OPERATION("store-care", prepare_full, act_care, check_kept),
};
const size_t store_operation_count = sizeof(store_operations) / sizeof(store_operations[0]);
