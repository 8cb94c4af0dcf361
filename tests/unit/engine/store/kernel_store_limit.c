/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"
#include "tests/support/wait.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A limit of the store. Six kernels of LARGE bytes fit it, and each further kernel evicts one. */
#define SIX ((1u << 20) + (32u << 10))
#define LARGE 100000u
#define NOW 1700000000ull

static struct kernel large(unsigned number, uint64_t last_used)
{
    return (struct kernel){ .number = number, .size = LARGE, .last_used = last_used };
}

TEST_F(store, the_least_valuable_kernel_is_evicted_first)
{
    assert_int_equal(reopen(f, SIX), KILN_OK);
    const uint64_t second = 1000000000, day = 86400;
    struct kernel four_times[2] = { large(3, NOW - 13 * day), large(4, NOW - 17 * day) };
    for (unsigned i = 0; i < 2; i++)
        four_times[i].compile_ns = 4 * second;
    stored(f, large(1, NOW));
    stored(f, large(2, NOW - 2 * day));
    stored(f, four_times[0]);
    stored(f, four_times[1]);
    stored(f, large(5, NOW));

    assert_int_equal(stored(f, large(6, NOW)), 0);
    assert_int_equal(stored(f, large(7, NOW)), 1);
    assert_false(holds(f, 4));
    assert_int_equal(stored(f, large(8, NOW)), 1);
    assert_false(holds(f, 2));

    assert_true(holds(f, 1));
    assert_true(holds(f, 3));
}

/* A user can claim any compile time for a private kernel. A false claim must not evict the kernels
 * of others. */
TEST_F(store, a_private_kernel_counts_as_one_second_at_most)
{
    assert_int_equal(reopen(f, SIX), KILN_OK);
    for (unsigned i = 1; i <= 6; i++)
        stored(f, large(i, NOW + i));
    struct kernel claimed = large(7, NOW);
    claimed.compile_ns = UINT64_MAX;
    claimed.is_private = true;
    claimed.uid = 1001;
    stored(f, claimed);
    assert_int_equal(stored(f, large(8, NOW + 8)), 1);
    assert_false(holds(f, 7));
    assert_true(holds(f, 2));
}

TEST_F(store, a_touched_kernel_outlives_the_others)
{
    assert_int_equal(reopen(f, SIX), KILN_OK);
    for (unsigned i = 1; i <= 6; i++)
        stored(f, large(i, NOW + i));
    struct digest keys[] = { key_of(1), key_of(2), key_of(77) };

    assert_int_equal(kernel_store_touch(f->store, keys, 3, NOW + 1000, &f->err), KILN_OK);
    stored(f, large(7, NOW + 100));

    assert_true(holds(f, 1));
    assert_true(holds(f, 2));
    assert_false(holds(f, 3));
    assert_int_equal(ask(f, "select max(last_used) from recency"), NOW + 1000);
    assert_int_equal(ask(f, "select sum(uses) from recency"), 2);
}

/* Each reading of the clock advances it by |step_ns|. If |step_ns| is 0, no step ends early, even
 * on a busy machine. */
static uint64_t step_ns;

uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void)
{
    static uint64_t now_ns = 1;
    now_ns += step_ns;
    return now_ns;
}

#define MANY 300
#define BATCH 32

/* The put must evict all that it needs, even if a step's time is over. Otherwise, it would fail. */
TEST_F(store, a_large_kernel_evicts_as_many_as_it_needs_whatever_the_time)
{
    assert_int_equal(reopen(f, 8 << 20), KILN_OK);
    for (unsigned i = 1; i <= MANY; i++)
        stored(f, (struct kernel){ .number = i, .size = 20000, .last_used = NOW + i });
    step_ns = 1000000000;
    uint64_t evicted =
        stored(f, (struct kernel){ .number = 1000, .size = 3000000, .last_used = NOW });
    step_ns = 0;
    assert_in_range(evicted, BATCH + 1, MANY);
    assert_true(holds(f, 1000));
}

/* The clock is so fast that a step's time is over after each kernel that the step evicts. */
TEST_F(store, a_put_into_a_full_store_evicts_in_steps)
{
    assert_int_equal(reopen(f, 8 << 20), KILN_OK);
    for (unsigned i = 1; i <= MANY + 100; i++)
        stored(f, (struct kernel){ .number = i, .size = 20000, .last_used = NOW + i });
    struct object *object = object_of(900000, 1000, false);
    const struct kernel_record record = { .key = key_of(1000),
                                          .target = "gfx90a",
                                          .toolchain = "clang",
                                          .program = "k.cpp",
                                          .options = "",
                                          .last_used = NOW };
    struct kernel_putting putting = { .record = &record, .object = object };
    unsigned steps = 0;
    step_ns = 1000000000;
    for (; !putting.is_over; steps++) {
        const uint64_t before = putting.evicted;
        assert_true(steps < MANY);
        must(kernel_store_put_some(f->store, &putting, &f->err), f->err);
        assert_true(putting.evicted <= before + 1);
    }
    step_ns = 0;
    assert_true(steps > 10);
    assert_true(holds(f, 1000));
    object_unref(object);
}

