/* SPDX-License-Identifier: MIT */
#include "tests/support/test_buffer.h"
#include "tests/unit/engine/service/users_fixture.h"

#include <stdio.h>
#include <string.h>

/* number of stored kernels; request_fetch.c reads the clock only after more look-ups */
#define STORED 12
#define ID 77

struct fixture {
    struct users users;
    struct digest keys[STORED];
    struct buffer items;
    uint32_t count;
    uint32_t answered, failed;
    size_t read;
};

SET_UP(set_up)
{
    char program[32];
    users_open(&f->users, /* describe= */ true);
    for (unsigned i = 0; i < STORED; i++) {
        snprintf(program, sizeof(program), "kernel-%u.cl", i);
        f->keys[i] = compile_program(&f->users.ann, program);
    }
    users_reopen(&f->users); /* empties the hot set */
    test_buffer(&f->items, 1u << 20);
}

FIXTURE(batch, set_up, NULL);

static void put_key(struct fixture *f, const struct digest *key, uint32_t inline_limit)
{
    struct message_fetch m = { .key = *key, .inline_limit = inline_limit };
    PUT_BATCH_ITEM(&f->items, 0, fetch, &m);
    f->count++;
}

static void put_source(struct fixture *f, const char *program)
{
    struct message_fetch_source m = { .target = bytes_of_text(FIXTURE_TARGET),
                                      .program = bytes_of_text(program),
                                      .source = bytes_of_text("kernel void k() {}") };
    PUT_BATCH_ITEM(&f->items, 1, fetch_source, &m);
    f->count++;
}

static void send_batch(struct fixture *f)
{
    struct message_batch m = { .count = f->count, .items = buffer_view(&f->items) };
    SEND_MESSAGE(&f->users.ann, batch, ID, &m);
}

static void look_up(struct fixture *f, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_true(fake_executor_run_task(&f->users.engine.executor));
}

static uint32_t read_reply(struct fixture *f, bool last)
{
    assert_true(f->read < f->users.ann.reply_count);
    const struct kept_reply *reply = &f->users.ann.replies[f->read++];
    assert_int_equal(reply->type, MESSAGE_kernels);
    assert_int_equal(reply->request_id, ID);
    assert_int_equal(reply->flags, last ? 0 : FRAME_MORE);
    struct reader r = reader_of(reply->body);
    struct message_kernels m = message_kernels_read(&r);
    struct reader results = reader_of(m.results);
    for (uint32_t k = 0; k < m.count; k++) {
        struct message_result o = message_result_read(&results);
        f->answered++;
        f->failed += o.code != KILN_OK;
    }
    assert_false(r.failed || results.failed);
    return m.count;
}

TEST_F(batch, kernels_found_in_one_loop_iteration_share_a_frame)
{
    for (unsigned i = 0; i < STORED; i++)
        put_key(f, &f->keys[i], i % 2 ? LIMIT_INLINE_OBJECT : 0);
    send_batch(f);
    assert_int_equal(f->users.ann.reply_count, 0);
    look_up(f, STORED);

    assert_int_equal(f->users.ann.reply_count, 1);
    assert_int_equal(read_reply(f, true), STORED);
    /* The other half of the objects is inline. */
    assert_int_equal(f->users.ann.replies[0].object_count, STORED / 2);
    assert_int_equal(f->failed, 0);
    assert_int_equal(engine_fixture_stat(&f->users.engine, "hits.disk"), STORED);
}

TEST_F(batch, kernels_found_on_disk_are_sent_at_the_end_of_the_loop_iteration)
{
    for (unsigned i = 0; i < 4; i++)
        put_key(f, &f->keys[i], LIMIT_INLINE_OBJECT);
    put_source(f, "cold.cl");
    send_batch(f);
    look_up(f, 3);
    assert_int_equal(f->users.ann.reply_count, 0);
    look_up(f, 2);
    assert_int_equal(f->users.ann.reply_count, 0);

    /* ends the loop iteration, because no task is left */
    assert_true(fake_executor_run_task(&f->users.engine.executor));

    assert_int_equal(f->users.ann.reply_count, 1);
    assert_int_equal(read_reply(f, false), 4);
    fake_executor_compile(&f->users.engine.executor, bytes_of_text("cold"));
    fake_executor_run_tasks(&f->users.engine.executor);
    assert_int_equal(read_reply(f, true), 1);
    assert_int_equal(f->answered, 5);
    assert_int_equal(f->users.engine.executor.laters, 1);
}

