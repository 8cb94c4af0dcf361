/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/fleet_host.h"

#define LIST_SIZE_MAX 16384

FIXTURE_OF(listing, struct host, host_set_up, NULL);

/* The keys of the kernels for which the host waits. */
static char keys[100][DIGEST_HEX_SIZE];
static unsigned key_count;

static bool is_list(const struct fleet_access *access) { return access && access->is_list; }

static bool is_for_record(const struct fleet_access *access, unsigned i)
{
    return is_for(access, "v1/k/") && strstr(access->name, keys[i]);
}

static unsigned count_requests(const struct host *f)
{
    return f->users.engine.executor.fleet_accesses_handed_over;
}

/* Answers a list with the first |count| of the keys. */
static void answer_list(struct host *f, unsigned count)
{
    char list[LIST_SIZE_MAX] = "";
    for (unsigned i = 0; i < count; i++) {
        size_t size = strlen(list);
        snprintf(list + size, sizeof(list) - size, "%s 3000 1700000000\n", keys[i]);
    }
    assert_true(is_list(next_access(f)));
    fake_executor_fleet_got(next_access(f), bytes_of_text(list));
    fake_executor_run_tasks(&f->users.engine.executor);
}

/* Loses the leases of |count| kernels. No record is there yet. */
static void lose_leases(struct host *f, unsigned count)
{
    char program[32];
    f->users.engine.executor.slots = 50;
    probe(f, FLEET_END_EXISTS);
    for (key_count = 0; key_count < count; key_count++) {
        snprintf(program, sizeof(program), "%u.cl", key_count);
        fetch(f, program);
        assert_true(is_for(next_access(f), "v1/l/") && next_access(f)->is_put);
        snprintf(keys[key_count], DIGEST_HEX_SIZE, "%s", strrchr(next_access(f)->name, '/') + 1);
        end_access(f, FLEET_END_EXISTS);
        if (is_list(next_access(f)))
            answer_list(f, 0);
        else if (next_access(f))
            end_access(f, FLEET_END_ABSENT);
    }
}

/* Ends all waits and requests, and the compiles that begin because of that. */
static void end_all(struct host *f)
{
    fleet_leases_give_up(f->users.engine.engine);
    while (next_access(f) || is_compiling(f)) {
        test_caller_forget_replies(&f->users.ann);
        if (next_access(f))
            end_access(f, FLEET_END_FORBIDDEN);
        else
            finish_compile(&f->users, "object");
    }
}

TEST_F(listing, one_list_replaces_the_requests_for_several_records)
{
    lose_leases(f, 10);
    unsigned before = count_requests(f);
    pass_time(f, 2);
    assert_int_equal(count_requests(f) - before, 1);
    assert_true(is_list(next_access(f)));
    assert_memory_equal(next_access(f)->name, "v1/k/", 5);
    assert_null(strchr(next_access(f)->name + 5, '/'));
    pass_time(f, 10); /* the list has not come yet */
    assert_int_equal(count_requests(f) - before, 1);
    end_all(f);
}

TEST_F(listing, only_listed_records_are_requested)
{
    lose_leases(f, 10);
    pass_time(f, 2);
    unsigned before = count_requests(f);
    answer_list(f, 2);
    assert_int_equal(count_requests(f) - before, 2);
    assert_true(is_for_record(next_access(f), 0));
    end_access(f, FLEET_END_ABSENT);
    assert_true(is_for_record(next_access(f), 1));
    end_all(f);
}

TEST_F(listing, few_records_are_requested_without_a_list)
{
    lose_leases(f, 3);
    unsigned before = count_requests(f);
    pass_time(f, 2);
    assert_int_equal(count_requests(f) - before, 3);
    assert_true(is_for_record(next_access(f), 0));
    end_all(f);
}

TEST_F(listing, at_most_64_records_are_requested_at_the_same_time)
{
    lose_leases(f, 70);
    pass_time(f, 2);
    unsigned before = count_requests(f);
    answer_list(f, 70);
    assert_int_equal(count_requests(f) - before, 64);
    end_access(f, FLEET_END_FORBIDDEN);
    assert_int_equal(count_requests(f) - before, 65);
    end_all(f);
}

