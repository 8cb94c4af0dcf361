/* SPDX-License-Identifier: MIT */
#include "tests/support/stepped_clock.h"
#include "tests/unit/engine/service/users_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static void fetch_key(struct users *f, struct test_caller *c, uint64_t id, const struct digest *key,
                      uint32_t inline_limit)
{
    struct message_fetch m = { .key = *key, .inline_limit = inline_limit };
    SEND_MESSAGE(c, fetch, id, &m);
    fake_executor_run_tasks(&f->engine.executor);
}

TEST_F(users, many_requests_for_a_cold_kernel_cost_one_compile)
{
    for (uint64_t id = 0; id < 4; id++) {
        fetch_program(&f->ann, id, "k.cl");
        fetch_program(&f->admin, id, "k.cl");
    }
    assert_int_equal(f->engine.executor.compiles_handed_over, 2);
    finish_compile(f, "object");
    assert_int_equal(f->ann.reply_count, 4);
    assert_int_equal(f->admin.reply_count, 4);
    assert_int_equal(reply_result(&f->admin, 3).tier, TIER_COMPILED);
    assert_int_equal(f->admin.replies[3].object_count, 1);
    assert_int_equal(f->admin.replies[3].first_object_size, 6);
    assert_int_equal(users_stat(f, "compiles"), 1);
    assert_int_equal(users_stat(f, "fetches"), 8);
    assert_int_equal(users_stat(f, "coalesced"), 7);
    assert_int_equal(users_stat(f, "misses"), 8);
}

TEST_F(users, a_compiled_kernel_is_hot_and_after_a_restart_on_disk)
{
    fetch_program(&f->ann, 1, "k.cl");
    finish_compile(f, "object");
    fetch_program(&f->ann, 2, "k.cl");
    assert_int_equal(reply_result(&f->ann, 1).tier, TIER_HOT);
    assert_int_equal(users_stat(f, "hits.hot"), 1);

    users_reopen(f);
    fetch_program(&f->ann, 3, "k.cl");
    assert_int_equal(reply_result(&f->ann, 0).tier, TIER_DISK);
    assert_int_equal(users_stat(f, "hits.disk"), 1);
    assert_int_equal(users_stat(f, "compiles"), 0);
}

TEST_F(users, a_key_alone_never_compiles)
{
    struct digest nowhere = { { 1, 2, 3 } };
    fetch_key(f, &f->ann, 1, &nowhere, 0);
    assert_int_equal(reply_result(&f->ann, 0).code, KILN_NOT_FOUND);
    assert_int_equal(users_stat(f, "misses"), 1);
    assert_int_equal(users_stat(f, "compiles"), 0);
}

static void ask_for_key(struct test_caller *c, uint64_t id, const struct digest *key)
{
    struct message_fetch m = { .key = *key };
    SEND_MESSAGE(c, fetch, id, &m);
}

TEST_F(users, a_lookup_that_waits_vanishes_when_its_last_client_leaves)
{
    struct digest nowhere = { { 1, 2, 3 } };
    ask_for_key(&f->ann, 1, &nowhere);
    ask_for_key(&f->bob, 1, &nowhere);
    assert_int_equal(count_tasks(f), 1);

    test_caller_leave(&f->ann);
    assert_int_equal(count_tasks(f), 1);
    test_caller_leave(&f->bob);

    assert_int_equal(count_tasks(f), 0);
    assert_int_equal(f->engine.executor.tasks_cancelled_of[WORK_QUEUE_READ], 1);
}

TEST_F(users, a_lookup_that_runs_ends_although_its_client_left)
{
    struct digest nowhere = { { 1, 2, 3 } };
    ask_for_key(&f->ann, 1, &nowhere);
    fake_executor_begin_task(&f->engine.executor);

    test_caller_leave(&f->ann);

    assert_int_equal(f->engine.executor.tasks_cancelled_of[WORK_QUEUE_READ], 0);
    fake_executor_run_tasks(&f->engine.executor);
    fetch_key(f, &f->bob, 1, &nowhere, 0);
    assert_int_equal(reply_result(&f->bob, 0).code, KILN_NOT_FOUND);
}

TEST_F(users, work_is_queued_as_that_of_the_user_who_asked)
{
    struct digest nowhere = { { 1, 2, 3 } };
    fake_executor_run_tasks(&f->engine.executor);
    ask_for_key(&f->bob, 1, &nowhere);
    test_caller_send(&f->ann, MESSAGE_stats, 1, bytes_of_text("{}"));
    uid_t uids[2] = { 0 };
    unsigned count = 0;
    LIST_EACH (&f->engine.executor.tasks, const struct task, item.link, task)
        uids[count++] = task->uid;
    assert_int_equal(count, 2);
    assert_int_equal(uids[0], 1001);
    assert_int_equal(uids[1], 1000);
}

