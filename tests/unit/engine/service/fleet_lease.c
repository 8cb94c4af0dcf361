/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/fleet_host.h"

FIXTURE_OF(lease, struct host, host_set_up, NULL);

TEST_F(lease, a_store_that_honours_conditions_gives_leases)
{
    expect_leases(f, "unknown");
    probe(f, FLEET_END_EXISTS);
    expect_leases(f, "on");
}

TEST_F(lease, a_store_that_ignores_conditions_gives_no_leases)
{
    probe(f, FLEET_END_DONE);
    expect_leases(f, "off");
    fetch(f, "a.cl");
    assert_null(next_access(f));
    assert_true(is_compiling(f));
    finish_compile(&f->users, "a.cl");
}

/* Otherwise the first kernels would be compiled without leases. */
TEST_F(lease, the_store_is_probed_when_the_engine_starts)
{
    assert_true(is_for(next_access(f), "v1/l/probe/"));
    probe(f, FLEET_END_EXISTS);
}

TEST_F(lease, a_probe_that_fails_is_repeated_after_a_minute)
{
    pass_time(f, 1);
    end_access(f, FLEET_END_FORBIDDEN);
    pass_time(f, 10);
    assert_null(next_access(f));
    expect_leases(f, "unknown");
    pass_time(f, 60);
    assert_true(is_for(next_access(f), "v1/l/probe/"));
    end_access(f, FLEET_END_FORBIDDEN);
}

TEST_F(lease, status_says_why_it_is_not_known_whether_the_store_gives_leases)
{
    pass_time(f, 1);
    end_access(f, FLEET_END_FORBIDDEN);
    KILN_AUTO(json)
    struct json *status = test_caller_ask(&f->users.admin, MESSAGE_status, "{}");
    assert_says(json_get_text(json_get(status, "fleet"), "leases_trouble", ""), "refuses access");
    pass_time(f, 60);
    end_access(f, FLEET_END_DONE);
    end_access(f, FLEET_END_EXISTS);
    KILN_AUTO(json) struct json *later = test_caller_ask(&f->users.admin, MESSAGE_status, "{}");
    assert_null(json_get(json_get(later, "fleet"), "leases_trouble"));
}

TEST_F(lease, a_store_that_failed_at_the_start_is_probed_again)
{
    pass_time(f, 1);
    end_access(f, FLEET_END_UNREACHABLE);
    assert_false(fleet_tier_is_up(f->users.engine.engine->fleet));
    pass_time(f, 20);
    assert_null(next_access(f));
    pass_time(f, 41);
    end_access(f, FLEET_END_DONE);
    end_access(f, FLEET_END_EXISTS);
    assert_true(fleet_tier_is_up(f->users.engine.engine->fleet));
    expect_leases(f, "on");
}

static struct fleet_access *next_upload(const struct host *f)
{
    LIST_EACH (&f->users.engine.executor.fleet_accesses, struct fleet_access, link, access)
        if (access->is_put && is_for(access, "v1/k/"))
            return access;
    return NULL;
}

/* Ends the compile of a kernel whose lease the host has. */
static void finish_own(struct host *f, const char *program)
{
    test_caller_forget_replies(&f->users.ann);
    finish_compile(&f->users, program);
    assert_non_null(next_upload(f));
    fake_executor_fleet_failed(next_upload(f), FLEET_END_DONE);
    fake_executor_run_tasks(&f->users.engine.executor);
}

TEST_F(lease, the_host_that_has_the_lease_compiles_and_uploads_at_once)
{
    probe(f, FLEET_END_EXISTS);
    fetch(f, "a.cl");
    assert_true(is_for(next_access(f), "v1/l/") && next_access(f)->is_put);
    assert_false(is_compiling(f));
    end_access(f, FLEET_END_DONE);
    assert_true(is_compiling(f));
    finish_compile(&f->users, "a.cl");
    assert_true(is_for(next_access(f), "v1/k/") && next_access(f)->is_put);
    end_access(f, FLEET_END_DONE);
    assert_int_equal(count(f, "taken"), 1);
}

