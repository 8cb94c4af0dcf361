/* SPDX-License-Identifier: MIT */
#include "engine/service/internal.h"
#include "tests/support/stepped_clock.h"
#include "tests/unit/engine/service/users_fixture.h"

#include <stdio.h>
#include <string.h>

#define AMD_TOOLCHAIN(name, digit)                                                    \
    "{\"name\":\"" name "\",\"version\":\"1\",\"path\":\"/x\",\"family\":\"amdgpu\"," \
    "\"identity\":\"" digit digit digit digit digit digit digit digit "\"}"

static void describe_one(struct users *f)
{
    fake_executor_compile(&f->engine.executor, bytes_of_text("{\"toolchains\":[" AMD_TOOLCHAIN(
                                                   "clang", "bbbbbbbb") "]}"));
    fake_executor_run_tasks(&f->engine.executor);
}

static void describe_two(struct users *f)
{
    fake_executor_compile(&f->engine.executor,
                          bytes_of_text("{\"toolchains\":[" AMD_TOOLCHAIN(
                              "hiprtc", "aaaaaaaa") "," AMD_TOOLCHAIN("clang", "bbbbbbbb") "]}"));
    fake_executor_run_tasks(&f->engine.executor);
}

static unsigned count_queued(const struct users *f)
{
    return compile_queue_waiting(f->engine.engine->queue);
}

static void fetch_of(struct users *f, struct test_caller *caller, uint64_t id, const char *target,
                     const char *program)
{
    struct message_fetch_source m = { .target = bytes_of_text(target),
                                      .program = bytes_of_text(program),
                                      .source = bytes_of_text("source") };
    SEND_MESSAGE(caller, fetch_source, id, &m);
    fake_executor_run_tasks(&f->engine.executor);
}

static void fetch_for(struct users *f, uint64_t id, const char *target, const char *toolchain)
{
    struct message_fetch_source m = { .target = bytes_of_text(target),
                                      .toolchain = bytes_of_text(toolchain),
                                      .program = bytes_of_text("k.hip"),
                                      .source = bytes_of_text("source") };
    SEND_MESSAGE(&f->ann, fetch_source, id, &m);
    fake_executor_run_tasks(&f->engine.executor);
}

static void fetch_amd(struct users *f, uint64_t id, const char *toolchain)
{
    fetch_for(f, id, "gfx942", toolchain);
}

static const struct compile_job *next_job(struct users *f)
{
    struct compile_task *task = fake_executor_next_compile(&f->engine.executor);
    assert_non_null(task);
    return &task->job;
}

TEST_F(undescribed, a_request_waits_until_the_toolchains_are_known)
{
    test_caller_fetch_source(&f->ann, 1, "k.cl", PRIORITY_INTERACTIVE);
    assert_int_equal(f->ann.reply_count, 0);
    assert_int_equal(fake_executor_next_compile(&f->engine.executor)->job.origin, COMPILE_OF_KILN);
    engine_fixture_describe(&f->engine);
    assert_int_equal(next_job(f)->kind, COMPILE_KERNEL);
    finish_compile(f, "object");
    assert_int_equal(reply_result(&f->ann, 0).code, KILN_OK);
    assert_int_equal(users_stat(f, "fetches"), 1);
}

TEST_F(undescribed, a_client_that_leaves_while_waiting_for_toolchains_is_forgotten)
{
    test_caller_fetch_source(&f->ann, 1, "k.cl", PRIORITY_INTERACTIVE);
    test_caller_leave(&f->ann);
    engine_fixture_describe(&f->engine);
    assert_null(fake_executor_next_compile(&f->engine.executor));
}

/* Sets a limit that allows one request with a source of 60,000 bytes, but not two. */
static void limit_bytes(struct users *f)
{
    f->engine.options.queue_bytes_uid = 100u << 10;
    users_stop(f);
    users_start_as(f, NULL);
}