TEST_F(users, an_object_is_inline_only_up_to_the_requested_limit)
{
    fetch_program(&f->ann, 1, "k.cl");
    finish_compile(f, "object");
    struct digest key = reply_result(&f->ann, 0).key;
    fetch_key(f, &f->ann, 2, &key, 6);
    assert_true(bytes_equal_text(reply_result(&f->ann, 1).content, "object"));
    assert_int_equal(f->ann.replies[1].object_count, 0);
    assert_int_equal(reply_result(&f->ann, 1).descriptor, NO_DESCRIPTOR);
    fetch_key(f, &f->ann, 3, &key, 5);
    assert_int_equal(reply_result(&f->ann, 2).content.size, 0);
    assert_int_equal(f->ann.replies[2].object_count, 1);
    assert_int_equal(reply_result(&f->ann, 2).descriptor, 0);
}

TEST_F(users, a_failed_compile_is_remembered_with_its_log)
{
    fetch_program(&f->ann, 1, "bad.cl");
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "it does not compile", "line 7");
    fetch_program(&f->ann, 2, "bad.cl");
    assert_int_equal(f->engine.executor.compiles_handed_over, 2);
    for (size_t i = 0; i < 2; i++) {
        struct message_result o = reply_result(&f->ann, i);
        assert_int_equal(o.code, KILN_COMPILE_FAILED);
        assert_true(bytes_equal_text(o.text, "it does not compile"));
        assert_true(bytes_equal_text(o.log, "line 7"));
    }
    assert_int_equal(users_stat(f, "compile_errors"), 1);
    assert_int_equal(users_stat(f, "remembered_failures"), 1);
}

TEST_F(users, clearing_forgets_failures_and_empties_the_hot_set)
{
    fetch_program(&f->ann, 1, "bad.cl");
    fake_executor_fail(&f->engine.executor, COMPILE_CRASHED, "it crashed", NULL);
    fetch_program(&f->ann, 2, "good.cl");
    finish_compile(f, "object");
    test_caller_send(&f->admin, MESSAGE_clear, 9, bytes_of_text("{\"all\":true}"));
    fake_executor_run_tasks(&f->engine.executor);
    KILN_AUTO(mem) char *answer = bytes_to_text(f->admin.replies[0].body);
    assert_says(answer, "\"kernels\":1,");
    assert_says(answer, "\"dry_run\":false");
    assert_int_equal(users_stat(f, "store_objects"), 0);
    assert_int_equal(users_stat(f, "hot_objects"), 0);
    fetch_program(&f->ann, 3, "bad.cl");
    finish_compile(f, "object");
    assert_int_equal(reply_result(&f->ann, 2).code, KILN_OK);
}

TEST_F(users, a_failure_for_want_of_a_compiler_is_not_remembered)
{
    fetch_program(&f->ann, 1, "k.cl");
    fake_executor_fail(&f->engine.executor, COMPILE_UNAVAILABLE, "no worker starts", NULL);
    assert_int_equal(reply_result(&f->ann, 0).code, KILN_UNAVAILABLE);
    fetch_program(&f->ann, 2, "k.cl");
    finish_compile(f, "object");
    assert_int_equal(reply_result(&f->ann, 1).code, KILN_OK);
    assert_int_equal(users_stat(f, "compile_errors"), 0);
}

/* Makes each write beyond |most| bytes of a file fail, as on a full disk. */
static void limit_files(rlim_t most)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST_F(users, a_full_disk_fails_no_fetch)
{
    signal(SIGXFSZ, SIG_IGN);
    limit_files(4096);
    fetch_program(&f->ann, 1, "k.cl");
    limit_files(RLIM_INFINITY);
    finish_compile(f, "object");
    limit_files(4096);
    fetch_program(&f->ann, 2, "other.cl");
    finish_compile(f, "other");
    limit_files(RLIM_INFINITY);
    assert_int_equal(reply_result(&f->ann, 1).code, KILN_OK);
    assert_int_equal(users_stat(f, "store_errors"), 1);
    assert_int_equal(users_stat(f, "puts"), 2);
    assert_int_equal(users_stat(f, "puts_kept"), 1);
    assert_int_equal(users_stat(f, "puts_lost"), 1);
    fetch_program(&f->ann, 3, "other.cl");
    assert_int_equal(reply_result(&f->ann, 2).tier, TIER_HOT);
    fetch_program(&f->ann, 4, "third.cl");
    finish_compile(f, "third");
    assert_int_equal(reply_result(&f->ann, 3).code, KILN_OK);
    assert_int_equal(users_stat(f, "store_errors"), 1);
}

