/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/fleet_users.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/hex.h"
#include "engine/service/fleet/fleet_parts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_NS 1000000000u
#define ABSENT "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static uint64_t passed_ns = 3600ull * SECOND_NS;

WRAP(uint64_t, clock_monotonic_ns, void) { return ++passed_ns; }

static bool is_compiling(const struct fleet_users *f)
{
    return !list_is_empty(&f->users.engine.executor.compiles);
}

TEST_F(fleet, a_kernel_of_the_fleet_is_not_compiled)
{
    fetch_cold(f, "a.cl");
    serve_all(f);
    assert_false(is_compiling(f));
    expect_tier(f, TIER_FLEET);
    assert_int_equal(users_stat(&f->users, "hits.fleet"), 1);
    assert_int_equal(count_gets(f), 3); /* pointer, index, record */
}

TEST_F(fleet, a_kernel_of_the_fleet_is_in_the_history)
{
    fetch_cold(f, "a.cl");
    serve_all(f);
    KILN_AUTO(json) struct json *answer = test_caller_ask(&f->users.ann, MESSAGE_history, "{}");
    const struct json *hits = json_get(json_get(answer, "current"), "hits");
    assert_int_equal(json_get_u64(hits, "fleet", 0), 1);
}

TEST_F(fleet, a_kernel_of_the_fleet_is_stored)
{
    fetch_cold(f, "a.cl");
    serve_all(f);
    users_reopen(&f->users);
    fetch_cold(f, "a.cl");
    expect_tier(f, TIER_DISK);
}

TEST_F(fleet, kernels_from_the_fleet_are_not_pushed_again)
{
    fetch_cold(f, "a.cl");
    serve_all(f);
    test_caller_refused(&f->users.admin, MESSAGE_fleet_export, "{}", KILN_NOT_FOUND, "compiled");
}

TEST_F(fleet, requests_and_their_ends_are_counted)
{
    fetch_cold(f, "a.cl");
    serve_all(f);
    struct test_caller *admin = &f->users.admin;
    assert_int_equal(test_caller_metric(admin, "kiln_fleet_requests_total{result=\"done\"}"), 3);
    assert_int_equal(test_caller_metric(admin, "kiln_fleet_requests_total{result=\"absent\"}"), 0);
    assert_int_equal(test_caller_metric(admin, "kiln_fleet_up"), 1);
    fetch_cold(f, "b.cl");
    fake_executor_fleet_failed(next_get(f), FLEET_END_FORBIDDEN);
    assert_int_equal(test_caller_metric(admin, "kiln_fleet_requests_total{result=\"forbidden\"}"),
                     1);
}

TEST_F(fleet, a_key_that_the_index_lacks_costs_no_request)
{
    fetch_cold(f, "a.cl");
    serve_all(f);
    unsigned before = count_gets(f);
    fetch_cold(f, "new.cl");
    assert_true(is_compiling(f));
    assert_int_equal(count_gets(f), before);
    finish_compile(&f->users, "new");
}

TEST_F(fleet, several_kernels_wait_for_one_index)
{
    fetch_cold(f, "a.cl");
    fetch_program(&f->users.ann, 8, "b.cl");
    fetch_program(&f->users.ann, 9, "new.cl");
    assert_int_equal(count_gets(f), 1);
    serve_all(f);
    assert_int_equal(count_gets(f), 4);
    assert_int_equal(f->users.ann.reply_count, 2);
    finish_compile(&f->users, "new");
    assert_int_equal(f->users.ann.reply_count, 3);
}

TEST_F(fleet, identical_requests_get_one_record)
{
    fetch_cold(f, "a.cl");
    test_caller_forget_replies(&f->users.bob);
    fetch_program(&f->users.bob, 8, "a.cl");
    serve_all(f);
    assert_int_equal(count_gets(f), 3);
    assert_int_equal(last_result(&f->users.bob).tier, TIER_FLEET);
}