TEST_F(undescribed, deferred_requests_of_one_user_are_bounded_in_bytes)
{
    struct message_fetch_source m = { .target = bytes_of_text(FIXTURE_TARGET),
                                      .program = bytes_of_text("k.cl") };
    KILN_AUTO(mem) char *large = calloc(1, 60000);
    assert_non_null(large);
    m.source = bytes_of(large, 60000);
    limit_bytes(f);
    for (uint64_t id = 0; id < 2; id++)
        SEND_MESSAGE(&f->ann, fetch_source, id, &m);
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_BUSY);
    assert_int_equal(f->ann.replies[0].request_id, 1);
}

TEST_F(undescribed, empty_deferred_requests_are_charged_and_released)
{
    for (uint64_t id = 0; id < 3; id++)
        test_caller_send(&f->ann, MESSAGE_toolchains, id, (struct bytes){ 0 });
    assert_true(users_stat(f, "queued_bytes") > 0);
    describe_two(f);
    assert_int_equal(f->ann.reply_count, 3);
    assert_int_equal(users_stat(f, "queued_bytes"), 0);
}

TEST_F(undescribed, a_failed_describe_fails_requests_with_its_reason)
{
    test_caller_fetch_source(&f->ann, 1, "k.cl", PRIORITY_INTERACTIVE);
    fake_executor_fail(&f->engine.executor, COMPILE_CRASHED, "the worker died of SIGSEGV", NULL);
    fake_executor_run_tasks(&f->engine.executor);
    struct message_result o = reply_result(&f->ann, 0);
    assert_int_equal(o.code, KILN_UNAVAILABLE);
    KILN_AUTO(mem) char *text = bytes_to_text(o.text);
    assert_says(text, "SIGSEGV");
    test_caller_fetch_source(&f->ann, 2, "k.cl", PRIORITY_INTERACTIVE);
    assert_null(fake_executor_next_compile(&f->engine.executor));
    assert_int_equal(reply_result(&f->ann, 1).code, KILN_UNAVAILABLE);
}

TEST_F(undescribed, a_host_without_a_compiler_is_reported_to_the_operator)
{
    assert_null(engine_fixture_reported(&f->engine, "toolchains_none"));
    engine_fixture_describe_as(&f->engine, "{\"toolchains\":[]}");
    assert_says(engine_fixture_reported(&f->engine, "toolchains_none"), "kilnctl doctor");
}

TEST_F(undescribed, a_toolchain_whose_probe_crashes_is_replaced_by_the_next)
{
    describe_two(f);
    fetch_amd(f, 1, "");
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
    assert_true(bytes_equal_text(next_job(f)->toolchain, "hiprtc"));
    fake_executor_fail(&f->engine.executor, COMPILE_CRASHED, "the worker died of SIGABRT", NULL);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
    assert_true(bytes_equal_text(next_job(f)->toolchain, "clang"));
    finish_compile(f, "probe");
    assert_int_equal(next_job(f)->kind, COMPILE_KERNEL);
    assert_true(bytes_equal_text(next_job(f)->toolchain, "clang"));
    assert_int_equal(users_stat(f, "probes"), 2);
    assert_int_equal(users_stat(f, "compile_errors"), 0);
}

TEST_F(undescribed, probe_results_survive_a_restart)
{
    describe_two(f);
    fetch_amd(f, 1, "");
    fake_executor_fail(&f->engine.executor, COMPILE_CRASHED, "the worker died of SIGABRT", NULL);
    fake_executor_run_tasks(&f->engine.executor);
    finish_compile(f, "probe");
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "no", NULL);
    fake_executor_run_tasks(&f->engine.executor);
    /* the new engine has described opencl only, but still remembers the probes for gfx942 */
    users_reopen(f);
    fetch_amd(f, 2, "");
    assert_int_equal(reply_result(&f->ann, 0).code, KILN_UNSUPPORTED);
}