TEST_F(store, eviction_leaves_free_space_below_the_limit)
{
    assert_int_equal(reopen(f, 8 << 20), KILN_OK);
    uint64_t evicted = 0;
    unsigned count = 0;

    while (evicted == 0) {
        count++;
        evicted =
            stored(f, (struct kernel){ .number = count, .size = 20000, .last_used = NOW + count });
    }

    assert_in_range(evicted, 10, 25);
    assert_int_equal(usage(f).kernels, count - evicted);
    assert_true(holds(f, count));
    for (unsigned i = 1; i < evicted - 3; i++)
        assert_int_equal(
            stored(f,
                   (struct kernel){ .number = 1000 + i, .size = 20000, .last_used = NOW + 1000 }),
            0);
}

struct watch {
    struct fixture *f;
    atomic_bool stop;
    uint64_t taken_max;
};

static void *watch_disk(void *context)
{
    struct watch *w = context;
    while (!atomic_load(&w->stop)) {
        uint64_t now = taken(w->f);
        w->taken_max = now > w->taken_max ? now : w->taken_max;
    }
    return NULL;
}

TEST_F(store, disk_use_never_exceeds_the_limit)
{
    const uint64_t limit = 3 << 20;
    struct watch w = { .f = f };
    pthread_t thread;
    assert_int_equal(reopen(f, limit), KILN_OK);
    assert_int_equal(pthread_create(&thread, NULL, watch_disk, &w), 0);

    uint64_t missed = 0, after = 0, differs = 0;
    for (unsigned i = 0; i < 400; i++) {
        size_t size = i % 20 == 19 ? 600000 : 1 + (i * 7919) % 40000;
        struct kernel next = { .number = i, .size = size, .compressible = i % 3 == 0 };
        missed += put(f, next) != KILN_OK || !holds(f, i);
        after = taken(f) > after ? taken(f) : after;
        differs += usage(f).taken_bytes != taken(f);
    }

    atomic_store(&w.stop, true); /* before any assertion can end this function */
    await_thread(thread, NULL);
    assert_int_equal(missed, 0);
    assert_int_equal(differs, 0);
    assert_in_range(after, limit / 2, limit);
    assert_in_range(w.taken_max, limit / 2, limit);
}

TEST_F(store, the_space_of_evicted_kernels_is_returned_to_the_filesystem)
{
    bool more = true;
    assert_int_equal(reopen(f, SIX), KILN_OK);
    for (unsigned i = 1; i <= 6; i++)
        stored(f, large(i, NOW + i));
    struct digest key;
    for (unsigned i = 1; i <= 4; i++) {
        key = key_of(i);
        assert_int_equal(kernel_store_remove(f->store, &key, &f->err), KILN_OK);
    }

    while (more)
        assert_int_equal(kernel_store_tidy(f->store, &more, &f->err), KILN_OK);

    assert_true(ask(f, "pragma freelist_count") <= 64);
    assert_int_equal(reopen(f, SIX), KILN_OK);
    assert_true(taken(f) < 3 * LARGE + 64 * 4096);
}

TEST(store, an_object_larger_than_the_whole_cache_is_refused)
{
    struct fixture *f = *state;
    assert_int_equal(reopen(f, SIX), KILN_OK);
    stored(f, (struct kernel){ .number = 1, .size = 100 });

    assert_int_equal(put(f, (struct kernel){ .number = 2, .size = 900000 }), KILN_FULL);

    assert_says(f->err.text, "cache_limit");

    assert_true(holds(f, 1));
    struct kernel_health health;
    kernel_store_health(f->store, &health);
    assert_int_equal(health.state, KERNEL_HEALTH_OK);
}

TEST_F(store, with_a_limit_of_zero_every_put_is_refused)
{
    assert_int_equal(reopen(f, 0), KILN_OK);

    assert_int_equal(put(f, (struct kernel){ .number = 1, .size = 1 }), KILN_FULL);
    assert_false(holds(f, 1));
}

TEST_F(store, a_smaller_limit_takes_effect_with_the_next_put)
{
    for (unsigned i = 0; i < 20; i++)
        stored(f, large(i, NOW));
    assert_int_equal(reopen(f, SIX), KILN_OK);

    assert_in_range(stored(f, large(99, NOW)), 14, 15);

    assert_true(holds(f, 99));
    assert_true(taken(f) <= SIX);
}

TEST_F(store, a_changed_limit_applies_from_the_next_put)
{
    assert_int_equal(reopen(f, 16 << 20), KILN_OK);
    for (unsigned i = 0; i < 20; i++)
        stored(f, large(i, NOW));
    kernel_store_set_limits(f->store, SIX, /* quota_bytes_uid= */ 0);

    assert_in_range(stored(f, large(99, NOW)), 14, 15);

    assert_true(taken(f) <= SIX);
    kernel_store_set_limits(f->store, 16 << 20, /* quota_bytes_uid= */ 0);
    assert_int_equal(stored(f, large(100, NOW)), 0);
}