TEST_F(lease, a_kernel_that_is_stored_during_an_upload_is_uploaded_at_once)
{
    f->users.engine.executor.slots = 4;
    probe(f, FLEET_END_EXISTS);
    fetch(f, "a.cl");
    end_access(f, FLEET_END_DONE);
    fetch(f, "b.cl");
    end_access(f, FLEET_END_DONE);
    finish_compile(&f->users, "a.cl");
    finish_own(f, "b.cl");
    assert_non_null(next_upload(f));
    end_access(f, FLEET_END_DONE);
    assert_null(next_access(f));
}

/* Stores in |f->record| what another host with the same key would upload for |program|. */
static void make_record(struct host *f, const char *program)
{
    probe(f, FLEET_END_EXISTS);
    fetch(f, program);
    end_access(f, FLEET_END_DONE);
    finish_compile(&f->users, program);
    pass_time(f, 1);
    must(fs_read_fd(next_access(f)->fd, FLEET_RECORD_MAX, &f->record, &f->err), f->err);
    end_access(f, FLEET_END_DONE);
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
    start_builder(f, 0);
}

static void serve_record(struct host *f)
{
    fake_executor_fleet_got(next_access(f), buffer_view(&f->record));
    fake_executor_run_tasks(&f->users.engine.executor);
}

TEST_F(lease, the_other_hosts_use_the_record_when_it_is_there)
{
    make_record(f, "a.cl");
    probe(f, FLEET_END_EXISTS);
    lose_lease(f, "a.cl");
    end_access(f, FLEET_END_ABSENT);
    assert_false(is_compiling(f));
    assert_int_equal(f->users.ann.reply_count, 0);
    pass_time(f, 1);
    assert_true(is_for(next_access(f), "v1/k/"));
    serve_record(f);
    assert_int_equal(f->users.ann.reply_count, 1);
    assert_int_equal(last_result(&f->users.ann).tier, TIER_FLEET);
    assert_int_equal(count(f, "shared"), 1);
}

/* The pauses between requests become longer, so a record may appear long after the last one. */
TEST_F(lease, the_record_is_requested_once_more_when_the_time_is_over)
{
    make_record(f, "a.cl");
    probe(f, FLEET_END_EXISTS);
    lose_lease(f, "a.cl");
    end_access(f, FLEET_END_ABSENT);
    pass_time(f, 31);
    assert_true(is_for(next_access(f), "v1/k/"));
    serve_record(f);
    assert_int_equal(last_result(&f->users.ann).tier, TIER_FLEET);
    assert_int_equal(count(f, "expired"), 0);
}

TEST_F(lease, a_forged_record_is_not_used)
{
    make_record(f, "a.cl");
    probe(f, FLEET_END_EXISTS);
    lose_lease(f, "a.cl");
    f->record.data[f->record.size - 1] ^= 1;
    serve_record(f);
    assert_int_equal(count(f, "shared"), 0);
    assert_true(is_compiling(f));
    finish_compile(&f->users, "a.cl");
}

/* Loses the leases of |count| kernels with the names |programs|, and waits for them in vain. */
static void wait_in_vain(struct host *f, const char *const *programs, unsigned count)
{
    f->users.engine.executor.slots = 4;
    for (unsigned i = 0; i < count; i++) {
        lose_lease(f, programs[i]);
        end_access(f, FLEET_END_ABSENT);
    }
    pass_time(f, 31);
    assert_false(is_compiling(f));
    while (is_for(next_access(f), "v1/k/"))
        end_access(f, FLEET_END_ABSENT);
    for (unsigned i = 0; i < count; i++)
        finish_compile(&f->users, "object");
}

static bool is_resting(const struct host *f)
{
    return f->users.engine.engine->fleet->leases.resume_ns > 0;
}

static const char *const programs[] = { "a.cl", "b.cl", "c.cl" };