TEST_F(undescribed, a_forced_toolchain_whose_probe_failed_is_refused_with_the_targets_name)
{
    describe_two(f);
    fetch_amd(f, 1, "hiprtc");
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
    fake_executor_fail(&f->engine.executor, COMPILE_CRASHED, "the worker died of SIGABRT", NULL);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(reply_result(&f->ann, 0).code, KILN_UNSUPPORTED);
    KILN_AUTO(mem) char *text = bytes_to_text(reply_result(&f->ann, 0).text);
    assert_says(text, "for gfx942");
    fetch_amd(f, 2, "gcc");
    assert_int_equal(reply_result(&f->ann, 1).code, KILN_NOT_FOUND);
}

TEST_F(undescribed, a_probe_of_a_clients_target_is_a_clients_job)
{
    describe_two(f);
    fetch_amd(f, 1, "");
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
    assert_int_equal(next_job(f)->origin, COMPILE_OF_CLIENT);
    finish_compile(f, "probe");
    assert_int_equal(next_job(f)->kind, COMPILE_KERNEL);
    assert_int_equal(next_job(f)->origin, COMPILE_OF_CLIENT);
    assert_true(next_job(f)->target_works);
}

static void plan_for(struct users *f, uint64_t id, const char *target, const char *toolchain)
{
    const struct message_plan m = { .problem = small_problem(8),
                                    .target = bytes_of_text(target),
                                    .toolchain = bytes_of_text(toolchain),
                                    .solver = bytes_of_text("ConvDirectNaive") };
    send_plan(&f->ann, id, &m);
}

/* The program is one of kiln's own. However, a client chose the target, with which the compiler may
 * crash. */
TEST_F(undescribed, a_plan_is_a_clients_job_until_its_target_was_probed)
{
    describe_two(f);
    plan_for(f, 1, "gfx90a1b2c3", "hiprtc");
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
    assert_int_equal(next_job(f)->origin, COMPILE_OF_CLIENT);
    fake_executor_fail(&f->engine.executor, COMPILE_CRASHED, "the worker died of SIGABRT", NULL);
    fake_executor_run_tasks(&f->engine.executor);

    plan_for(f, 2, "gfx90a", "hiprtc");
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
    finish_compile(f, "probe");
    assert_int_equal(next_job(f)->kind, COMPILE_KERNEL);
    assert_int_equal(next_job(f)->origin, COMPILE_OF_KILN);
    assert_true(next_job(f)->target_works);
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "no", NULL);
    fake_executor_run_tasks(&f->engine.executor);

    plan_for(f, 3, "gfx90a", "clang");
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
    assert_true(bytes_equal_text(next_job(f)->toolchain, "clang"));
}

TEST_F(undescribed, a_probe_that_cannot_start_is_not_remembered)
{
    describe_two(f);
    engine_drain(f->engine.engine);
    fetch_amd(f, 1, "");
    assert_int_equal(reply_result(&f->ann, 0).code, KILN_UNAVAILABLE);
    KILN_AUTO(mem) char *text = bytes_to_text(reply_result(&f->ann, 0).text);
    assert_says(text, "hiprtc");
}

TEST_F(undescribed, a_description_that_a_stop_ends_is_not_reported)
{
    engine_drain(f->engine.engine);
    fake_executor_fail(&f->engine.executor, COMPILE_UNAVAILABLE, "kilnd is stopping", NULL);
    assert_null(engine_fixture_reported(&f->engine, "toolchains_unknown"));
}

TEST_F(undescribed, a_batch_of_made_up_targets_is_refused)
{
    BUFFER_AUTO struct buffer items;
    buffer_init(&items, 100000);
    describe_two(f);
    for (int i = 0; i < 20; i++) {
        char target[16];
        snprintf(target, sizeof(target), "gfx9%03d", i);
        struct message_fetch_source m = { .target = bytes_of_text(target),
                                          .program = bytes_of_text("k.hip"),
                                          .source = bytes_of_text("source") };
        PUT_BATCH_ITEM(&items, 1, fetch_source, &m);
    }
    struct message_batch batch = { .count = 20, .items = buffer_view(&items) };
    SEND_MESSAGE(&f->ann, batch, 1, &batch);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_INVALID);
    KILN_AUTO(mem) char *text = bytes_to_text(reply_error(&f->ann, 0).text);
    assert_says(text, "16");
    assert_int_equal(count_queued(f), 0);
}