TEST_F(fleet, a_slow_index_lets_the_compile_begin)
{
    fetch_cold(f, "a.cl");
    fake_executor_fleet_slow(next_get(f));
    assert_true(is_compiling(f));
    finish_compile(&f->users, "compiled here");
    expect_tier(f, TIER_COMPILED);
    serve_all(f); /* the late index is still accepted */
}

TEST_F(fleet, look_ups_that_a_slow_index_delayed_are_counted_as_late)
{
    fetch_cold(f, "a.cl");
    fetch_program(&f->users.ann, 8, "b.cl");
    fake_executor_fleet_slow(next_get(f));
    assert_int_equal(test_caller_metric(&f->users.admin, "kiln_fleet_late_total"), 2);
    finish_compiles(&f->users, bytes_of_text("object"));
    serve_all(f);
}

/* The look-up waits for the pointer (|served| 0) or the record (2). */
static void leave_slow_look_up(struct fleet_users *f, unsigned served)
{
    fetch_cold(f, "a.cl");
    while (served-- > 0)
        serve_one(f);
    test_caller_cancel(&f->users.ann, 7);
    fake_executor_fleet_slow(next_get(f));
    assert_int_equal(test_caller_metric(&f->users.admin, "kiln_fleet_late_total"), 0);
    serve_all(f);
}

TEST_F(fleet, look_ups_for_an_index_do_not_count_as_late_if_the_caller_has_left)
{
    leave_slow_look_up(f, 0);
}

TEST_F(fleet, look_ups_for_a_record_do_not_count_as_late_if_the_caller_has_left)
{
    leave_slow_look_up(f, 2);
}

TEST_F(fleet, after_a_slow_answer_nobody_waits)
{
    fetch_cold(f, "a.cl");
    fake_executor_fleet_slow(next_get(f));
    unsigned before = count_gets(f);
    fetch_program(&f->users.ann, 8, "b.cl");
    assert_int_equal(count_gets(f), before);
    finish_compiles(&f->users, bytes_of_text("object"));
    assert_int_equal(f->users.ann.reply_count, 2);
    serve_all(f);
}

/* The fleet's store may always be slow. After one late answer, the engine therefore compiles other
 * kernels without a request to the store. */
TEST_F(fleet, a_late_answer_does_not_make_others_wait)
{
    fetch_cold(f, "a.cl");
    fake_executor_fleet_slow(next_get(f));
    finish_compile(&f->users, "object");
    serve_all(f);
    unsigned before = count_gets(f);
    fetch_cold(f, "b.cl");
    assert_int_equal(count_gets(f), before);
    finish_compile(&f->users, "object");
}

TEST_F(fleet, a_late_record_fills_the_store)
{
    fetch_cold(f, "a.cl");
    serve_one(f);
    serve_one(f);
    fake_executor_fleet_slow(next_get(f));
    assert_true(is_compiling(f));
    test_caller_cancel(&f->users.ann, 7); /* the compile now has no client */
    serve_all(f);
    users_reopen(&f->users);
    fetch_cold(f, "a.cl");
    expect_tier(f, TIER_DISK);
}

static const enum fleet_end failures[] = { FLEET_END_BROKEN, FLEET_END_UNREACHABLE,
                                           FLEET_END_TIMED_OUT, FLEET_END_STOPPED };

TEST_F(fleet, a_store_that_fails_is_tried_by_nobody_who_waits)
{
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        char program[32];
        restart_with_fleet(f);
        snprintf(program, sizeof(program), "%zu.cl", i);
        fetch_cold(f, program);
        fake_executor_fleet_failed(next_get(f), failures[i]);
        assert_true(is_compiling(f));
        finish_compile(&f->users, "object");
        unsigned before = count_gets(f);
        fetch_cold(f, "a.cl");
        assert_int_equal(count_gets(f), before);
        finish_compile(&f->users, "object");
        json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
    }
}