TEST_F(lease, a_wait_in_vain_ends_with_a_compile)
{
    probe(f, FLEET_END_EXISTS);
    wait_in_vain(f, programs, 1);
    assert_int_equal(count(f, "expired"), 1);
    assert_false(is_resting(f));
}

TEST_F(lease, three_waits_in_vain_stop_further_waits)
{
    probe(f, FLEET_END_EXISTS);
    wait_in_vain(f, programs, 3);
    assert_true(is_resting(f));
    fetch(f, "d.cl");
    assert_true(is_compiling(f));
    finish_compile(&f->users, "d.cl");
}

TEST_F(lease, a_shared_kernel_permits_further_waits)
{
    make_record(f, "s.cl");
    probe(f, FLEET_END_EXISTS);
    wait_in_vain(f, programs, 2);
    lose_lease(f, "s.cl");
    serve_record(f);
    assert_int_equal(count(f, "shared"), 1);
    wait_in_vain(f, programs + 2, 1);
    assert_false(is_resting(f));
}

/* Lets |seconds| pass. Meanwhile the store does not get the kernels for which the host waits. */
static void wait_more(struct host *f, unsigned seconds)
{
    pass_time(f, seconds);
    while (is_for(next_access(f), "v1/k/"))
        end_access(f, FLEET_END_ABSENT);
}

TEST_F(lease, a_kernel_that_arrives_prolongs_the_waits_for_others)
{
    make_record(f, "s.cl");
    probe(f, FLEET_END_EXISTS);
    f->users.engine.executor.slots = 2;
    lose_lease(f, "a.cl");
    end_access(f, FLEET_END_ABSENT);
    wait_more(f, 20);
    lose_lease(f, "s.cl");
    serve_record(f);
    wait_more(f, 20);
    assert_false(is_compiling(f));
    assert_int_equal(count(f, "expired"), 0);
    wait_more(f, 11);
    assert_int_equal(count(f, "expired"), 1);
    finish_compile(&f->users, "a.cl");
}

/* Otherwise programs would not wait long enough for the compile. */
TEST_F(lease, no_wait_is_longer_than_a_minute)
{
    probe(f, FLEET_END_EXISTS);
    lose_lease(f, "a.cl");
    end_access(f, FLEET_END_ABSENT);
    for (unsigned i = 0; i < 3; i++) {
        assert_false(is_compiling(f));
        fleet_leases_note_shared(&f->users.engine.engine->fleet->leases);
        wait_more(f, i < 2 ? 20 : 21);
    }
    assert_int_equal(count(f, "expired"), 1);
    finish_compile(&f->users, "a.cl");
}

TEST_F(lease, a_store_that_fails_while_a_host_waits_lets_it_compile)
{
    probe(f, FLEET_END_EXISTS);
    lose_lease(f, "a.cl");
    end_access(f, FLEET_END_BROKEN);
    assert_true(is_compiling(f));
    finish_compile(&f->users, "a.cl");
}

/* S3 answers 403 for absent files if the host may not list. */
TEST_F(lease, a_record_that_may_not_be_read_is_not_awaited)
{
    probe(f, FLEET_END_EXISTS);
    lose_lease(f, "a.cl");
    end_access(f, FLEET_END_FORBIDDEN);
    assert_true(is_compiling(f));
    finish_compile(&f->users, "a.cl");
}

TEST_F(lease, a_store_that_fails_ends_all_waits_at_once)
{
    f->users.engine.executor.slots = 2;
    probe(f, FLEET_END_EXISTS);
    lose_lease(f, "a.cl");
    end_access(f, FLEET_END_ABSENT);
    lose_lease(f, "b.cl");
    end_access(f, FLEET_END_UNREACHABLE);
    assert_null(next_access(f));
    finish_compile(&f->users, "object");
    finish_compile(&f->users, "object");
}