static void crash_for(struct users *f, uint64_t id, const char *target)
{
    fetch_for(f, id, target, "");
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
    fake_executor_fail(&f->engine.executor, COMPILE_CRASHED, "died", NULL);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(reply_result(&f->ann, 0).code, KILN_UNSUPPORTED);
    test_caller_forget_replies(&f->ann);
}

TEST_F(undescribed, a_crash_does_not_rule_out_a_target_forever)
{
    describe_one(f);
    crash_for(f, 1, "gfx942");
    fetch_amd(f, 2, "");
    assert_null(fake_executor_next_compile(&f->engine.executor));
    test_caller_forget_replies(&f->ann);

    /* More probes follow than the engine remembers, so it forgets the first one. */
    for (unsigned i = 0; i < 96; i++) {
        char target[16];
        snprintf(target, sizeof(target), "gfx9%03u", i);
        crash_for(f, 10 + i, target);
    }

    fetch_amd(f, 3, "");
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
}

TEST_F(undescribed, requests_for_one_target_share_its_probe)
{
    describe_two(f);
    fetch_amd(f, 1, "");
    fetch_amd(f, 2, "");
    assert_int_equal(f->engine.executor.compiles_handed_over, 2);
}

TEST_F(undescribed, a_list_of_toolchains_probes_all_targets_first)
{
    describe_two(f);
    test_caller_send(&f->ann, MESSAGE_toolchains, 1, bytes_of_text("{\"probe\":[\"gfx1030\"]}"));
    assert_int_equal(f->ann.reply_count, 0);
    finish_compile(f, "probe");
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "unknown target",
                       "\nerror: gfx1030\nmore");
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    KILN_AUTO(mem) char *text = bytes_to_text(f->ann.replies[0].body);
    assert_says(text, "{\"target\":\"gfx1030\",\"works\":true}");
    assert_says(text, "\"works\":false,\"detail\":\"unknown target (error: gfx1030)\"");
}

/* ---- probes that requests share ---- */

static void take_probe(struct users *f, const char *target)
{
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
    assert_true(bytes_equal_text(next_job(f)->target, target));
    finish_compile(f, "probe");
}

static void take_kernel(struct users *f, const char *program)
{
    assert_int_equal(next_job(f)->kind, COMPILE_KERNEL);
    assert_true(bytes_equal_text(next_job(f)->program, program));
    fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "no", NULL);
    fake_executor_run_tasks(&f->engine.executor);
}

/* For probes, too, the queue alternates between users. */
TEST_F(undescribed, a_probe_gets_the_best_queue_slot_of_its_requests)
{
    step_clock(1);
    describe_one(f);
    fetch_of(f, &f->ann, 1, "gfx90a", "a1");
    take_probe(f, "gfx90a");
    fetch_of(f, &f->ann, 2, "gfx90a", "a2");
    fetch_of(f, &f->ann, 3, "gfx90a", "a3");
    fetch_of(f, &f->ann, 4, "gfx908", "a4");
    fetch_of(f, &f->bob, 1, "gfx908", "b1");

    take_kernel(f, "a1");
    take_probe(f, "gfx908");
    assert_int_equal(f->engine.executor.compiles_handed_over, 5);
    take_kernel(f, "a2");
    take_kernel(f, "b1");
    take_kernel(f, "a3");
    take_kernel(f, "a4");
    step_clock(1);
}

TEST_F(undescribed, requests_waiting_for_one_probe_continue_in_order)
{
    describe_one(f);
    fetch_of(f, &f->ann, 1, "gfx90a", "first");
    fetch_of(f, &f->ann, 2, "gfx908", "other");
    fetch_of(f, &f->ann, 3, "gfx90a", "second");
    fetch_of(f, &f->ann, 4, "gfx90a", "third");
    take_probe(f, "gfx90a");
    assert_int_equal(count_queued(f), 3);
    take_probe(f, "gfx908");
    take_kernel(f, "first");
    take_kernel(f, "second");
    take_kernel(f, "third");
    take_kernel(f, "other");
    assert_int_equal(users_stat(f, "queued_bytes"), 0);
}

