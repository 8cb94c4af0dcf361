/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "engine/service/budget.h"
#include "engine/service/internal.h"
#include "tests/support/stepped_clock.h"
#include "tests/unit/engine/service/users_fixture.h"

#include <string.h>

#define ITEMS 200u
#define LIMIT (100u << 10)

SET_UP_OF(setup, struct users) { users_open(f, /* describe= */ true); }

TEAR_DOWN_OF(teardown, struct users)
{
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(budget_taken(f->engine.engine->budget), 0);
}

FIXTURE_OF(admission, struct users, setup, teardown);

static uint64_t charged(const struct users *f) { return budget_taken(f->engine.engine->budget); }

static void send_lookups(struct test_caller *c, uint64_t id, uint32_t count)
{
    BUFFER_AUTO struct buffer items;
    buffer_init(&items, 1u << 20);
    for (uint32_t i = 0; i < count; i++) {
        struct message_fetch m = { .key = { { 1 } } };
        const uint64_t which[] = { id, i };
        memcpy(m.key.bytes + 1, which, sizeof(which));
        PUT_BATCH_ITEM(&items, 0, fetch, &m);
    }
    const struct message_batch batch = { .count = count, .items = buffer_view(&items) };
    SEND_MESSAGE(c, batch, id, &batch);
}

struct counts {
    unsigned found, missed, busy, frames_last;
};

static struct counts count_results(const struct test_caller *c)
{
    struct counts counts = { 0 };
    for (size_t i = 0; i < c->reply_count; i++) {
        struct reader r = reader_of(c->replies[i].body);
        struct message_kernels m = message_kernels_read(&r);
        struct reader results = reader_of(m.results);
        counts.frames_last += !(c->replies[i].flags & FRAME_MORE);
        for (uint32_t k = 0; k < m.count; k++) {
            enum kiln_code code = message_result_read(&results).code;
            counts.found += code == KILN_OK;
            counts.missed += code == KILN_NOT_FOUND;
            counts.busy += code == KILN_BUSY;
        }
    }
    return counts;
}

TEST_F(admission, lookups_of_a_batch_are_charged_until_they_are_answered)
{
    send_lookups(&f->ann, 1, ITEMS);
    assert_true(charged(f) >= ITEMS * (sizeof(struct deferred) + 1024));

    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(charged(f), 0);
    struct counts counts = count_results(&f->ann);
    assert_int_equal(counts.missed, ITEMS);
    assert_int_equal(counts.frames_last, 1);
}

TEST_F(admission, misses_of_a_batch_share_frames)
{
    send_lookups(&f->ann, 1, ITEMS);
    fake_executor_run_tasks(&f->engine.executor);
    assert_true(f->ann.reply_count <= 3);
}

TEST_F(admission, a_client_that_leaves_gives_back_all_charges_at_once)
{
    send_lookups(&f->ann, 1, ITEMS);
    test_caller_fetch_source(&f->ann, 2, "k.cl", PRIORITY_INTERACTIVE);
    test_caller_send(&f->ann, MESSAGE_stats, 3, bytes_of_text("{}"));
    fake_executor_begin_task(&f->engine.executor);

    test_caller_leave(&f->ann);

    assert_int_equal(count_tasks(f), 0);
    assert_true(charged(f) <= 4096); /* only the running look-up is still charged */
}

TEST_F(admission, a_cancelled_batch_gives_back_all_charges)
{
    send_lookups(&f->ann, 1, ITEMS);
    test_caller_cancel(&f->ann, 1);
    assert_int_equal(charged(f), 0);
    assert_int_equal(count_tasks(f), 0);
}

static void limit_bytes(struct users *f)
{
    f->engine.options.queue_bytes_uid = LIMIT;
    users_reopen(f);
}

static void send_hot(struct test_caller *c, const struct digest *key, uint32_t count)
{
    BUFFER_AUTO struct buffer items;
    buffer_init(&items, 1u << 20);
    const struct message_fetch m = { .key = *key };
    for (uint32_t i = 0; i < count; i++)
        PUT_BATCH_ITEM(&items, 0, fetch, &m);
    const struct message_batch batch = { .count = count, .items = buffer_view(&items) };
    SEND_MESSAGE(c, batch, 7, &batch);
}