TEST_F(listing, pauses_grow_while_lists_show_few_new_records)
{
    lose_leases(f, 10);
    for (unsigned i = 0; i < 3; i++) {
        pass_time(f, 4);
        answer_list(f, 0);
    }
    pass_time(f, 3);
    assert_null(next_access(f));
    pass_time(f, 1);
    assert_true(is_list(next_access(f)));
    end_all(f);
}

TEST_F(listing, a_new_wait_is_listed_within_a_second)
{
    lose_leases(f, 10);
    pass_time(f, 4);
    answer_list(f, 0);
    fetch(f, "new.cl");
    end_access(f, FLEET_END_EXISTS);
    assert_null(next_access(f));
    pass_time(f, 1);
    assert_true(is_list(next_access(f)));
    end_all(f);
}

static void expect_single_requests(struct host *f, unsigned count)
{
    unsigned handed_over = count_requests(f);
    assert_true(is_for_record(next_access(f), 0));
    for (unsigned i = 0; i < count; i++)
        end_access(f, FLEET_END_ABSENT);
    assert_null(next_access(f));
    assert_int_equal(count_requests(f), handed_over);
    pass_time(f, 10);
    assert_true(is_for_record(next_access(f), 0));
    end_all(f);
}

TEST_F(listing, records_are_requested_one_by_one_if_the_store_has_no_lists)
{
    lose_leases(f, 10);
    pass_time(f, 2);
    end_access(f, FLEET_END_REFUSED);
    assert_string_equal(f->users.engine.engine->fleet->last_error, "");
    expect_single_requests(f, 10);
}

TEST_F(listing, records_are_requested_one_by_one_if_a_list_is_incomplete)
{
    lose_leases(f, 10);
    pass_time(f, 2);
    next_access(f)->is_partial = true;
    answer_list(f, 0);
    expect_single_requests(f, 10);
}

TEST_F(listing, records_are_requested_one_by_one_if_a_list_is_too_long)
{
    static char list[(256u << 10) + 1];
    memset(list, '\n', sizeof(list));
    lose_leases(f, 10);
    pass_time(f, 2);
    fake_executor_fleet_got(next_access(f), bytes_of(list, sizeof(list)));
    expect_single_requests(f, 10);
}

/* The store still answers other requests. */
TEST_F(listing, records_are_requested_one_by_one_if_a_list_is_slow)
{
    lose_leases(f, 10);
    pass_time(f, 2);
    fake_executor_fleet_slow(next_access(f));
    answer_list(f, 0);
    expect_single_requests(f, 10);
}

TEST_F(listing, a_damaged_list_shows_no_records)
{
    lose_leases(f, 10);
    pass_time(f, 2);
    unsigned before = count_requests(f);
    keys[0][0] = 'x';
    keys[1][63] = '\n';
    answer_list(f, 2);
    assert_int_equal(count_requests(f) - before, 0);
    end_all(f);
}

TEST_F(listing, all_records_are_requested_once_more_when_the_time_is_over)
{
    lose_leases(f, 10);
    pass_time(f, 31);
    for (unsigned i = 0; i < 10; i++) {
        assert_true(is_for_record(next_access(f), i));
        end_access(f, FLEET_END_ABSENT);
    }
    assert_int_equal(count(f, "expired"), 10);
    end_all(f);
}

TEST_F(listing, a_list_that_times_out_does_not_mean_that_the_store_fails)
{
    lose_leases(f, 10);
    pass_time(f, 2);
    end_access(f, FLEET_END_TIMED_OUT);
    assert_true(fleet_tier_is_up(f->users.engine.engine->fleet));
    assert_false(is_compiling(f));
    expect_single_requests(f, 10);
}

TEST_F(listing, a_store_that_also_fails_after_a_list_ends_all_waits)
{
    lose_leases(f, 10);
    pass_time(f, 2);
    end_access(f, FLEET_END_BROKEN);
    end_access(f, FLEET_END_BROKEN);
    assert_false(fleet_tier_is_up(f->users.engine.engine->fleet));
    assert_says(f->users.engine.engine->fleet->last_error, "the store failed");
    assert_true(is_compiling(f));
    end_all(f);
}