TEST_F(undescribed, a_probe_leaves_the_queue_with_its_last_request)
{
    describe_one(f);
    fetch_of(f, &f->ann, 1, "gfx90a", "k");
    fetch_of(f, &f->ann, 2, "gfx908", "k");
    fetch_of(f, &f->ann, 3, "gfx908", "k");
    fetch_of(f, &f->bob, 1, "gfx908", "k");
    fetch_of(f, &f->bob, 2, "gfx942", "k");
    assert_int_equal(count_queued(f), 2);
    test_caller_cancel(&f->ann, 3);
    test_caller_cancel(&f->bob, 1);
    assert_int_equal(count_queued(f), 2);
    test_caller_cancel(&f->ann, 2);
    assert_int_equal(count_queued(f), 1);
    test_caller_cancel(&f->ann, 1); /* a running probe cannot be stopped */
    take_probe(f, "gfx90a");
    take_probe(f, "gfx942");
    take_kernel(f, "k");
    assert_int_equal(users_stat(f, "queued_bytes"), 0);

    fetch_of(f, &f->ann, 4, "gfx90a", "k");
    take_kernel(f, "k");
    fetch_of(f, &f->ann, 5, "gfx908", "k");
    take_probe(f, "gfx908");
    take_kernel(f, "k");
}

TEST_F(undescribed, a_client_that_leaves_removes_its_probes_from_the_queue)
{
    describe_two(f);
    test_caller_send(&f->bob, MESSAGE_toolchains, 1,
                     bytes_of_text("{\"probe\":[\"gfx1030\",\"gfx1100\"]}"));
    fetch_of(f, &f->ann, 1, "gfx1100", "k");
    assert_int_equal(count_queued(f), 3);
    test_caller_leave(&f->bob);
    assert_int_equal(count_queued(f), 1);
    take_probe(f, "gfx1030");
    take_probe(f, "gfx1100");
    take_kernel(f, "k");
}

TEST_F(undescribed, queued_probes_of_one_user_are_limited)
{
    char target[16] = "";
    describe_one(f);
    for (unsigned i = 0; i < 64; i++) {
        snprintf(target, sizeof(target), "gfx9%03u", i);
        fetch_of(f, &f->ann, 1 + i, target, "k");
    }
    assert_int_equal(f->ann.reply_count, 0);
    fetch_of(f, &f->ann, 100, "gfx90a", "k");
    struct message_result o = reply_result(&f->ann, 0);
    assert_int_equal(o.code, KILN_UNAVAILABLE);
    KILN_AUTO(mem) char *text = bytes_to_text(o.text);
    assert_says(text, "64 ");
    assert_says(text, "gfx90a");

    fetch_of(f, &f->ann, 101, target, "k");
    fetch_of(f, &f->bob, 1, "gfx90a", "k");
    fetch_of(f, &f->ann, 102, "gfx90a", "k");
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->bob.reply_count, 0);
    assert_int_equal(count_queued(f), 64);

    test_caller_cancel(&f->ann, 5);
    test_caller_forget_replies(&f->ann);
    fetch_of(f, &f->ann, 103, "gfx942", "k");
    assert_int_equal(f->ann.reply_count, 0);
}

/* ---- probes of a request that fails ---- */

static void send_list(struct test_caller *caller, uint64_t id, const char *question)
{
    test_caller_send(caller, MESSAGE_toolchains, id, bytes_of_text(question));
}