TEST_F(fleet, a_store_that_failed_is_tried_again_after_a_while)
{
    fetch_cold(f, "new.cl");
    fake_executor_fleet_failed(next_get(f), FLEET_END_UNREACHABLE);
    finish_compile(&f->users, "object");
    engine_tick(f->users.engine.engine);
    assert_null(next_get(f));
    passed_ns += FLEET_POINTER_NS;
    engine_tick(f->users.engine.engine);
    serve_all(f);
    fetch_cold(f, "a.cl");
    serve_all(f);
    expect_tier(f, TIER_FLEET);
}

static uint64_t retry_in_ns(struct fleet_users *f)
{
    return f->users.engine.engine->fleet->retry_ns - clock_monotonic_ns();
}

/* Makes the store fail for a host that has not asked it before. |wait_s|: what the store says. */
static void fail_store(struct fleet_users *f, enum fleet_end end, uint64_t wait_s)
{
    restart_with_fleet(f);
    fetch_cold(f, "new.cl");
    next_get(f)->wait_s = wait_s;
    fake_executor_fleet_failed(next_get(f), end);
    finish_compile(&f->users, "object");
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
}

TEST_F(fleet, hosts_try_a_store_that_failed_again_at_different_times)
{
    uint64_t first = 0, least = UINT64_MAX, most = 0;
    for (unsigned i = 0; i < 4; i++) {
        fail_store(f, FLEET_END_UNREACHABLE, 0);
        first = retry_in_ns(f);
        assert_in_range(first, 25ull * SECOND_NS, 60ull * SECOND_NS);
        least = first < least ? first : least;
        most = first > most ? first : most;
    }
    assert_true(most - least > SECOND_NS / 1000); /* equal only once in some 10^13 runs */
}

TEST_F(fleet, requests_that_fail_together_count_as_one_failure)
{
    struct fleet_tier *tier;
    fetch_cold(f, "a.cl");
    serve_one(f);
    serve_one(f);
    fetch_program(&f->users.ann, 8, "b.cl");
    tier = f->users.engine.engine->fleet;
    while (next_get(f))
        fake_executor_fleet_failed(next_get(f), FLEET_END_UNREACHABLE);
    finish_compiles(&f->users, bytes_of_text("object"));
    assert_int_equal(fleet_tier_ends(tier, FLEET_END_UNREACHABLE), 2);
    assert_int_equal(tier->pause_ns, 60ull * SECOND_NS);
    passed_ns += 60ull * SECOND_NS;
    engine_tick(f->users.engine.engine);
    fake_executor_fleet_failed(next_get(f), FLEET_END_UNREACHABLE);
    assert_int_equal(tier->pause_ns, 120ull * SECOND_NS);
}

TEST_F(fleet, a_slow_attempt_to_reach_a_store_that_failed_has_failed)
{
    fail_store(f, FLEET_END_UNREACHABLE, 0);
    struct fleet_tier *tier = f->users.engine.engine->fleet;
    passed_ns += 60ull * SECOND_NS;
    engine_tick(f->users.engine.engine);
    fake_executor_fleet_slow(next_get(f));
    assert_int_equal(tier->pause_ns, 120ull * SECOND_NS);
    assert_in_range(retry_in_ns(f), 55ull * SECOND_NS, 120ull * SECOND_NS);
    serve_all(f);
    assert_false(fleet_tier_is_up(tier));
    passed_ns += 120ull * SECOND_NS;
    engine_tick(f->users.engine.engine);
    serve_all(f);
    assert_true(fleet_tier_is_up(tier));
    assert_int_equal(tier->pause_ns, 0);
}

TEST_F(fleet, a_busy_store_is_left_alone_and_counted_apart)
{
    fail_store(f, FLEET_END_BUSY, 0);
    struct fleet_tier *tier = f->users.engine.engine->fleet;
    assert_int_equal(fleet_tier_ends(tier, FLEET_END_BUSY), 1);
    assert_int_equal(fleet_tier_ends(tier, FLEET_END_ABSENT), 0);
    assert_in_range(retry_in_ns(f), SECOND_NS, 4ull * SECOND_NS);
    unsigned before = count_gets(f);
    fetch_cold(f, "a.cl");
    assert_int_equal(count_gets(f), before);
    finish_compile(&f->users, "object");
    passed_ns += 4ull * SECOND_NS;
    engine_tick(f->users.engine.engine);
    fake_executor_fleet_failed(next_get(f), FLEET_END_BUSY);
    assert_in_range(retry_in_ns(f), 3ull * SECOND_NS, 8ull * SECOND_NS);
    passed_ns += 8ull * SECOND_NS;
    engine_tick(f->users.engine.engine);
    serve_all(f);
    assert_true(fleet_tier_is_up(tier));
    assert_int_equal(tier->pause_ns, 0);
}