TEST_F(lease, a_store_that_falls_silent_while_a_host_waits_lets_it_compile)
{
    make_record(f, "a.cl");
    probe(f, FLEET_END_EXISTS);
    lose_lease(f, "a.cl");
    end_access(f, FLEET_END_ABSENT);
    pass_time(f, 1);
    assert_int_equal(next_access(f)->budget_ms, FLEET_WAIT_MS);
    fake_executor_fleet_slow(next_access(f));
    assert_true(is_compiling(f));
    assert_false(fleet_tier_is_up(f->users.engine.engine->fleet));
    finish_compile(&f->users, "a.cl");
    serve_record(f); /* comes too late */
    assert_int_equal(count(f, "shared"), 0);
}

TEST_F(lease, a_host_does_not_wait_for_its_own_lease)
{
    probe(f, FLEET_END_EXISTS);
    fetch(f, "a.cl");
    test_caller_cancel(&f->users.ann, 7);
    end_access(f, FLEET_END_DONE);
    assert_false(is_compiling(f));
    fetch(f, "a.cl");
    assert_null(next_access(f));
    assert_true(is_compiling(f));
    finish_own(f, "a.cl");
}

/* After a restart, a host does not know its earlier leases. */
TEST_F(lease, a_host_that_restarted_waits_for_its_own_lease_as_for_others)
{
    probe(f, FLEET_END_EXISTS);
    fetch(f, "a.cl");
    end_access(f, FLEET_END_DONE);
    assert_true(is_compiling(f));
    finish_compiles(&f->users, bytes_of_text("object"));
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
    start_builder(f, 0);
    probe(f, FLEET_END_EXISTS);
    wait_in_vain(f, programs, 1);
    assert_int_equal(count(f, "expired"), 1);
}

TEST_F(lease, many_leases_need_one_descriptor)
{
    char program[32];
    f->users.engine.executor.slots = 20;
    probe(f, FLEET_END_EXISTS);
    fetch(f, "a.cl");
    unsigned before = descriptor_count(getpid());
    for (unsigned i = 0; i < 20; i++) {
        snprintf(program, sizeof(program), "%u.cl", i);
        fetch(f, program);
    }
    assert_int_equal(descriptor_count(getpid()), before);
    while (next_access(f))
        end_access(f, FLEET_END_FORBIDDEN);
    finish_compiles(&f->users, bytes_of_text("object"));
}

/* Requests the leases of |count| kernels. Returns how many of them were requested. */
static unsigned request_leases(struct host *f, struct test_caller *caller, unsigned count)
{
    char program[32];
    unsigned requested = 0;
    for (unsigned i = 0; i < count; i++) {
        snprintf(program, sizeof(program), "%u-%u.cl", (unsigned)caller->base.uid, i);
        fetch_as(f, caller, program);
        requested += !is_compiling(f);
        while (is_compiling(f))
            finish_compile(&f->users, "object");
    }
    return requested;
}

static void refuse_leases(struct host *f)
{
    while (next_access(f)) {
        end_access(f, FLEET_END_FORBIDDEN);
        while (is_compiling(f))
            finish_compile(&f->users, "object");
        test_caller_forget_replies(&f->users.ann);
        test_caller_forget_replies(&f->users.bob);
    }
}

TEST_F(lease, one_user_gets_at_most_256_leases_at_a_time)
{
    f->users.engine.executor.slots = 260;
    probe(f, FLEET_END_EXISTS);
    assert_int_equal(request_leases(f, &f->users.ann, 260), 256);
    assert_int_equal(request_leases(f, &f->users.bob, 1), 1);
    refuse_leases(f);
    fetch(f, "again.cl");
    assert_false(is_compiling(f));
    end_access(f, FLEET_END_FORBIDDEN);
    finish_compile(&f->users, "object");
}

static unsigned count_requests(const struct host *f)
{
    return f->users.engine.executor.fleet_accesses_handed_over;
}

/* Requests five kernels of ann and one of bob, in this order, of an engine with one compiler.
 * Returns how many requests the engine had sent to the fleet before it requested leases. */
static unsigned request_six(struct host *f)
{
    char program[32];
    f->users.engine.executor.slots = 1;
    probe(f, FLEET_END_EXISTS);
    unsigned before = count_requests(f) + 1; /* the index */
    for (unsigned i = 0; i < 5; i++) {
        snprintf(program, sizeof(program), "%u.cl", i);
        fetch(f, program);
    }
    fetch_as(f, &f->users.bob, "b.cl");
    return before;
}