#define LARGE_OBJECT (3u << 20)

TEST_F(batch, a_large_compiled_kernel_is_stored_in_steps)
{
    const unsigned *tasks = f->users.engine.executor.tasks_of;
    void *content = calloc(1, LARGE_OBJECT);
    assert_non_null(content);
    test_caller_fetch_source(&f->users.ann, 1, "large.cl", PRIORITY_INTERACTIVE);
    fake_executor_run_tasks(&f->users.engine.executor);
    const unsigned writes = tasks[WORK_QUEUE_WRITE];

    fake_executor_compile(&f->users.engine.executor, bytes_of(content, LARGE_OBJECT));
    fake_executor_run_tasks(&f->users.engine.executor);

    assert_true(tasks[WORK_QUEUE_WRITE] - writes >= LARGE_OBJECT / KERNEL_PIECE_MAX);
    assert_int_equal(last_result(&f->users.ann).code, KILN_OK);
    free(content);
}

TEST_F(batch, a_failed_item_is_sent_with_the_results_that_are_ready)
{
    put_source(f, "bad.cl");
    put_key(f, &f->keys[0], LIMIT_INLINE_OBJECT);
    put_source(f, "cold.cl");
    send_batch(f);
    look_up(f, 2);
    fake_executor_fail(&f->users.engine.executor, COMPILE_REFUSED, "it does not compile", "line 7");

    assert_int_equal(read_reply(f, false), 2);
    assert_int_equal(f->failed, 1);
    look_up(f, 2);
    assert_int_equal(f->users.ann.reply_count, 1);
}

TEST_F(batch, a_miss_is_sent_at_the_end_of_the_loop_iteration)
{
    static const struct digest nowhere = { { 1, 2, 3 } };
    put_key(f, &f->keys[0], LIMIT_INLINE_OBJECT);
    put_key(f, &nowhere, LIMIT_INLINE_OBJECT);
    put_source(f, "cold.cl");
    send_batch(f);
    look_up(f, 3);
    assert_int_equal(f->users.ann.reply_count, 0);

    assert_true(fake_executor_run_task(&f->users.engine.executor));

    assert_int_equal(read_reply(f, false), 2);
    assert_int_equal(f->failed, 1);
}

TEST_F(batch, a_kernel_that_a_batch_names_twice_is_answered_twice)
{
    put_key(f, &f->keys[0], 0);
    put_key(f, &f->keys[0], LIMIT_INLINE_OBJECT);
    send_batch(f);
    look_up(f, 1);
    assert_int_equal(read_reply(f, true), 2);
    assert_int_equal(f->users.ann.replies[0].object_count, 1);
}

TEST_F(batch, a_client_that_leaves_within_a_loop_iteration_leaves_no_reply)
{
    for (unsigned i = 0; i < 3; i++)
        put_key(f, &f->keys[i], 0);
    send_batch(f);
    look_up(f, 2);
    test_caller_leave(&f->users.ann);
    fake_executor_run_tasks(&f->users.engine.executor);
    assert_int_equal(f->users.ann.reply_count, 0);
    test_caller_connect(&f->users.ann, &f->users.engine, 1000, ROLE_USE);
    assert_int_equal(f->users.ann.base.in_flight, 0);
}

TEST_F(batch, a_batch_cancelled_within_a_loop_iteration_ends_once)
{
    for (unsigned i = 0; i < 3; i++)
        put_key(f, &f->keys[i], 0);
    send_batch(f);
    look_up(f, 2);
    test_caller_cancel(&f->users.ann, ID);
    fake_executor_run_tasks(&f->users.engine.executor);
    assert_reply_refuses(&f->users.ann, 0, KILN_CANCELLED, "");
    assert_int_equal(f->users.ann.reply_count, 1);
    assert_int_equal(f->users.ann.base.in_flight, 0);
}