static void answer_both(struct fleet_users *f, enum fleet_end first)
{
    restart_with_fleet(f);
    fetch_cold(f, "a.cl");
    serve_one(f);
    serve_one(f);
    fetch_program(&f->users.ann, 8, "b.cl");
    fake_executor_fleet_failed(next_get(f), first);
    assert_false(fleet_tier_is_up(f->users.engine.engine->fleet));
    serve_one(f);
    finish_compiles(&f->users, bytes_of_text("object"));
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
}

TEST_F(fleet, an_answer_to_an_earlier_request_does_not_show_that_the_store_works)
{
    answer_both(f, FLEET_END_BUSY);
    assert_false(fleet_tier_is_up(f->users.engine.engine->fleet));
    answer_both(f, FLEET_END_UNREACHABLE);
    assert_false(fleet_tier_is_up(f->users.engine.engine->fleet));
}

TEST_F(fleet, a_busy_store_is_left_alone_as_long_as_it_wants)
{
    fail_store(f, FLEET_END_BUSY, 20);
    assert_in_range(retry_in_ns(f), 15ull * SECOND_NS, 22ull * SECOND_NS);
    fail_store(f, FLEET_END_BUSY, UINT64_MAX);
    assert_in_range(retry_in_ns(f), 290ull * SECOND_NS, 302ull * SECOND_NS);
}

static const enum fleet_end refusals[] = { FLEET_END_ABSENT, FLEET_END_FORBIDDEN, FLEET_END_REFUSED,
                                           FLEET_END_MALFORMED };

TEST_F(fleet, a_shard_without_an_index_is_not_asked_again_at_once)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        char program[32];
        restart_with_fleet(f);
        snprintf(program, sizeof(program), "%zu.cl", i);
        fetch_cold(f, program);
        fake_executor_fleet_failed(next_get(f), refusals[i]);
        finish_compile(&f->users, "object");
        unsigned before = count_gets(f);
        fetch_cold(f, "a.cl");
        assert_int_equal(count_gets(f), before);
        finish_compile(&f->users, "object");
        json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
    }
}

static uint64_t count_faults(const struct fleet_users *f, enum fleet_fault fault)
{
    return f->users.engine.engine->fleet->faults[fault];
}

TEST_F(fleet, a_record_with_wrong_bytes_is_compiled_and_not_requested_again)
{
    fetch_cold(f, "a.cl");
    serve_one(f);
    serve_one(f);
    KILN_AUTO(mem) uint8_t *zeros = calloc(1, (size_t)next_get(f)->size);
    fake_executor_fleet_got(next_get(f), bytes_of(zeros, (size_t)next_get(f)->size));
    run_tasks(f);
    assert_int_equal(count_faults(f, FLEET_FAULT_MALFORMED), 1);
    finish_compile(&f->users, "object");
    expect_tier(f, TIER_COMPILED);

    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
    unsigned before = count_gets(f);
    fetch_cold(f, "a.cl");
    assert_int_equal(count_gets(f), before);
    finish_compile(&f->users, "object");
}

TEST_F(fleet, a_truncated_record_is_compiled)
{
    fetch_cold(f, "a.cl");
    serve_one(f);
    serve_one(f);
    fake_executor_fleet_got(next_get(f), bytes_of_text("KILNREC1"));
    run_tasks(f);
    finish_compile(&f->users, "object");
    expect_tier(f, TIER_COMPILED);
}