static void prefetch(struct host *f, struct test_caller *caller, const char *program)
{
    test_caller_fetch_source(caller, 8, program, PRIORITY_PREFETCH);
    fake_executor_run_tasks(&f->users.engine.executor);
    if (is_for(next_access(f), "v1/i/"))
        end_access(f, FLEET_END_ABSENT);
}

/* Prefetches five kernels of ann with one compiler, so that the leases of three are not requested
 * yet. Returns how many requests the engine has sent to the fleet. */
static unsigned prefetch_five(struct host *f)
{
    char program[32];
    f->users.engine.executor.slots = 1;
    probe(f, FLEET_END_EXISTS);
    unsigned before = count_requests(f) + 1; /* the index */
    for (unsigned i = 0; i < 5; i++) {
        snprintf(program, sizeof(program), "%u.cl", i);
        prefetch(f, &f->users.ann, program);
    }
    assert_int_equal(count_requests(f) - before, 2);
    return before + 2;
}

static void finish_six(struct host *f)
{
    while (next_access(f) || is_compiling(f)) {
        if (next_access(f))
            end_access(f, FLEET_END_FORBIDDEN);
        else
            finish_compile(&f->users, "object");
    }
}

TEST_F(lease, a_host_requests_only_leases_that_it_can_soon_use)
{
    unsigned before = request_six(f);
    assert_int_equal(count_requests(f) - before, 3); /* two of ann, and bob's */
    end_access(f, FLEET_END_DONE);                   /* is compiled now */
    end_access(f, FLEET_END_DONE);
    end_access(f, FLEET_END_DONE); /* these two wait for the compiler */
    assert_null(next_access(f));
    finish_own(f, "object");
    assert_int_equal(count_requests(f) - before, 5); /* an upload, and another lease */
    end_access(f, FLEET_END_DONE);
    assert_null(next_access(f));
    finish_own(f, "object");
    assert_int_equal(count_requests(f) - before, 7);
    finish_six(f);
}

TEST_F(lease, more_users_hold_only_one_more_lease_each)
{
    f->users.engine.executor.slots = 1;
    probe(f, FLEET_END_EXISTS);
    for (unsigned i = 0; i < 3; i++) {
        fetch(f, (const char *[]){ "0.cl", "1.cl", "2.cl" }[i]);
        end_access(f, FLEET_END_DONE);
    }
    unsigned before = count_requests(f);
    fetch_as(f, &f->users.bob, "b.cl");
    fetch_as(f, &f->users.bob, "c.cl");
    assert_int_equal(count_requests(f) - before, 1);
    end_access(f, FLEET_END_DONE);
    assert_int_equal(count_requests(f) - before, 1);
    finish_six(f);
}

TEST_F(lease, a_user_who_waits_for_another_host_may_hold_one_more_lease)
{
    f->users.engine.executor.slots = 1;
    probe(f, FLEET_END_EXISTS);
    for (unsigned i = 0; i < 3; i++) {
        fetch(f, (const char *[]){ "0.cl", "1.cl", "2.cl" }[i]);
        end_access(f, FLEET_END_DONE);
    }
    fetch_as(f, &f->users.bob, "b.cl");
    end_access(f, FLEET_END_EXISTS);
    assert_true(is_for(next_access(f), "v1/k/"));
    unsigned before = count_requests(f);
    fetch_as(f, &f->users.bob, "c.cl");
    assert_int_equal(count_requests(f) - before, 1);
    finish_six(f);
}

TEST_F(lease, users_take_turns_in_requesting_leases)
{
    request_six(f);
    for (unsigned i = 0; i < 3; i++)
        end_access(f, FLEET_END_FORBIDDEN);
    for (unsigned i = 0; i < 3; i++)
        finish_compile(&f->users, "object");
    assert_int_equal(f->users.bob.reply_count, 1);
    finish_six(f);
}

