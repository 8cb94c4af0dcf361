/* SPDX-License-Identifier: MIT */
#include "daemon/workers/warmup.h"

#include "tests/support/test.h"

#define WINDOW 100

static struct warmup_need need_of(unsigned under_way, uint64_t now)
{
    struct warmup_need need = { .window_ns = WINDOW };
    const struct compile_job job = { .toolchain = bytes_of_text("hiprtc"),
                                     .target = bytes_of_text("gfx942") };
    warmup_note(&need, &job, under_way, now);
    return need;
}

static void note_source(struct warmup_need *need, unsigned under_way, uint64_t now)
{
    const struct compile_job job = { .toolchain = bytes_of_text("clang"),
                                     .target = bytes_of_text("gfx90a") };
    warmup_note(need, &job, under_way, now);
}

TEST(plain, no_warm_worker_is_wanted_before_the_first_source)
{
    struct warmup_need need = { .window_ns = WINDOW };
    assert_int_equal(warmup_wanted(&need, 5000), 0);
}

TEST(plain, the_peak_of_this_and_the_previous_window_is_wanted)
{
    struct warmup_need need = need_of(7, 1000);
    assert_int_equal(warmup_wanted(&need, 1000), 7);
    note_source(&need, 3, 1000 + WINDOW - 1);
    assert_int_equal(warmup_wanted(&need, 1000 + WINDOW - 1), 7);
    note_source(&need, 3, 1000 + WINDOW);
    assert_int_equal(warmup_wanted(&need, 1000 + 2 * WINDOW - 1), 7);
    assert_int_equal(warmup_wanted(&need, 1000 + 2 * WINDOW), 3);
}

TEST(plain, one_warm_worker_stays_wanted_without_new_sources)
{
    struct warmup_need need = need_of(7, 1000);
    assert_int_equal(warmup_wanted(&need, 1000 + 2 * WINDOW), 1);
    assert_int_equal(warmup_wanted(&need, 1000 + 900 * WINDOW), 1);
    note_source(&need, 2, 1000 + 900 * WINDOW);
    assert_int_equal(warmup_wanted(&need, 1000 + 900 * WINDOW), 2);
}

TEST(plain, the_warm_up_is_for_the_toolchain_of_the_last_source)
{
    struct warmup_need need = need_of(1, 1000);
    struct warmup p;
    note_source(&need, 1, 1000);
    warmup_make(&need, &p);
    assert_int_equal(p.task.job.kind, COMPILE_PROBE);
    assert_int_equal(p.task.job.origin, COMPILE_OF_KILN);
    assert_true(bytes_equal_text(p.task.job.toolchain, "clang"));
    assert_true(bytes_equal_text(p.task.job.target, "gfx90a"));
}

static void fail_at(struct warmup_need *need, uint64_t now)
{
    struct warmup p;
    warmup_make(need, &p);
    warmup_failed(need, &p, now);
}

TEST(plain, a_failed_warm_up_is_not_repeated_within_the_window)
{
    struct warmup_need need = need_of(2, 1000); /* hiprtc */
    fail_at(&need, 1000);
    assert_int_equal(warmup_wanted(&need, 1000), 0);
    note_source(&need, 2, 1001); /* clang */
    assert_int_equal(warmup_wanted(&need, 1001), 2);
    struct compile_job again = { .toolchain = bytes_of_text("hiprtc"),
                                 .target = bytes_of_text("gfx90a") };
    warmup_note(&need, &again, 2, 1000 + WINDOW - 1);
    assert_int_equal(warmup_wanted(&need, 1000 + WINDOW - 1), 0);
    assert_int_equal(warmup_wanted(&need, 1000 + WINDOW), 2);
}

TEST(plain, a_compiler_that_was_upgraded_since_it_failed_is_wanted)
{
    struct warmup_need need = need_of(1, 1000);
    fail_at(&need, 1000);
    struct compile_job upgraded = { .toolchain = bytes_of_text("hiprtc"),
                                    .target = bytes_of_text("gfx942"),
                                    .toolchain_id.bytes[0] = 7 };
    warmup_note(&need, &upgraded, 1, 1001);
    assert_int_equal(warmup_wanted(&need, 1001), 1);
}

TEST(plain, a_postponed_warm_up_is_wanted_by_the_next_source)
{
    struct warmup_need need = need_of(3, 1000);
    warmup_put_off(&need);
    assert_int_equal(warmup_wanted(&need, 1000), 0);
    note_source(&need, 1, 1001);
    assert_int_equal(warmup_wanted(&need, 1001), 3);
}
