/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>

/* Five kernels of 10000 bytes fit, also below the room that eviction leaves. */
#define FIVE 58000u

static void evicts_what_is_worth_least_first(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(reopen(f, FIVE), KILN_OK);
    const uint64_t second = 1000000000, day = 86400, now = 1700000000;
    stored(f,
           (struct kernel){ .number = 1, .size = 10000, .compile_ns = second, .last_used = now });
    stored(f, (struct kernel){
                  .number = 2, .size = 10000, .compile_ns = second, .last_used = now - 2 * day });
    /* Costs four times as much, so it lasts two weeks longer. */
    stored(f,
           (struct kernel){
               .number = 3, .size = 10000, .compile_ns = 4 * second, .last_used = now - 13 * day });
    stored(f,
           (struct kernel){
               .number = 4, .size = 10000, .compile_ns = 4 * second, .last_used = now - 17 * day });

    assert_int_equal(stored(f, (struct kernel){ .number = 5, .size = 10000, .last_used = now }), 0);
    assert_int_equal(stored(f, (struct kernel){ .number = 6, .size = 10000, .last_used = now }), 1);
    assert_false(holds(f, 4));
    assert_int_equal(stored(f, (struct kernel){ .number = 7, .size = 10000, .last_used = now }), 1);
    assert_false(holds(f, 2));

    assert_true(holds(f, 1));
    assert_true(holds(f, 3));
}

static void a_touched_kernel_outlives_the_others(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(reopen(f, FIVE), KILN_OK);
    for (unsigned i = 1; i <= 5; i++)
        stored(f, (struct kernel){ .number = i, .size = 10000, .last_used = 1700000000 + i });
    struct digest keys[] = { key_of(1), key_of(2), key_of(77) };

    assert_int_equal(kernel_store_touch(f->store, keys, 3, 1700001000, &f->err), KILN_OK);
    stored(f, (struct kernel){ .number = 6, .size = 10000, .last_used = 1700000100 });

    assert_true(holds(f, 1));
    assert_true(holds(f, 2));
    assert_false(holds(f, 3));
    assert_int_equal(ask(f, "select max(last_used) from recency"), 1700001000);
    assert_int_equal(ask(f, "select sum(uses) from recency"), 2);
}

static void eviction_leaves_room_below_the_limit(void **state)
{
    struct fixture *f = *state;
    const uint64_t limit = 200 * 1700;
    assert_int_equal(reopen(f, limit), KILN_OK);
    uint64_t evicted = 0;
    unsigned count = 0;

    while (evicted == 0) {
        count++;
        struct kernel next = { .number = count, .size = 1000, .last_used = 1700000000 + count };
        evicted = stored(f, next);
    }

    assert_in_range(evicted, 5, 20);
    assert_true(usage(f).stored_bytes + usage(f).row_bytes <= limit * 95 / 100);
    assert_int_equal(usage(f).kernels, count - evicted);
    assert_true(holds(f, count));
}

static void never_exceeds_its_limit(void **state)
{
    struct fixture *f = *state;
    const uint64_t limit = 100000;
    assert_int_equal(reopen(f, limit), KILN_OK);
    for (unsigned i = 0; i < 200; i++) {
        stored(f, (struct kernel){
                      .number = i, .size = 1 + (i * 7919) % 40000, .compressible = i % 3 == 0 });
        assert_true(usage(f).stored_bytes + usage(f).row_bytes <= limit);
        assert_true(holds(f, i));
    }
}

static void refuses_an_object_larger_than_the_whole_cache(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(reopen(f, 4096), KILN_OK);
    stored(f, (struct kernel){ .number = 1, .size = 100 });

    assert_int_equal(put(f, (struct kernel){ .number = 2, .size = 10000 }), KILN_FULL);

    assert_non_null(strstr(f->err.text, "limit"));
    assert_true(holds(f, 1)); /* nothing was evicted in vain */
}

static void works_with_a_limit_of_nothing(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(reopen(f, 0), KILN_OK);

    assert_int_equal(put(f, (struct kernel){ .number = 1, .size = 1 }), KILN_FULL);
    assert_false(holds(f, 1));
}

static void a_smaller_limit_takes_effect_with_the_next_put(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < 20; i++)
        stored(f, (struct kernel){ .number = i, .size = 10000 });
    assert_int_equal(reopen(f, FIVE), KILN_OK);

    assert_int_equal(stored(f, (struct kernel){ .number = 99, .size = 10000 }), 16);

    assert_true(holds(f, 99));
}

static void a_full_disk_is_an_error_that_leaves_the_store_whole(void **state)
{
    struct fixture *f = *state;
    stored(f, (struct kernel){ .number = 1, .size = 5000 });
    struct object *large = object_of(4 << 20, 5, false);
    struct kernel_record record = { .key = key_of(2), .target = "gfx90a", .program = "p" };
    struct rlimit before, tight = { 0 };
    uint64_t evicted = 0;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = (struct rlimit){ .rlim_cur = 1 << 20, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);

    enum kiln_code rc = kernel_store_put(f->store, &record, large, &evicted, &f->err);

    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, KILN_FULL);
    assert_non_null(strstr(f->err.text, "disk space"));
    assert_true(holds(f, 1));
    assert_false(holds(f, 2));
    assert_int_equal(kernel_store_put(f->store, &record, large, &evicted, &f->err), KILN_OK);
    assert_true(holds(f, 2));
    object_unref(large);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(evicts_what_is_worth_least_first),
        TEST(a_touched_kernel_outlives_the_others),
        TEST(eviction_leaves_room_below_the_limit),
        TEST(never_exceeds_its_limit),
        TEST(refuses_an_object_larger_than_the_whole_cache),
        TEST(works_with_a_limit_of_nothing),
        TEST(a_smaller_limit_takes_effect_with_the_next_put),
        TEST(a_full_disk_is_an_error_that_leaves_the_store_whole),
    };
    return cmocka_run_group_tests_name("kernel_store_limit", tests, NULL, NULL);
}