TEST_F(fleet, a_rubbish_pointer_is_a_miss)
{
    fetch_cold(f, "a.cl");
    fake_executor_fleet_got(next_get(f), bytes_of_text("<html>"));
    run_tasks(f);
    finish_compile(&f->users, "object");
    expect_tier(f, TIER_COMPILED);
    assert_int_equal(count_faults(f, FLEET_FAULT_MALFORMED), 1);
}

TEST_F(fleet, an_index_with_wrong_bytes_is_not_used)
{
    fetch_cold(f, "a.cl");
    serve_one(f);
    fake_executor_fleet_got(next_get(f), bytes_of_text("another index"));
    run_tasks(f);
    finish_compile(&f->users, "object");
    assert_int_equal(count_faults(f, FLEET_FAULT_WRONG_BYTES), 1);
}

static void revoke_key(struct fleet_users *f)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/builder.pub", f->keys);
    assert_int_equal(unlink(path), 0);
}

TEST_F(fleet, kernels_of_a_revoked_key_are_compiled)
{
    revoke_key(f);
    restart_with_fleet(f);
    fetch_cold(f, "a.cl");
    serve_all(f);
    finish_compile(&f->users, "object");
    expect_tier(f, TIER_COMPILED);
    assert_int_equal(count_faults(f, FLEET_FAULT_UNTRUSTED), 1);
}

TEST_F(fleet, a_key_that_is_revoked_while_kilnd_runs_counts_a_minute_at_most)
{
    fetch_cold(f, "a.cl");
    serve_all(f);
    revoke_key(f);
    passed_ns += FLEET_POINTER_NS;
    engine_tick(f->users.engine.engine);
    run_tasks(f);
    serve_all(f);
    assert_int_equal(count_faults(f, FLEET_FAULT_UNTRUSTED), 1);
    fetch_cold(f, "b.cl");
    assert_null(next_get(f));
    assert_true(is_compiling(f));
}

TEST_F(fleet, an_index_of_a_key_that_is_revoked_meanwhile_is_not_used)
{
    fetch_cold(f, "a.cl");
    serve_one(f);
    revoke_key(f);
    struct fleet_access *get = next_get(f);
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FLEET_INDEX_MAX);
    must(fleet_tree_read(f->root, get->name, &content, &f->err), f->err);
    passed_ns += FLEET_POINTER_NS;
    /* the engine reads the trusted keys again before the index arrives */
    engine_tick(f->users.engine.engine);
    fake_executor_fleet_got(get, buffer_view(&content));
    run_tasks(f);
    assert_int_equal(count_faults(f, FLEET_FAULT_UNTRUSTED), 1);
    finish_compile(&f->users, "object");
    expect_tier(f, TIER_COMPILED);
}

static void copy_current(struct fleet_users *f, const char *from, const char *to)
{
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, FLEET_POINTER_MAX);
    must(fleet_tree_read(f->root, from, &text, &f->err), f->err);
    must(fleet_tree_replace(f->root, to, buffer_view(&text), &f->err), f->err);
}

TEST_F(fleet, an_index_that_is_rolled_back_is_refused_after_a_restart)
{
    char current[FLEET_NAME_MAX];
    fetch_cold(f, "a.cl");
    snprintf(current, sizeof(current), "%s", next_get(f)->name);
    copy_current(f, current, "v1/old");
    serve_all(f);

    fetch_cold(f, "new.cl");
    finish_compile(&f->users, "object");
    push_kernels(f); /* with a higher epoch */
    restart_with_fleet(f);
    fetch_cold(f, "b.cl");
    serve_all(f);
    expect_tier(f, TIER_FLEET);

    copy_current(f, "v1/old", current);
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
    restart_with_fleet(f);
    fetch_cold(f, "a.cl");
    serve_all(f);
    finish_compile(&f->users, "object");
    expect_tier(f, TIER_COMPILED);
    assert_int_equal(count_faults(f, FLEET_FAULT_ROLLED_BACK), 1);
}