TEST_F(lease, the_kernels_of_a_large_batch_keep_their_order)
{
    f->users.engine.executor.slots = 1;
    probe(f, FLEET_END_EXISTS);
    unsigned before = count_requests(f) + 1; /* the index */
    assert_int_equal(request_leases(f, &f->users.ann, 260), 260);
    assert_int_equal(count_requests(f) - before, 2);
    refuse_leases(f);
}

TEST_F(lease, a_kernel_that_is_needed_now_does_not_wait_for_prefetches)
{
    unsigned before = prefetch_five(f);
    fetch(f, "now.cl");
    assert_int_equal(count_requests(f) - before, 1);
    finish_six(f);
}

TEST_F(lease, a_prefetched_kernel_that_is_needed_now_waits_no_longer)
{
    unsigned before = prefetch_five(f);
    fetch(f, "4.cl");
    assert_int_equal(count_requests(f) - before, 1);
    finish_six(f);
}

TEST_F(lease, a_user_does_not_wait_for_the_other_kernels_of_another)
{
    (void)prefetch_five(f);
    prefetch(f, &f->users.bob, "4.cl");
    for (unsigned i = 0; i < 3; i++)
        end_access(f, FLEET_END_FORBIDDEN);
    for (unsigned i = 0; i < 3; i++)
        finish_compile(&f->users, "object");
    assert_int_equal(f->users.bob.reply_count, 1);
    finish_six(f);
}

TEST_F(lease, a_store_that_fails_lets_all_compiles_begin)
{
    request_six(f);
    for (unsigned i = 0; i < 3; i++)
        end_access(f, FLEET_END_UNREACHABLE);
    assert_null(next_access(f));
    unsigned compiles = 0;
    for (; is_compiling(f); compiles++)
        finish_compile(&f->users, "object");
    assert_int_equal(compiles, 6);
}

TEST_F(lease, a_short_compile_needs_no_lease)
{
    start_builder(f, 2ull * SECOND_NS);
    probe(f, FLEET_END_EXISTS);
    fetch(f, "a.cl");
    assert_null(next_access(f));
    assert_true(is_compiling(f));
    finish_compile(&f->users, "a.cl");
}

TEST_F(lease, a_long_compile_needs_no_lease)
{
    probe(f, FLEET_END_EXISTS);
    fetch(f, "a.cl");
    end_access(f, FLEET_END_DONE);
    metrics_compile_ended(&f->users.engine.engine->metrics,
                          fake_executor_next_compile(&f->users.engine.executor)->job.toolchain,
                          COMPILE_DONE, 30ull * SECOND_NS);
    finish_own(f, "object");
    fetch(f, "b.cl");
    assert_true(is_compiling(f));
    finish_own(f, "object");
}

TEST_F(lease, a_slow_lease_lets_the_compile_begin)
{
    probe(f, FLEET_END_EXISTS);
    fetch(f, "a.cl");
    fake_executor_fleet_slow(next_access(f));
    assert_true(is_compiling(f));
    end_access(f, FLEET_END_EXISTS);
    assert_null(next_access(f));
    finish_compile(&f->users, "a.cl");
}

/* The store still answers other requests. */
TEST_F(lease, a_slow_lease_does_not_hold_back_others)
{
    unsigned before = prefetch_five(f);
    struct fleet_access *slow = next_access(f);
    f->users.engine.engine->fleet->answered_ns = UINT64_MAX;
    fake_executor_fleet_slow(slow);
    assert_true(is_compiling(f));
    assert_int_equal(count_requests(f) - before, 1);
    finish_six(f);
}

TEST_F(lease, nobody_waits_for_other_hosts_when_the_engine_stops)
{
    probe(f, FLEET_END_EXISTS);
    lose_lease(f, "a.cl");
    end_access(f, FLEET_END_ABSENT);
    engine_drain(f->users.engine.engine);
    assert_int_equal(f->users.ann.reply_count, 1);
    assert_true(fleet_tier_is_idle(f->users.engine.engine->fleet));
}