/* A single step that evicts all would block other writes for minutes. With this clock, the first
 * batch of evictions takes a second, so there must be several steps. */
TEST_F(store, a_much_smaller_limit_takes_effect_in_steps)
{
    bool more = true;
    unsigned steps = 0;
    for (unsigned i = 0; i < 7000; i++)
        stored(f, (struct kernel){ .number = i, .size = 64 });
    assert_int_equal(reopen(f, SIX), KILN_OK);
    step_ns = 1000000000;

    assert_int_equal(import(f, (struct kernel){ .number = 9001, .size = 64 }), KILN_BUSY);
    assert_int_equal(put(f, (struct kernel){ .number = 9000, .size = 64 }), KILN_OK);

    step_ns = 0;
    assert_in_range(usage(f).kernels, 7000 - 2 * BATCH, 6998);
    assert_false(holds(f, 9000));
    assert_int_equal(kernel_store_take_notice(f->store, f->notice), KERNEL_NOTICE_TROUBLE);
    assert_says(f->notice, "shrunk");
    for (; more; steps++)
        assert_int_equal(kernel_store_tidy(f->store, &more, &f->err), KILN_OK);
    assert_in_range(steps, 1, 7000);
    assert_true(taken(f) <= SIX);
    assert_false(kernel_store_take_notice(f->store, f->notice));
    stored(f, (struct kernel){ .number = 9000, .size = 64 });
    assert_true(holds(f, 9000));
}

static uint64_t pin(struct fixture *f, unsigned from, unsigned to, bool pinned)
{
    struct digest keys[16];
    uint64_t count = 0;
    keys_of(from, to, keys);
    for (unsigned i = 0; i <= to - from; i++) {
        bool found = false;
        assert_int_equal(kernel_store_pin(f->store, &keys[i], pinned, &found, &f->err), KILN_OK);
        count += found;
    }
    return count;
}

TEST_F(store, pinned_kernels_are_never_evicted)
{
    assert_int_equal(reopen(f, SIX), KILN_OK);
    for (unsigned i = 1; i <= 4; i++)
        stored(f, large(i, NOW + i));
    assert_int_equal(pin(f, 1, 2, true), 2);
    assert_int_equal(pin(f, 50, 52, true), 0);
    assert_int_equal(usage(f).pinned, 2);

    for (unsigned i = 10; i < 30; i++)
        stored(f, large(i, NOW + i));

    assert_true(holds(f, 1));
    assert_true(holds(f, 2));
    assert_false(holds(f, 3));
    assert_int_equal(pin(f, 1, 1, false), 1);
    stored(f, large(99, NOW + 99));
    assert_false(holds(f, 1));
    assert_true(holds(f, 2));
}

TEST_F(store, a_pinned_kernel_that_is_stored_again_stays_pinned)
{
    stored(f, large(1, NOW));
    assert_int_equal(pin(f, 1, 1, true), 1);

    stored(f, (struct kernel){ .number = 1, .size = LARGE, .seed = 99 });

    assert_int_equal(usage(f).pinned, 1);
}

TEST_F(store, a_put_that_would_need_to_evict_pinned_kernels_is_refused)
{
    assert_int_equal(reopen(f, SIX), KILN_OK);
    for (unsigned i = 1; i <= 6; i++) {
        struct kernel k = large(i, NOW + i);
        k.pinned = i != 3;
        stored(f, k);
    }

    assert_int_equal(put(f, (struct kernel){ .number = 7, .size = 300000 }), KILN_FULL);

    assert_says(f->err.text, "488 KiB");
    assert_says(f->err.text, "unpin");
    assert_true(holds(f, 3));
    assert_int_equal(stored(f, large(8, NOW)), 1);
    assert_false(holds(f, 3));
    assert_int_equal(put(f, large(9, NOW)), KILN_OK);
    assert_int_equal(pin(f, 9, 9, true), 1);
    assert_int_equal(put(f, large(10, NOW)), KILN_FULL);
    assert_says(f->err.text, "pinned");
}

TEST_F(store, a_filter_pins_kernels_and_can_exclude_pinned_ones)
{
    uint64_t count = 0, bytes = 0;
    for (unsigned i = 0; i < 1200; i++)
        stored(f,
               (struct kernel){ .number = i, .size = 64, .target = i % 4 ? "gfx906" : "gfx90a" });
    struct kernel_filter some = { .target = "gfx90a" }, rest = { .not_pinned = true };

    assert_int_equal(pin_matching(f, &some, true), 300);
    assert_int_equal(kernel_store_clear(f->store, &rest, &count, &bytes, &f->err), KILN_OK);

    assert_int_equal(count, 900);
    assert_int_equal(usage(f).kernels, 300);
    assert_int_equal(pin_matching(f, &some, false), 300);
    assert_int_equal(usage(f).pinned, 0);
}