TEST_F(fleet, a_caller_that_leaves_does_not_stop_the_record)
{
    fetch_cold(f, "a.cl");
    test_caller_cancel(&f->users.ann, 7);
    serve_all(f);
    assert_false(is_compiling(f));
    fetch_cold(f, "a.cl");
    serve_all(f);
    expect_tier(f, TIER_FLEET);
}

TEST_F(fleet, an_index_is_refreshed_before_it_is_used_after_an_idle_time)
{
    fetch_cold(f, "new.cl");
    serve_all(f);
    finish_compile(&f->users, "object");
    push_kernels(f);
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
    passed_ns += 10 * FLEET_POINTER_NS;
    fetch_cold(f, "new.cl");
    serve_all(f);
    expect_tier(f, TIER_FLEET);
}

TEST_F(fleet, after_an_idle_time_an_unchanged_index_is_requested_once)
{
    fetch_cold(f, "a.cl");
    serve_all(f);
    passed_ns += 10 * FLEET_POINTER_NS;
    unsigned before = count_gets(f);
    fetch_cold(f, "b.cl");
    serve_all(f);
    expect_tier(f, TIER_FLEET);
    assert_int_equal(count_gets(f), before + 2); /* pointer, record */
    fetch_cold(f, "new.cl");
    assert_true(is_compiling(f));
    assert_int_equal(count_gets(f), before + 2);
    finish_compile(&f->users, "object");
}

/* Lets time pass until the index is old. Returns how many files the engine then requests from the
 * fleet. */
static unsigned refresh(struct fleet_users *f)
{
    unsigned before = count_gets(f);
    passed_ns += FLEET_POINTER_NS;
    engine_tick(f->users.engine.engine);
    run_tasks(f);
    serve_all(f);
    return count_gets(f) - before;
}

TEST_F(fleet, a_refused_index_is_not_requested_every_minute)
{
    struct fleet_signer other = fleet_test_signer(2);
    revoke_key(f);
    restart_with_fleet(f);
    fetch_cold(f, "a.cl");
    serve_all(f);
    assert_int_equal(count_gets(f), 2); /* pointer, index */
    finish_compile(&f->users, "object");
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(refresh(f), 1);
    assert_int_equal(count_faults(f, FLEET_FAULT_UNTRUSTED), 1);

    fleet_test_trust(f->keys, &other, &(struct fleet_test_key){ "other", "*", true });
    /* The engine also reads the keys every minute. It finds a new key, so it requests the index
     * again. */
    assert_int_equal(refresh(f), 2);
    assert_int_equal(refresh(f), 1);
    assert_int_equal(count_faults(f, FLEET_FAULT_UNTRUSTED), 2);
    fleet_test_trust(f->keys, &f->signer, &(struct fleet_test_key){ "builder", "*", true });
    refresh(f);
    fetch_cold(f, "b.cl");
    serve_all(f);
    expect_tier(f, TIER_FLEET);
}

/* At the next request, the store or a proxy may send the right bytes. */
TEST_F(fleet, an_index_with_wrong_bytes_is_requested_again)
{
    fetch_cold(f, "a.cl");
    serve_one(f);
    fake_executor_fleet_got(next_get(f), bytes_of_text("another index"));
    run_tasks(f);
    finish_compile(&f->users, "object");
    assert_int_equal(refresh(f), 2);
    fetch_cold(f, "b.cl");
    serve_all(f);
    expect_tier(f, TIER_FLEET);
}

/* A mirror may get the new pointer before the index to which it points. */
TEST_F(fleet, an_index_is_used_until_the_new_one_is_there)
{
    char current[FLEET_NAME_MAX];
    fetch_cold(f, "a.cl");
    snprintf(current, sizeof(current), "%s", next_get(f)->name);
    serve_all(f);
    must(fleet_tree_replace(f->root, current, bytes_of_text("kiln-fleet-pointer-1 2 " ABSENT "\n"),
                            &f->err),
         f->err);
    passed_ns += FLEET_POINTER_NS;
    engine_tick(f->users.engine.engine);
    serve_all(f);
    fetch_cold(f, "b.cl");
    serve_all(f);
    expect_tier(f, TIER_FLEET);
}