TEST_F(undescribed, a_list_with_an_invalid_target_queues_no_probe)
{
    describe_two(f);
    fetch_of(f, &f->bob, 1, "gfx1030", "k");
    fetch_of(f, &f->bob, 2, "gfx1100", "k");
    send_list(&f->ann, 1, "{\"probe\":[\"gfx1030\",\"gfx1100\",\"gfx1101\",\"nonsense\"]}");
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "nonsense");
    assert_int_equal(count_queued(f), 1);
    take_probe(f, "gfx1030");
    take_probe(f, "gfx1100");
    take_kernel(f, "k");
    take_kernel(f, "k");
    assert_null(fake_executor_next_compile(&f->engine.executor));
}

TEST_F(undescribed, a_request_that_cannot_be_deferred_queues_no_probe)
{
    KILN_AUTO(mem) char *large = calloc(1, 60000);
    assert_non_null(large);
    limit_bytes(f);
    describe_one(f);
    fetch_of(f, &f->bob, 1, "gfx1030", "k");
    static const char *const targets[] = { "gfx1100", "gfx1101" };
    for (size_t i = 0; i < 2; i++) {
        const struct message_fetch_source m = { .target = bytes_of_text(targets[i]),
                                                .program = bytes_of_text("k.hip"),
                                                .source = bytes_of(large, 60000) };
        SEND_MESSAGE(&f->ann, fetch_source, 1 + i, &m);
    }
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->ann.replies[0].request_id, 2);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_BUSY);
    assert_int_equal(count_queued(f), 1);
}

TEST_F(undescribed, a_build_waits_for_its_toolchain)
{
    const struct problem problem = small_problem(8);
    BUFFER_AUTO struct buffer problems;
    buffer_init(&problems, 1000);
    problem_write(&problems, &problem);
    int file = sealed_file(buffer_view(&problems));
    test_caller_send_files(&f->ann, MESSAGE_package_build, "{\"target\":\"gfx908\"}", &file, 1);
    describe_one(f);
    assert_int_equal(f->ann.reply_count, 0);
    take_probe(f, "gfx908");
    for (unsigned kernel = 0; kernel < 2; kernel++) {
        assert_int_equal(next_job(f)->kind, COMPILE_KERNEL);
        fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "no gfx908 today", NULL);
        fake_executor_run_tasks(&f->engine.executor);
    }
    assert_reply_refuses(&f->ann, f->ann.reply_count - 1, KILN_UNSUPPORTED, "no gfx908 today");
}

#define AMD_AND_NVIDIA                                                                         \
    "{\"toolchains\":[" AMD_TOOLCHAIN("hiprtc", "aaaaaaaa") "," AMD_TOOLCHAIN(                 \
        "clang", "bbbbbbbb") ",{\"name\":\"nvrtc\",\"version\":\"1\",\"path\":\"/x\","         \
                             "\"family\":\"nvidia\",\"identity\":\"cccccccccccccccccccccccccc" \
                             "cccccccccccccccccccccccccccccccccccccc\"}]}"

/* The list needs probes for all known targets and for 16 others, which are more than may be in
 * flight. */
TEST_F(undescribed, a_long_list_of_targets_is_probed_to_its_end)
{
    char question[512] = "{\"all\":true,\"probe\":[";
    engine_fixture_describe_as(&f->engine, AMD_AND_NVIDIA);
    for (unsigned i = 0; i < 16; i++) {
        size_t used = strlen(question);
        snprintf(question + used, sizeof(question) - used, "%s\"gfx9%03u\"", i ? "," : "", i);
    }
    strcat(question, "]}");
    send_list(&f->ann, 1, question);
    assert_int_equal(count_queued(f), 63);
    unsigned tries = 0;
    for (; f->ann.reply_count == 0 && tries < 100; tries++) {
        assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
        finish_compile(f, "probe");
    }
    assert_int_equal(tries, 2 * (16 + 14) + 9);
    KILN_AUTO(mem) char *text = bytes_to_text(f->ann.replies[0].body);
    assert_says(text, "{\"target\":\"sm_120\",\"works\":true}");
    assert_says(text, "{\"target\":\"gfx9015\",\"works\":true}");
}