TEST_F(users, a_queued_compile_is_cancelled_when_its_last_client_leaves)
{
    fetch_program(&f->admin, 1, "runs.cl");
    fetch_program(&f->ann, 1, "waits.cl");
    fetch_program(&f->admin, 2, "waits.cl");
    fetch_program(&f->ann, 2, "alone.cl");
    assert_int_equal(users_stat(f, "queued"), 2);
    test_caller_leave(&f->ann);
    assert_int_equal(users_stat(f, "queued"), 1); /* the administrator still waits for waits.cl */
    finish_compile(f, "one");
    finish_compile(f, "two");
    assert_int_equal(f->admin.reply_count, 2);
    assert_null(fake_executor_next_compile(&f->engine.executor));
    assert_int_equal(users_stat(f, "cancelled"), 2);
}

TEST_F(users, a_running_compile_is_kept_when_its_client_leaves)
{
    fetch_program(&f->ann, 1, "k.cl");
    test_caller_leave(&f->ann);
    finish_compile(f, "object");
    fetch_program(&f->admin, 2, "k.cl");
    assert_int_equal(reply_result(&f->admin, 0).tier, TIER_HOT);
}

TEST_F(users, an_interactive_request_promotes_a_prefetch)
{
    test_caller_fetch_source(&f->admin, 1, "busy.cl", PRIORITY_PREFETCH);
    fake_executor_run_tasks(&f->engine.executor);
    test_caller_fetch_source(&f->admin, 2, "first.cl", PRIORITY_PREFETCH);
    test_caller_fetch_source(&f->admin, 3, "second.cl", PRIORITY_PREFETCH);
    fake_executor_run_tasks(&f->engine.executor);
    fetch_program(&f->ann, 1, "second.cl");
    finish_compile(f, "busy");
    struct compile_task *next = fake_executor_next_compile(&f->engine.executor);
    assert_true(bytes_equal_text(next->job.program, "second.cl"));
}

TEST_F(users, a_source_that_a_client_sends_is_compiled_as_a_clients_job)
{
    fetch_program(&f->ann, 1, "k.cl");
    const struct compile_task *next = fake_executor_next_compile(&f->engine.executor);
    assert_non_null(next);
    assert_int_equal(next->job.origin, COMPILE_OF_CLIENT);
    finish_compile(f, "object");
}

static void limit_bytes(struct users *f, uint64_t bytes)
{
    f->engine.options.queue_bytes_uid = bytes;
    users_reopen(f);
}

TEST_F(users, waiting_sources_of_one_user_are_bounded_in_bytes)
{
    KILN_AUTO(mem) char *large = malloc(40000);
    assert_non_null(large);
    memset(large, ' ', 40000);
    limit_bytes(f, 100u << 10);
    for (int i = 0; i < 3; i++) {
        char program[16];
        snprintf(program, sizeof(program), "%d.cl", i);
        struct message_fetch_source m = { .target = bytes_of_text(FIXTURE_TARGET),
                                          .program = bytes_of_text(program),
                                          .source = bytes_of(large, 40000) };
        SEND_MESSAGE(&f->ann, fetch_source, (uint64_t)i, &m);
    }
    struct message_result o = reply_result(&f->ann, 0);
    KILN_AUTO(mem) char *text = bytes_to_text(o.text);
    assert_int_equal(o.code, KILN_BUSY);
    assert_int_equal(f->ann.replies[0].request_id, 2);
    assert_says(text, "user 1000");
    assert_says(text, "queue_bytes_per_uid");
    fetch_program(&f->admin, 9, "other.cl");
    finish_compile(f, "object");
    finish_compile(f, "object");
    finish_compile(f, "object");
    assert_int_equal(reply_result(&f->admin, 0).code, KILN_OK);
    fetch_program(&f->ann, 10, "more.cl");
    finish_compile(f, "object");
    assert_int_equal(reply_result(&f->ann, 3).code, KILN_OK);
}