TEST_F(fleet, a_new_index_is_found_after_80_seconds)
{
    fetch_cold(f, "new.cl");
    serve_all(f);
    finish_compile(&f->users, "object");
    push_kernels(f);
    json_destroy(test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"all\":true}"));
    passed_ns += FLEET_POINTER_NS;
    engine_tick(f->users.engine.engine);
    serve_all(f);
    fetch_cold(f, "new.cl");
    serve_all(f);
    expect_tier(f, TIER_FLEET);
}

static void mark_revoked(struct fleet_users *f)
{
    char path[200], name[FLEET_REVOKED_NAME_MAX];
    fleet_revoked_name(f->signer.key_id, name);
    snprintf(path, sizeof(path), "%s/%s", f->keys, name);
    must(fs_replace_file(path, bytes_of_text(""), 0644, &f->err), f->err);
}

/* Revokes the key of |f| as 'kilnctl fleet revoke' does. Returns how many indices were dropped. */
static uint64_t revoke_by_request(struct fleet_users *f)
{
    mark_revoked(f);
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->users.admin, MESSAGE_fleet_keys, NULL);
    assert_int_equal(json_get_u64(json_get(answer, "keys"), "revoked", 0), 1);
    assert_int_equal(json_get_u64(json_get(answer, "keys"), "trusted", 9), 0);
    return json_get_u64(answer, "dropped", 99);
}

TEST_F(fleet, a_revoked_key_is_not_trusted_from_the_next_answer_on)
{
    fetch_cold(f, "a.cl");
    serve_all(f);
    assert_int_equal(revoke_by_request(f), 1);
    fetch_cold(f, "b.cl");
    serve_all(f);
    assert_true(is_compiling(f));
    finish_compile(&f->users, "object");
}

TEST_F(fleet, a_record_that_is_read_while_its_key_is_revoked_is_not_used)
{
    fetch_cold(f, "a.cl");
    serve_one(f);
    serve_one(f);
    struct fleet_access *get = next_get(f); /* of the record */
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FLEET_INDEX_MAX);
    must(fleet_tree_read(f->root, get->name, &content, &f->err), f->err);
    fake_executor_fleet_got(get, bytes_of(content.data + get->offset, (size_t)get->size));
    fake_executor_begin_task(&f->users.engine.executor); /* verifies it with the old keys */
    mark_revoked(f);
    struct engine *e = f->users.engine.engine;
    struct trusted *keys = NULL;
    uint64_t number = fleet_keys_begin(e);
    must(fleet_keys_read(e->fleet, &keys, &f->err), f->err);
    (void)fleet_keys_install(e, keys, number);
    run_tasks(f);
    assert_true(is_compiling(f));
    assert_int_equal(fleet_tier_faults(e->fleet, FLEET_FAULT_UNTRUSTED), 1);
    finish_compile(&f->users, "object");
}

TEST_F(fleet, keys_that_were_read_before_a_revocation_are_not_used_after_it)
{
    struct engine *e = f->users.engine.engine;
    struct trusted *keys = NULL;
    uint64_t number = fleet_keys_begin(e);
    must(fleet_keys_read(e->fleet, &keys, &f->err), f->err);
    (void)revoke_by_request(f);
    (void)fleet_keys_install(e, keys, number);
    assert_int_equal(fleet_trust_count(e->fleet->trusted->keys), 0);
}