/* 64 probes of other requests are in flight, and more are not allowed. */
TEST_F(undescribed, a_list_that_can_start_no_probe_is_refused)
{
    char target[16];
    describe_one(f);
    for (unsigned i = 0; i < 64; i++) {
        snprintf(target, sizeof(target), "gfx9%03u", i);
        fetch_of(f, &f->ann, 1 + i, target, "k");
    }
    send_list(&f->ann, 100, "{\"probe\":[\"gfx1100\"]}");
    assert_reply_refuses(&f->ann, 0, KILN_UNAVAILABLE, "64 ");
}

/* ---- probes without a process ---- */

#define NO_PROCESS "no compiler process could be started: Too many open files"

TEST_F(undescribed, a_probe_without_a_process_proves_nothing)
{
    describe_one(f);
    fetch_amd(f, 1, "");
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
    fake_executor_fail(&f->engine.executor, COMPILE_UNAVAILABLE, NO_PROCESS, NULL);
    fake_executor_run_tasks(&f->engine.executor);
    struct message_result o = reply_result(&f->ann, 0);
    assert_int_equal(o.code, KILN_UNAVAILABLE);
    KILN_AUTO(mem) char *text = bytes_to_text(o.text);
    assert_says(text, NO_PROCESS);
    assert_says(text, "try again");

    test_caller_forget_replies(&f->ann);
    test_caller_send(&f->ann, MESSAGE_toolchains, 2, bytes_of_text("{}"));
    KILN_AUTO(mem) char *listed = bytes_to_text(f->ann.replies[0].body);
    assert_says(listed,
                "\"targets\":[],\"untried\":[{\"target\":\"gfx942\",\"detail\":\"" NO_PROCESS);
    test_caller_forget_replies(&f->ann);

    for (unsigned i = 0; i < 96; i++) {
        char target[16];
        snprintf(target, sizeof(target), "gfx9%03u", i);
        crash_for(f, 10 + i, target);
    }
    fetch_amd(f, 3, "");
    take_probe(f, "gfx942");
    assert_int_equal(next_job(f)->kind, COMPILE_KERNEL);
}

static void forget_what_was_found(struct users *f, const char *of)
{
    struct toolchain_table *table = f->engine.engine->toolchains;
    struct target target;
    must(target_parse(bytes_of_text(of), &target, &f->engine.err), f->engine.err);
    for (size_t i = 0; i < toolchain_table_count(table); i++)
        toolchain_probe_learn(table, toolchain_table_at(table, i), &target, PROBE_UNKNOWN, NULL);
}

TEST_F(undescribed, a_probe_is_not_repeated_forever_if_its_result_is_forgotten)
{
    describe_two(f);
    fetch_amd(f, 1, "");
    unsigned tries = 0;
    for (; f->ann.reply_count == 0 && tries < 100; tries++) {
        forget_what_was_found(f, "gfx942");
        fake_executor_fail(&f->engine.executor, COMPILE_UNAVAILABLE, NO_PROCESS, NULL);
        fake_executor_run_tasks(&f->engine.executor);
    }
    assert_int_equal(tries, 8);
    assert_reply_refuses(&f->ann, 0, KILN_UNAVAILABLE, "8 tries");
}

TEST_F(undescribed, a_request_that_gives_up_queues_no_probe)
{
    static const char *const targets[] = { "gfx1030", "gfx1100", "gfx1101" };
    describe_one(f);
    send_list(&f->ann, 1, "{\"probe\":[\"gfx1030\",\"gfx1100\",\"gfx1101\"]}");
    assert_int_equal(count_queued(f), 2);
    for (unsigned tries = 0; f->ann.reply_count == 0 && tries < 100; tries++) {
        for (size_t i = 0; i < 3; i++)
            forget_what_was_found(f, targets[i]);
        fake_executor_fail(&f->engine.executor, COMPILE_UNAVAILABLE, NO_PROCESS, NULL);
        fake_executor_run_tasks(&f->engine.executor);
    }
    assert_reply_refuses(&f->ann, 0, KILN_UNAVAILABLE, "8 tries");
    assert_int_equal(count_queued(f), 0);
}