TEST_F(users, a_refused_option_is_named)
{
    struct message_fetch_source m = { .target = bytes_of_text(FIXTURE_TARGET),
                                      .program = bytes_of_text("k.cl"),
                                      .options = bytes_of_text("-DN=1 -I/etc"),
                                      .source = bytes_of_text("kernel void k() {}") };
    SEND_MESSAGE(&f->ann, fetch_source, 1, &m);
    struct message_result o = reply_result(&f->ann, 0);
    assert_int_equal(o.code, KILN_DENIED);
    KILN_AUTO(mem) char *text = bytes_to_text(o.text);
    assert_says(text, "-I/etc");
}

TEST_F(users, an_opencl_target_of_another_machine_is_refused)
{
    struct message_fetch_source m = { .target = bytes_of_text("opencl:other-cpu:other-build"),
                                      .program = bytes_of_text("k.cl"),
                                      .source = bytes_of_text("kernel void k() {}") };
    SEND_MESSAGE(&f->ann, fetch_source, 1, &m);
    struct message_result o = reply_result(&f->ann, 0);
    assert_int_equal(o.code, KILN_UNSUPPORTED);
    assert_int_equal(f->engine.executor.compiles_handed_over, 1);
}

static void put_item(struct buffer *items, const char *program)
{
    struct message_fetch_source m = { .inline_limit = 100,
                                      .target = bytes_of_text(FIXTURE_TARGET),
                                      .program = bytes_of_text(program),
                                      .source = bytes_of_text("kernel void k() {}") };
    PUT_BATCH_ITEM(items, 1, fetch_source, &m);
}

static void send_batch(struct users *f, uint32_t count, struct bytes items)
{
    struct message_batch m = { .count = count, .items = items };
    SEND_MESSAGE(&f->ann, batch, 77, &m);
    fake_executor_run_tasks(&f->engine.executor);
}

TEST_F(users, a_batch_is_answered_in_the_order_its_kernels_are_ready)
{
    fetch_program(&f->ann, 1, "hot.cl");
    finish_compile(f, "hot");
    test_caller_forget_replies(&f->ann);
    BUFFER_AUTO struct buffer items;
    buffer_init(&items, 10000);
    put_item(&items, "cold-1.cl");
    put_item(&items, "hot.cl");
    put_item(&items, "cold-2.cl");
    send_batch(f, 3, buffer_view(&items));

    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(reply_result(&f->ann, 0).index, 1);
    assert_int_equal(f->ann.replies[0].flags, FRAME_MORE);
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "no", NULL);
    assert_int_equal(reply_result(&f->ann, 1).index, 0);
    assert_int_equal(reply_result(&f->ann, 1).code, KILN_COMPILE_FAILED);
    assert_int_equal(f->ann.replies[1].flags, FRAME_MORE);
    finish_compile(f, "cold");
    assert_int_equal(reply_result(&f->ann, 2).index, 2);
    assert_int_equal(f->ann.replies[2].flags, 0);
    assert_int_equal(f->ann.replies[2].request_id, 77);
}

TEST_F(users, hot_items_of_a_batch_share_frames)
{
    fetch_program(&f->ann, 1, "hot.cl");
    finish_compile(f, "hot");
    test_caller_forget_replies(&f->ann);
    BUFFER_AUTO struct buffer items;
    buffer_init(&items, 1u << 20);
    for (int i = 0; i < 300; i++)
        put_item(&items, "hot.cl");
    step_clock(1);
    send_batch(f, 300, buffer_view(&items));
    step_clock(1);
    assert_true(f->ann.reply_count <= 3);
    assert_int_equal(f->ann.replies[f->ann.reply_count - 1].flags, 0);
    uint32_t answered = 0;
    for (size_t i = 0; i < f->ann.reply_count; i++) {
        struct reader r = reader_of(f->ann.replies[i].body);
        answered += message_kernels_read(&r).count;
    }
    assert_int_equal(answered, 300);
}

static void put_key(struct buffer *items, const struct digest *key)
{
    struct message_fetch m = { .key = *key, .inline_limit = LIMIT_INLINE_OBJECT };
    PUT_BATCH_ITEM(items, 0, fetch, &m);
}