TEST_F(listing, a_store_that_asks_for_fewer_requests_gets_no_others)
{
    lose_leases(f, 10);
    pass_time(f, 2);
    end_access(f, FLEET_END_BUSY);
    assert_null(next_access(f));
    assert_says(f->users.engine.engine->fleet->last_error, "fewer requests");
    assert_true(is_compiling(f));
    end_all(f);
}

/* The lists of a cache, for example, may be old. */
TEST_F(listing, lists_that_lack_records_are_not_used)
{
    lose_leases(f, 10);
    pass_time(f, 31);
    fake_executor_fleet_got(next_access(f), bytes_of_text("a record"));
    fake_executor_run_tasks(&f->users.engine.executor);
    fleet_leases_note_shared(&f->users.engine.engine->fleet->leases);
    for (unsigned i = 1; i < 10; i++)
        end_access(f, FLEET_END_ABSENT);
    answer_list(f, 0);
    pass_time(f, 9);
    assert_true(is_for_record(next_access(f), 1));
    end_all(f);
}

TEST_F(listing, an_engine_that_stops_requests_no_lists)
{
    lose_leases(f, 70);
    pass_time(f, 2);
    answer_list(f, 70);
    passed_ns += 5ull * SECOND_NS;
    engine_drain(f->users.engine.engine);
    unsigned before = count_requests(f);
    end_access(f, FLEET_END_ABSENT);
    assert_int_equal(count_requests(f), before);
    end_all(f);
}

/* ---- leases ---- */

static bool is_lease(const struct fleet_access *access)
{
    return is_for(access, "v1/l/") && access->is_put;
}

static bool is_list_of_leases(const struct fleet_access *access)
{
    return is_list(access) && is_for(access, "v1/l/");
}

static struct fleet_access *next_other(struct host *f)
{
    LIST_EACH (&f->users.engine.executor.fleet_accesses, struct fleet_access, link, access)
        if (!is_list_of_leases(access))
            return access;
    return NULL;
}

/* Ends all requests for leases as lost, and those for records as absent. */
static void lose_requested(struct host *f)
{
    struct fleet_access *access;
    while ((access = next_other(f))) {
        fake_executor_fleet_failed(access, is_lease(access) ? FLEET_END_EXISTS : FLEET_END_ABSENT);
        fake_executor_run_tasks(&f->users.engine.executor);
    }
}

/* Notes the keys of the kernels whose leases are not requested yet. */
static void note_put_off(const struct host *f)
{
    key_count = 0;
    LIST_EACH (&f->users.engine.engine->fleet->leases.put_off, const struct fleet_query, link, q)
        digest_to_hex(&q->key, keys[key_count++]);
}

/* Requests |count| kernels with one compiler, and loses the two leases that are requested. */
static void lose_first_leases(struct host *f, unsigned count)
{
    char program[32];
    f->users.engine.executor.slots = 1;
    probe(f, FLEET_END_EXISTS);
    for (unsigned i = 0; i < count; i++) {
        snprintf(program, sizeof(program), "%u.cl", i);
        fetch(f, program);
    }
    note_put_off(f);
    assert_int_equal(key_count, count - 2);
    lose_requested(f);
}

static unsigned count_put_off(const struct host *f)
{
    unsigned count = 0;
    LIST_EACH (&f->users.engine.engine->fleet->leases.put_off, const struct fleet_query, link, q)
        count += q != NULL;
    return count;
}

TEST_F(listing, a_lost_lease_is_followed_by_a_list_of_leases)
{
    lose_first_leases(f, 10);
    assert_true(is_list_of_leases(next_access(f)));
    assert_int_equal(strlen(next_access(f)->name), strlen("v1/l/") + 32);
    assert_int_equal(count_put_off(f), 8); /* they wait for the list */
    fetch(f, "new.cl");
    assert_int_equal(count_put_off(f), 9);
    end_all(f);
}

TEST_F(listing, leases_of_other_hosts_are_not_requested)
{
    lose_first_leases(f, 10);
    answer_list(f, 8);
    assert_int_equal(count_put_off(f), 0);
    assert_true(is_list(next_access(f)) && is_for(next_access(f), "v1/k/"));
    answer_list(f, 0);
    assert_null(next_access(f));
    assert_false(is_compiling(f));
    end_all(f);
}