static struct message_result first_result(const struct test_caller *c)
{
    struct reader r = reader_of(c->replies[0].body);
    struct reader results = reader_of(message_kernels_read(&r).results);
    return message_result_read(&results);
}

TEST_F(admission, items_beyond_the_users_budget_are_busy_and_the_others_are_answered)
{
    limit_bytes(f);
    send_lookups(&f->ann, 1, ITEMS);
    assert_true(charged(f) <= LIMIT);
    struct message_result first = first_result(&f->ann);
    KILN_AUTO(mem) char *text = bytes_to_text(first.text);
    assert_int_equal(first.code, KILN_BUSY);
    assert_says(text, "user 1000");
    assert_says(text, "queue_bytes_per_uid");
    assert_says(text, "try again");

    fake_executor_run_tasks(&f->engine.executor);

    struct counts counts = count_results(&f->ann);
    assert_int_equal(counts.busy + counts.missed, ITEMS);
    assert_true(counts.missed >= LIMIT / (2 * 5120));
    assert_int_equal(counts.frames_last, 1);
}

TEST_F(admission, a_user_at_the_limit_still_gets_hot_kernels)
{
    limit_bytes(f);
    struct digest key = compile_program(&f->ann, "hot.cl");
    send_lookups(&f->ann, 1, ITEMS);
    test_caller_forget_replies(&f->ann);
    for (uint64_t id = 2; id < 20; id++) {
        struct message_fetch m = { .key = { { 2, (uint8_t)id } } };
        SEND_MESSAGE(&f->ann, fetch, id, &m);
    }
    test_caller_forget_replies(&f->ann);
    const struct message_fetch m = { .key = key };

    SEND_MESSAGE(&f->ann, fetch, 30, &m);

    assert_int_equal(reply_result(&f->ann, 0).code, KILN_OK);
}

TEST_F(admission, a_user_at_the_limit_does_not_limit_others)
{
    limit_bytes(f);
    send_lookups(&f->ann, 1, ITEMS);
    send_lookups(&f->bob, 1, 10);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(count_results(&f->bob).missed, 10);
}

TEST_F(admission, users_who_hold_much_leave_something_to_those_who_come)
{
    f->engine.options.queue_bytes = 4u * LIMIT;
    limit_bytes(f);
    struct test_caller *greedy[] = { &f->ann, &f->publisher, &f->admin };
    for (unsigned i = 0; i < 3; i++)
        send_lookups(greedy[i], 1, ITEMS);
    struct test_caller fourth;
    test_caller_connect(&fourth, &f->engine, 1003, ROLE_USE);
    send_lookups(&fourth, 1, ITEMS);

    send_lookups(&f->bob, 1, 2);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(count_results(&f->bob).missed, 2);
    test_caller_leave(&fourth);
}

TEST_F(admission, a_large_batch_runs_in_slices)
{
    step_clock(1000000);
    send_lookups(&f->ann, 1, ITEMS);
    assert_true(count_tasks(f) > 0 && count_tasks(f) < ITEMS);

    fake_executor_run_tasks(&f->engine.executor);

    struct counts counts = count_results(&f->ann);
    assert_int_equal(counts.missed, ITEMS);
    assert_int_equal(counts.frames_last, 1);
}

TEST_F(admission, a_client_that_leaves_between_two_slices_leaves_nothing)
{
    step_clock(1000000);
    send_lookups(&f->ann, 1, ITEMS);
    assert_true(count_tasks(f) < ITEMS);

    test_caller_leave(&f->ann);

    assert_int_equal(count_tasks(f), 0);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(charged(f), 0);
}