TEST_F(users, small_and_large_objects_share_a_frame_and_stay_whole)
{
    static char large[5001];
    memset(large, 'x', sizeof(large) - 1);
    large[4999] = 'y';
    fetch_program(&f->ann, 1, "large.cl");
    finish_compile(f, large);
    fetch_program(&f->ann, 2, "small.cl");
    finish_compile(f, "small");
    struct digest keys[] = { reply_result(&f->ann, 0).key, reply_result(&f->ann, 1).key };
    test_caller_forget_replies(&f->ann);
    BUFFER_AUTO struct buffer items;
    buffer_init(&items, 10000);
    for (int i = 0; i < 40; i++)
        put_key(&items, &keys[i % 2]);
    send_batch(f, 40, buffer_view(&items));

    assert_true(f->ann.reply_count >= 2);
    uint32_t answered = 0;
    for (size_t i = 0; i < f->ann.reply_count; i++) {
        struct reader r = reader_of(f->ann.replies[i].body);
        struct message_kernels m = message_kernels_read(&r);
        struct reader results = reader_of(m.results);
        for (uint32_t k = 0; k < m.count; k++, answered++) {
            struct message_result o = message_result_read(&results);
            assert_int_equal(o.index, answered);
            assert_true(bytes_equal_text(o.content, answered % 2 ? "small" : large));
            assert_int_equal(o.log.size, 0);
        }
        assert_false(r.failed || results.failed);
        assert_true(r.at == r.end && results.at == results.end);
    }
    assert_int_equal(answered, 40);
}

TEST_F(users, a_batch_with_a_wrong_count_is_refused_whole)
{
    BUFFER_AUTO struct buffer items;
    buffer_init(&items, 10000);
    put_item(&items, "a.cl");
    send_batch(f, 2, buffer_view(&items));
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_INVALID);
    test_caller_forget_replies(&f->ann);
    put_item(&items, "b.cl");
    put_item(&items, "c.cl");
    send_batch(f, 2, buffer_view(&items));
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_INVALID);
    assert_int_equal(f->engine.executor.compiles_handed_over, 1);
}

TEST_F(users, a_cancelled_fetch_ends_with_cancelled)
{
    fetch_program(&f->admin, 1, "busy.cl");
    fetch_program(&f->ann, 5, "k.cl");
    struct message_cancel m = { .cancelled_id = 5 };
    SEND_MESSAGE(&f->ann, cancel, 6, &m);
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->ann.replies[0].request_id, 5);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_CANCELLED);
    assert_int_equal(users_stat(f, "queued"), 0);
}

static void ask_plan(struct users *f, uint8_t flags, const char *solver)
{
    struct message_plan m = {
        .problem = small_problem(8),
        .flags = flags,
        .target = bytes_of_text(FIXTURE_TARGET),
        .solver = bytes_of_text(solver),
    };
    SEND_MESSAGE(&f->ann, plan, 8, &m);
    fake_executor_run_tasks(&f->engine.executor);
}

TEST_F(users, a_plan_has_solver_geometry_and_objects)
{
    ask_plan(f, 0, "");
    finish_compile(f, "object");
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->ann.replies[0].type, MESSAGE_planned);
    struct reader r = reader_of(f->ann.replies[0].body);
    struct message_planned m = message_planned_read(&r);
    must(message_body_check(&r, MESSAGE_planned, &f->engine.err), f->engine.err);
    assert_true(bytes_equal_text(m.solver, "ConvDirectNaive"));
    assert_true(bytes_equal_text(m.toolchain, "opencl"));
    assert_int_equal(m.object_count, 1);
    assert_int_equal(m.kernel_count, 1);
    assert_int_equal(f->ann.replies[0].object_count, 1);
    struct reader kernels = reader_of(m.kernels);
    struct message_plan_kernel k = message_plan_kernel_read(&kernels);
    assert_false(kernels.failed);
    assert_true(k.name.size > 0 && k.grid_x > 0 && k.group_x > 0 && k.argument_count > 2);
}

TEST_F(users, a_plan_without_objects_still_compiles_them)
{
    ask_plan(f, FETCH_NO_OBJECT, "");
    finish_compile(f, "object");
    assert_int_equal(f->ann.replies[0].type, MESSAGE_planned);
    assert_int_equal(f->ann.replies[0].object_count, 0);
    assert_int_equal(users_stat(f, "store_objects"), 1);
}

TEST_F(users, a_failed_plan_names_its_solver)
{
    ask_plan(f, 0, "");
    fake_executor_fail(&f->engine.executor, COMPILE_CRASHED, "the worker died of SIGABRT", "log");
    struct message_error e = reply_error(&f->ann, 0);
    assert_int_equal(e.code, KILN_COMPILE_FAILED);
    KILN_AUTO(mem) char *text = bytes_to_text(e.text);
    assert_says(text, "opencl:test: ");
    assert_true(bytes_equal_text(e.log, "log"));
}

TEST_F(users, an_unknown_solver_is_not_found)
{
    ask_plan(f, 0, "ConvMagic");
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_NOT_FOUND);
}