TEST_F(listing, leases_that_nobody_has_are_requested)
{
    lose_first_leases(f, 10);
    answer_list(f, 7);
    answer_list(f, 0);
    assert_true(is_lease(next_access(f)) && strstr(next_access(f)->name, keys[7]));
    end_access(f, FLEET_END_DONE);
    assert_true(is_compiling(f));
    end_all(f);
}

TEST_F(listing, each_host_requests_leases_in_another_order)
{
    struct digest key;
    lose_first_leases(f, 10);
    assert_true(digest_from_hex(keys[5], &key));
    f->users.engine.engine->instance = digest_hash(&key);
    answer_list(f, 0);
    assert_true(is_lease(next_access(f)) && strstr(next_access(f)->name, keys[5]));
    end_all(f);
}

TEST_F(listing, leases_are_listed_again_only_after_another_was_lost)
{
    lose_first_leases(f, 12);
    answer_list(f, 0);
    end_access(f, FLEET_END_DONE);
    end_access(f, FLEET_END_DONE);
    finish_compile(&f->users, "object");
    assert_true(is_lease(next_access(f)));
    end_access(f, FLEET_END_EXISTS);
    lose_requested(f);
    assert_true(is_list_of_leases(next_access(f)));
    end_all(f);
}

TEST_F(listing, few_leases_are_requested_without_a_list)
{
    lose_first_leases(f, 5);
    assert_null(next_access(f));
    end_all(f);
}

TEST_F(listing, leases_are_requested_one_by_one_if_the_store_has_no_lists)
{
    lose_first_leases(f, 10);
    end_access(f, FLEET_END_REFUSED);
    assert_true(is_lease(next_access(f)));
    lose_requested(f);
    assert_null(next_access(f));
    assert_int_equal(count_put_off(f), 0);
    end_all(f);
}

/* Old leases stay in the tree for a day, but not the records that were packed. */
TEST_F(listing, records_are_listed_although_there_are_too_many_leases)
{
    lose_first_leases(f, 10);
    next_access(f)->is_partial = true;
    answer_list(f, 8);
    assert_true(is_list(next_access(f)) && is_for(next_access(f), "v1/k/"));
    answer_list(f, 0);
    assert_null(next_access(f));
    end_all(f);
}

/* Other kernels that the host needs later must not come before it again and again. */
TEST_F(listing, a_kernel_that_has_waited_long_comes_first)
{
    struct digest key;
    struct fleet_access *lease = NULL;
    lose_first_leases(f, 10);
    assert_true(digest_from_hex(keys[5], &key));
    f->users.engine.engine->instance = digest_hash(&key);
    pass_time(f, 31);
    answer_list(f, 0);
    LIST_EACH (&f->users.engine.executor.fleet_accesses, struct fleet_access, link, access)
        if (!lease && is_lease(access))
            lease = access;
    assert_true(lease && strstr(lease->name, keys[0]));
    end_all(f);
}

/* The store still answers other requests. */
TEST_F(listing, leases_are_requested_one_by_one_if_a_list_is_slow)
{
    lose_first_leases(f, 10);
    fake_executor_fleet_slow(next_access(f));
    assert_int_equal(count_put_off(f), 6);
    fetch(f, "new.cl");
    answer_list(f, 8);
    lose_requested(f);
    assert_int_equal(count_put_off(f), 0);
    end_all(f);
}

/* The job that got the lease was cancelled before. */
TEST_F(listing, a_host_does_not_wait_for_its_own_lease_in_a_list)
{
    struct fleet_leases *leases = &f->users.engine.engine->fleet->leases;
    struct digest key;
    lose_first_leases(f, 10);
    for (unsigned i = 0; i < key_count; i++) {
        assert_true(digest_from_hex(keys[i], &key));
        leases->own[leases->own_count++] = digest_hash(&key);
    }
    answer_list(f, 8);
    assert_null(next_access(f));
    assert_true(is_compiling(f));
    end_all(f);
}

TEST_F(listing, an_engine_that_stops_waits_for_no_listed_lease)
{
    lose_first_leases(f, 10);
    engine_drain(f->users.engine.engine);
    answer_list(f, 8);
    assert_null(next_access(f));
    end_all(f);
}