TEST_F(admission, a_batch_without_budget_for_its_rest_ends_at_once)
{
    limit_bytes(f);
    step_clock(1000000);
    send_lookups(&f->ann, 1, ITEMS);
    fake_executor_run_tasks(&f->engine.executor);
    struct counts counts = count_results(&f->ann);
    assert_int_equal(counts.busy + counts.missed, ITEMS);
    assert_int_equal(counts.frames_last, 1);
}

TEST_F(admission, a_batch_without_budget_for_its_rest_is_refused_after_a_slice)
{
    const uint32_t count = 4096; /* their results take more than LIMIT bytes */
    limit_bytes(f);
    struct digest key = compile_program(&f->ann, "hot.cl");
    test_caller_forget_replies(&f->ann);
    step_clock(1000000);

    send_hot(&f->ann, &key, count);

    struct counts counts = count_results(&f->ann);
    assert_in_range(counts.found, 1, 64);
    assert_int_equal(counts.found + counts.busy, count);
    assert_int_equal(counts.frames_last, 1);
}

TEST_F(admission, a_kernel_for_which_many_wait_is_delivered_in_slices)
{
    const uint32_t count = 4096;
    BUFFER_AUTO struct buffer items;
    buffer_init(&items, 1u << 20);
    const struct message_fetch_source m = { .target = bytes_of_text(FIXTURE_TARGET),
                                            .program = bytes_of_text("k.cl"),
                                            .source = bytes_of_text("kernel") };
    for (uint32_t i = 0; i < count; i++)
        PUT_BATCH_ITEM(&items, 1, fetch_source, &m);
    const struct message_batch batch = { .count = count, .items = buffer_view(&items) };
    SEND_MESSAGE(&f->ann, batch, 1, &batch);
    fake_executor_run_tasks(&f->engine.executor);
    fake_executor_compile(&f->engine.executor, bytes_of_text("object"));
    fake_executor_begin_task(&f->engine.executor);
    unsigned laters = f->engine.executor.laters;

    fake_executor_run_tasks(&f->engine.executor);

    assert_true(f->engine.executor.laters >= laters + 2);
    struct counts counts = count_results(&f->ann);
    assert_int_equal(counts.found, count);
    assert_int_equal(counts.frames_last, 1);
}

#define OBJECT_SIZE (60u << 10) /* LIMIT has space for one object, but not for two */

static void end_compile(struct users *f)
{
    static const uint8_t object[OBJECT_SIZE] = { 1 };
    assert_non_null(fake_executor_next_compile(&f->engine.executor));
    fake_executor_compile(&f->engine.executor, bytes_of(object, sizeof(object)));
}

static void compile_both(struct users *f, struct test_caller *a, struct test_caller *b)
{
    fake_executor_run_tasks(&f->engine.executor);
    test_caller_fetch_source(a, 1, "one.cl", PRIORITY_INTERACTIVE);
    test_caller_fetch_source(b, 2, "two.cl", PRIORITY_INTERACTIVE);
    for (unsigned i = 0; i < 2; i++)
        fake_executor_run_task(&f->engine.executor);
    end_compile(f);
    end_compile(f);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(last_result(a).code, KILN_OK);
    assert_int_equal(last_result(b).code, KILN_OK);
    assert_int_equal(users_stat(f, "puts"), 2);
}

TEST_F(admission, results_that_wait_to_be_stored_are_charged_to_their_user)
{
    limit_bytes(f);
    compile_both(f, &f->ann, &f->ann);
    assert_int_equal(users_stat(f, "puts_kept"), 1);
    assert_int_equal(users_stat(f, "puts_lost"), 1);
    const char *text = engine_fixture_reported(&f->engine, "store_error");
    assert_non_null(text);
    assert_says(text, "user 1000");

    fetch_program(&f->ann, 3, "three.cl");
    end_compile(f);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(users_stat(f, "puts_kept"), 2);
}

TEST_F(admission, results_of_another_user_are_stored)
{
    limit_bytes(f);
    compile_both(f, &f->ann, &f->bob);
    assert_int_equal(users_stat(f, "puts_kept"), 2);
    assert_null(engine_fixture_reported(&f->engine, "store_error"));
}