TEST_F(fleet, the_kernels_of_one_key_can_be_listed_and_removed)
{
    char ask[128], id[2 * FLEET_KEY_ID_SIZE + 1];
    fetch_cold(f, "a.cl");
    fetch_program(&f->users.ann, 8, "b.cl");
    serve_all(f);
    hex_write(f->signer.key_id, FLEET_KEY_ID_SIZE, id);
    snprintf(ask, sizeof(ask), "{\"package\":\"fleet:%s\"}", id);
    KILN_AUTO(json) struct json *list = test_caller_ask(&f->users.admin, MESSAGE_kernel_list, ask);
    assert_int_equal(json_count(json_get(list, "kernels")), 2);
    KILN_AUTO(json)
    struct json *others =
        test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"package\":\"fleet:0000000000000000\"}");
    assert_int_equal(json_get_u64(others, "kernels", 9), 0);
    KILN_AUTO(json)
    struct json *all = test_caller_ask(&f->users.admin, MESSAGE_clear, "{\"package\":\"fleet\"}");
    assert_int_equal(json_get_u64(all, "kernels", 0), 2);
}

TEST_F(fleet, status_describes_the_indices)
{
    fetch_cold(f, "a.cl");
    serve_all(f);
    KILN_AUTO(json) struct json *status = ask_status(f);
    const struct json *fleet = json_get(status, "fleet");
    const struct json *shard = json_first(json_get(fleet, "shards"));
    assert_true(json_get_bool(fleet, "up", false));
    assert_int_equal(json_get_u64(json_get(fleet, "keys"), "for_indices", 0), 1);
    assert_int_equal(json_get_u64(json_get(fleet, "requests"), "done", 0), 3);
    assert_null(json_get(fleet, "last_error"));
    assert_null(json_get(fleet, "uploads"));
    assert_true(json_get_u64(shard, "epoch", 0) > 0);
    assert_int_equal(json_get_u64(shard, "kernels", 0), 2);
    assert_true(json_get_u64(shard, "memory_bytes", 0) > 36);
    assert_null(json_get(shard, "trouble"));
}

TEST_F(fleet, status_says_since_when_and_why_the_store_fails)
{
    fetch_cold(f, "a.cl");
    fake_executor_fleet_failed(next_get(f), FLEET_END_UNREACHABLE);
    passed_ns += 5000000000u;
    KILN_AUTO(json) struct json *status = ask_status(f);
    const struct json *fleet = json_get(status, "fleet");
    assert_false(json_get_bool(fleet, "up", true));
    assert_int_equal(json_get_u64(fleet, "broken_s", 0), 5);
    assert_in_range(json_get_u64(fleet, "retry_s", 0), 24, 55);
    assert_says(json_get_text(fleet, "last_error", ""), "cannot be reached");
    assert_says(json_get_text(json_first(json_get(fleet, "shards")), "trouble", ""),
                "cannot be reached");
    finish_compile(&f->users, "object");
}

TEST_F(fleet, status_says_why_an_index_is_not_used)
{
    char pub[200];
    snprintf(pub, sizeof(pub), "%s/builder.pub", f->keys);
    assert_int_equal(unlink(pub), 0);
    restart_with_fleet(f);
    fetch_cold(f, "a.cl");
    serve_all(f);
    KILN_AUTO(json) struct json *status = ask_status(f);
    const struct json *shard = json_first(json_get(json_get(status, "fleet"), "shards"));
    assert_says(json_get_text(shard, "trouble", ""), "no trusted key");
    assert_null(json_get(shard, "epoch"));
    finish_compile(&f->users, "object");
}

static struct shard *open_shard(struct fleet_users *f, unsigned number)
{
    struct fleet_shard what = { bytes_of_text("gfx90a"), bytes_of_text("clang"), { { 0 } } };
    memcpy(what.toolchain_id.bytes, &number, sizeof(number));
    struct shard *shard = shard_of(f->users.engine.engine, &what);
    if (shard)
        shard->asked_ns = clock_monotonic_ns();
    return shard;
}

TEST_F(fleet, at_most_64_indices_are_in_memory)
{
    for (unsigned i = 0; i < FLEET_SHARDS_MAX; i++)
        assert_non_null(open_shard(f, i));
    assert_non_null(open_shard(f, 3));
    assert_null(open_shard(f, FLEET_SHARDS_MAX));
    passed_ns += FLEET_POINTER_NS + 1;
    assert_non_null(open_shard(f, FLEET_SHARDS_MAX));
}
