/* SPDX-License-Identifier: MIT */
/* FETCH_NO_CACHE compiles for one request only: the object is neither stored nor kept hot. */
#include "tests/unit/engine/service/users_fixture.h"

#include <string.h>

static void fetch_uncached(struct users *f, struct test_caller *c, uint64_t id)
{
    struct message_fetch_source m = {
        .flags = FETCH_NO_CACHE,
        .inline_limit = 100,
        .target = bytes_of_text(FIXTURE_TARGET),
        .program = bytes_of_text("k.cl"),
        .source = bytes_of_text("kernel void k() {}"),
    };
    SEND_MESSAGE(c, fetch_source, id, &m);
    fake_executor_run_tasks(&f->engine.executor);
}

TEST_F(users, a_fetch_without_cache_compiles_each_time_and_stores_nothing)
{
    fetch_uncached(f, &f->ann, 1);
    finish_compile(f, "first");
    fetch_uncached(f, &f->ann, 2);
    finish_compile(f, "second");
    assert_true(bytes_equal_text(reply_result(&f->ann, 0).content, "first"));
    assert_true(bytes_equal_text(reply_result(&f->ann, 1).content, "second"));
    assert_int_equal(reply_result(&f->ann, 1).tier, TIER_COMPILED);
    assert_int_equal(users_stat(f, "compiles"), 2);
    assert_int_equal(users_stat(f, "store_objects"), 0);
    assert_int_equal(users_stat(f, "hot_objects"), 0);
}

TEST_F(users, a_fetch_without_cache_uses_no_hot_or_stored_kernel)
{
    fetch_program(&f->ann, 1, "k.cl");
    finish_compile(f, "stored");
    fetch_uncached(f, &f->ann, 2);
    finish_compile(f, "fresh");
    assert_true(bytes_equal_text(reply_result(&f->ann, 1).content, "fresh"));
    fetch_program(&f->ann, 3, "k.cl");
    assert_int_equal(reply_result(&f->ann, 2).tier, TIER_HOT);
    assert_int_equal(f->ann.replies[2].first_object_size, strlen("stored"));
}

TEST_F(users, a_fetch_without_cache_joins_no_other_and_no_other_joins_it)
{
    fetch_uncached(f, &f->ann, 1);
    fetch_program(&f->bob, 1, "k.cl");
    fetch_uncached(f, &f->bob, 2);
    assert_int_equal(users_stat(f, "coalesced"), 0);
    assert_int_equal(users_stat(f, "queued"), 2);
    finish_compile(f, "without cache");
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->bob.reply_count, 0);
    finish_compile(f, "one");
    finish_compile(f, "two");
    assert_int_equal(f->bob.reply_count, 2);
    assert_int_equal(users_stat(f, "store_objects"), 1);
}

TEST_F(users, concurrent_look_ups_do_not_disturb_a_fetch_without_cache)
{
    fetch_uncached(f, &f->ann, 1);
    finish_compile(f, "first");
    struct message_fetch m = { .key = reply_result(&f->ann, 0).key, .inline_limit = 100 };
    for (uint8_t i = 0; i < 16; i++) {
        m.key.bytes[DIGEST_SIZE - 1] ^= i;
        SEND_MESSAGE(&f->bob, fetch, i + 1u, &m);
        m.key.bytes[DIGEST_SIZE - 1] ^= i;
    }
    fetch_uncached(f, &f->ann, 2);
    finish_compile(f, "second");
    assert_int_equal(f->bob.reply_count, 16);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(reply_result(&f->bob, i).code, KILN_NOT_FOUND);
    assert_true(bytes_equal_text(reply_result(&f->ann, 1).content, "second"));
    assert_int_equal(users_stat(f, "coalesced"), 0);
}

TEST_F(users, a_fetch_without_cache_neither_uses_nor_adds_failures)
{
    fetch_uncached(f, &f->ann, 1);
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "it does not compile", NULL);
    fetch_program(&f->ann, 2, "k.cl");
    assert_int_equal(f->ann.reply_count, 1);
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "it does not compile", NULL);
    fetch_uncached(f, &f->ann, 3);
    finish_compile(f, "this time it does");
    assert_int_equal(reply_result(&f->ann, 2).code, KILN_OK);
    fetch_program(&f->ann, 4, "k.cl");
    assert_int_equal(reply_result(&f->ann, 3).code, KILN_COMPILE_FAILED);
    assert_int_equal(users_stat(f, "remembered_failures"), 1);
}

TEST_F(users, a_client_that_leaves_removes_its_compiles_without_cache_from_the_queue)
{
    fetch_uncached(f, &f->bob, 1);
    fetch_uncached(f, &f->ann, 1);
    fetch_uncached(f, &f->ann, 2);
    assert_int_equal(users_stat(f, "queued"), 2);
    test_caller_leave(&f->ann);
    assert_int_equal(users_stat(f, "queued"), 0);
    finish_compile(f, "object");
    assert_int_equal(f->bob.reply_count, 1);
    assert_int_equal(users_stat(f, "queued_bytes"), 0);
}

static void what_a_plan_needs_is_kilns_own(struct users *f)
{
    const struct compile_task *next = fake_executor_next_compile(&f->engine.executor);
    assert_non_null(next);
    assert_int_equal(next->job.origin, COMPILE_OF_KILN);
}

TEST_F(users, a_plan_without_cache_is_compiled_for_its_client_alone)
{
    struct message_plan m = { .problem = small_problem(8),
                              .inline_limit = 100,
                              .target = bytes_of_text(FIXTURE_TARGET) };
    send_plan(&f->ann, 1, &m);
    what_a_plan_needs_is_kilns_own(f);
    finish_compile(f, "stored");
    m.flags = FETCH_NO_CACHE;
    send_plan(&f->ann, 2, &m);
    what_a_plan_needs_is_kilns_own(f);
    finish_compile(f, "fresh");
    assert_int_equal(planned_result(&f->ann, 1).tier, TIER_COMPILED);
    assert_true(bytes_equal_text(planned_result(&f->ann, 1).content, "fresh"));
    m.flags = 0;
    send_plan(&f->ann, 3, &m);
    assert_true(bytes_equal_text(planned_result(&f->ann, 2).content, "stored"));
}
