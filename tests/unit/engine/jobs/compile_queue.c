/* SPDX-License-Identifier: MIT */
#include "engine/jobs/compile_queue.h"
#include "common/base/clock.h"
#include "engine/jobs/compile_yield.h"
#include "tests/support/fake_executor.h"
#include "tests/support/test.h"

#include <string.h>

#define ORDERS 32

struct named_order {
    struct compile_order order; /* first member */
    char name;
    enum compile_end end;
    struct fixture *fixture;
};

struct fixture {
    struct fake_executor executor;
    struct compile_queue *queue;
    struct named_order orders[ORDERS];
    unsigned count;
    char finished[ORDERS + 1]; /* names in the order of their ends */
    unsigned finished_count;
    struct kiln_err err;
};

static void on_done(struct compile_order *order)
{
    struct named_order *o = (struct named_order *)order;
    o->fixture->finished[o->fixture->finished_count++] = o->name;
    o->end = order->task.result.end;
    compile_result_done(&order->task.result);
}

SET_UP(setup)
{
    fake_executor_init(&f->executor, 1);
    struct compile_queue_options options = { .executor = &f->executor.base,
                                             .limit = 20,
                                             .limit_uid = 10 };
    must(compile_queue_create(&options, &f->queue, &f->err), f->err);
}

TEAR_DOWN(teardown) { compile_queue_destroy(f->queue); }

FIXTURE(queue, setup, teardown);

static enum kiln_code submit(struct fixture *f, char name, uid_t uid, enum priority priority)
{
    struct named_order *o = &f->orders[f->count++];
    o->name = name;
    o->fixture = f;
    o->order.uid = uid;
    o->order.priority = priority;
    o->order.done = on_done;
    return compile_queue_submit(f->queue, &o->order, &f->err);
}

static void compile_all(struct fixture *f)
{
    while (fake_executor_next_compile(&f->executor))
        fake_executor_compile(&f->executor, bytes_of_text("object"));
}

TEST_F(queue, users_alternate_and_the_orders_of_each_stay_in_order)
{
    must(submit(f, '0', 9, PRIORITY_INTERACTIVE), f->err);
    for (const char *name = "abcdef"; *name; name++)
        must(submit(f, *name, 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'X', 2, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'Y', 2, PRIORITY_INTERACTIVE), f->err);
    compile_all(f);
    assert_string_equal(f->finished, "0aXbYcdef");
}

TEST_F(queue, a_user_whose_compile_took_long_comes_after_the_others)
{
    const uint64_t long_ns = 50000000;
    must(submit(f, '0', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'a', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'b', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'X', 2, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'Y', 2, PRIORITY_INTERACTIVE), f->err);
    f->orders[0].order.started_ns -= long_ns;
    compile_all(f);
    assert_string_equal(f->finished, "0XYab");
}

TEST_F(queue, an_order_that_goes_first_costs_the_other_users_nothing)
{
    must(submit(f, '0', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'a', 1, PRIORITY_INTERACTIVE), f->err);
    for (const char *name = "XYZ"; *name; name++)
        must(submit(f, *name, 2, PRIORITY_INTERACTIVE), f->err);
    f->orders[0].order.started_ns -= 50000000;
    f->orders[1].order.queued_ns -= YIELD_WAIT_NS; /* a goes first */
    fake_executor_compile(&f->executor, bytes_of_text("object"));
    must(submit(f, 'b', 1, PRIORITY_INTERACTIVE), f->err);
    compile_all(f);
    assert_string_equal(f->finished, "0aXYZb");
}

TEST_F(queue, interactive_goes_before_prefetch)
{
    must(submit(f, '0', 1, PRIORITY_PREFETCH), f->err);
    must(submit(f, 'p', 1, PRIORITY_PREFETCH), f->err);
    must(submit(f, 'q', 1, PRIORITY_PREFETCH), f->err);
    must(submit(f, 'I', 1, PRIORITY_INTERACTIVE), f->err);
    compile_all(f);
    assert_string_equal(f->finished, "0Ipq");
}

TEST_F(queue, a_promoted_prefetch_overtakes_the_others)
{
    must(submit(f, '0', 1, PRIORITY_PREFETCH), f->err);
    must(submit(f, 'p', 1, PRIORITY_PREFETCH), f->err);
    must(submit(f, 'q', 1, PRIORITY_PREFETCH), f->err);
    compile_queue_promote(f->queue, &f->orders[2].order);
    compile_queue_promote(f->queue, &f->orders[0].order);
    compile_all(f);
    assert_string_equal(f->finished, "0qp");
}

TEST_F(queue, an_order_that_two_users_wait_for_gets_the_better_place)
{
    must(submit(f, '0', 9, PRIORITY_INTERACTIVE), f->err);
    for (const char *name = "abcd"; *name; name++)
        must(submit(f, *name, 1, PRIORITY_INTERACTIVE), f->err);
    compile_queue_share(f->queue, &f->orders[4].order, 2); /* three other orders are before d */
    compile_queue_share(f->queue, &f->orders[1].order, 2);
    compile_all(f);
    assert_string_equal(f->finished, "0adbc");
}

TEST_F(queue, no_more_compiles_run_than_there_are_compilers)
{
    f->executor.slots = 2;
    for (const char *name = "abcd"; *name; name++)
        must(submit(f, *name, 1, PRIORITY_INTERACTIVE), f->err);
    assert_int_equal(compile_queue_running(f->queue), 2);
    assert_int_equal(compile_queue_waiting(f->queue), 2);
    assert_int_equal(f->executor.compiles_handed_over, 2);
    compile_all(f);
    assert_string_equal(f->finished, "abcd");
    assert_int_equal(compile_queue_running(f->queue), 0);
}

TEST_F(queue, a_waiting_order_can_be_cancelled_and_a_running_one_cannot)
{
    must(submit(f, 'a', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'b', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'c', 1, PRIORITY_INTERACTIVE), f->err);
    assert_false(compile_queue_cancel(f->queue, &f->orders[0].order));
    assert_true(compile_queue_cancel(f->queue, &f->orders[1].order));
    compile_all(f);
    assert_string_equal(f->finished, "ac");
}

TEST_F(queue, one_user_cannot_fill_the_queue_for_the_others)
{
    for (int i = 0; i < 11; i++)
        must(submit(f, 'a', 1, PRIORITY_PREFETCH), f->err);
    assert_int_equal(submit(f, 'a', 1, PRIORITY_INTERACTIVE), KILN_BUSY);
    assert_says(f->err.text, "user 1");
    must(submit(f, 'b', 2, PRIORITY_INTERACTIVE), f->err);
    compile_all(f);
    assert_int_equal(f->finished_count, 12);
    assert_int_equal(f->finished[1], 'b');
}

TEST_F(queue, the_whole_queue_is_bounded_too)
{
    for (unsigned i = 0; i < 21; i++)
        must(submit(f, 'a', i, PRIORITY_INTERACTIVE), f->err);
    assert_int_equal(submit(f, 'b', 100, PRIORITY_INTERACTIVE), KILN_BUSY);
    assert_says(f->err.text, "20 compiles");
    compile_all(f);
}

TEST_F(queue, draining_fails_waiting_compiles_and_lets_running_ones_end)
{
    must(submit(f, 'a', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'b', 1, PRIORITY_INTERACTIVE), f->err);
    compile_queue_drain(f->queue);
    assert_string_equal(f->finished, "b");
    assert_int_equal(f->orders[1].end, COMPILE_UNAVAILABLE);
    assert_int_equal(submit(f, 'c', 1, PRIORITY_INTERACTIVE), KILN_UNAVAILABLE);
    compile_all(f);
    assert_string_equal(f->finished, "ba");
}

struct seen {
    char running[ORDERS + 1]; /* names, the latest first */
    unsigned waiting[ORDERS]; /* by uid */
    unsigned users;
};

static void see_order(void *context, const struct compile_order *order)
{
    struct seen *seen = context;
    seen->running[strlen(seen->running)] = ((const struct named_order *)order)->name;
    assert_true(order->started_ns >= order->queued_ns && order->queued_ns > 0);
}

static void see_user(void *context, uid_t uid, enum priority priority, unsigned waiting)
{
    struct seen *seen = context;
    (void)priority;
    seen->users++;
    seen->waiting[uid] += waiting;
}

static struct seen look(const struct fixture *f)
{
    struct seen seen = { .users = 0 };
    compile_queue_each_running(f->queue, see_order, &seen);
    compile_queue_each_user(f->queue, see_user, &seen);
    return seen;
}

TEST_F(queue, running_and_waiting_compiles_are_listed_until_they_end)
{
    f->executor.slots = 3;
    assert_string_equal(look(f).running, "");
    for (const char *name = "abcde"; *name; name++)
        must(submit(f, *name, 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'p', 1, PRIORITY_PREFETCH), f->err);
    must(submit(f, 'q', 2, PRIORITY_PREFETCH), f->err);
    struct seen seen = look(f);
    assert_string_equal(seen.running, "cba");
    assert_int_equal(seen.users, 3);
    assert_int_equal(seen.waiting[1], 3);
    assert_int_equal(seen.waiting[2], 1);

    fake_executor_compile(&f->executor, bytes_of_text("object"));
    assert_string_equal(look(f).running, "dcb");
    compile_all(f);
    seen = look(f);
    assert_string_equal(seen.running, "");
    assert_int_equal(seen.users, 0);
}

#define MOMENT_NS 1000000000ull
#define HOUR_NS (3600 * MOMENT_NS)

static void let_time_pass(struct fixture *f, uint64_t ns)
{
    for (unsigned i = 0; i < f->count; i++) {
        f->orders[i].order.queued_ns -= ns;
        f->orders[i].order.started_ns -= f->orders[i].order.started_ns ? ns : 0;
    }
    compile_queue_tick(f->queue);
}

static struct named_order *stopped(const struct fixture *f)
{
    return (struct named_order *)f->executor.stopped;
}

static void fill_compilers(struct fixture *f, unsigned compilers, uid_t uid)
{
    f->executor.slots = compilers;
    for (unsigned i = 0; i < compilers; i++)
        must(submit(f, (char)('a' + i), uid, PRIORITY_INTERACTIVE), f->err);
}

TEST_F(queue, a_user_with_all_compilers_gives_one_to_a_user_with_none)
{
    fill_compilers(f, 2, 1);
    must(submit(f, 'X', 2, PRIORITY_INTERACTIVE), f->err);
    assert_int_equal(f->executor.compiles_stopped, 0);
    f->orders[1].order.started_ns -= MOMENT_NS; /* b has run longer than a */
    let_time_pass(f, MOMENT_NS);
    assert_int_equal(stopped(f)->name, 'b');
    let_time_pass(f, MOMENT_NS);
    assert_int_equal(f->executor.compiles_stopped, 1);

    fake_executor_end_stopped(&f->executor);
    assert_string_equal(look(f).running, "Xa");
    compile_all(f);
    assert_string_equal(f->finished, "aXb");
    assert_int_equal(f->orders[1].end, COMPILE_DONE);
}

TEST_F(queue, a_user_alone_keeps_all_compilers)
{
    fill_compilers(f, 2, 1);
    must(submit(f, 'c', 1, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, HOUR_NS);
    assert_int_equal(f->executor.compiles_stopped, 0);
    compile_all(f);
}

TEST_F(queue, compiles_that_gave_way_never_occupy_all_compilers)
{
    fill_compilers(f, 2, 1);
    must(submit(f, 'c', 1, PRIORITY_INTERACTIVE), f->err);
    for (int i = 0; i < 2; i++) {
        const char name = "XY"[i];
        must(submit(f, name, 2, PRIORITY_INTERACTIVE), f->err);
        let_time_pass(f, MOMENT_NS);
        fake_executor_end_stopped(&f->executor);
        while (strchr(look(f).running, name))
            fake_executor_compile(&f->executor, bytes_of_text("object"));
    }
    compile_all(f);
    assert_int_equal(f->finished_count, 5);
}

TEST_F(queue, a_compile_gives_way_only_once_where_there_are_several_compilers)
{
    fill_compilers(f, 2, 1);
    must(submit(f, 'X', 2, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, MOMENT_NS);
    char first = stopped(f)->name;
    fake_executor_end_stopped(&f->executor);
    fake_executor_compile(&f->executor, bytes_of_text("object"));
    assert_int_equal(compile_queue_running(f->queue), 2);
    must(submit(f, 'Y', 3, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, HOUR_NS);
    assert_int_not_equal(stopped(f)->name, first);
    fake_executor_end_stopped(&f->executor);
    compile_all(f);
}

static void let_give_way(struct fixture *f, char name)
{
    assert_non_null(f->executor.stopped);
    assert_int_equal(stopped(f)->name, name);
    fake_executor_end_stopped(&f->executor);
}

/* Users 1 and 2 use one compiler each, for compiles that never end. User 3 sends few sources. */
TEST_F(queue, a_user_who_compiled_much_gives_way_soon)
{
    f->executor.slots = 2;
    must(submit(f, 'a', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'b', 2, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'X', 3, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, 2 * MOMENT_NS);
    assert_int_equal(f->executor.compiles_stopped, 0);
    let_time_pass(f, 2 * MOMENT_NS);
    let_give_way(f, 'a');
    let_time_pass(f, 4 * MOMENT_NS);
    let_give_way(f, 'b');
    assert_string_equal(look(f).running, "aX");
    fake_executor_compile(&f->executor, bytes_of_text("object"));
    must(submit(f, 'd', 2, PRIORITY_INTERACTIVE), f->err);
    assert_string_equal(look(f).running, "da");

    must(submit(f, 'Y', 3, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, MOMENT_NS);
    let_give_way(f, 'd');
    assert_string_equal(look(f).running, "Ya");
    let_time_pass(f, 2 * MOMENT_NS);
    /* Y keeps running, because users 1 and 2 had more compiler time */
    assert_string_equal(look(f).running, "Ya");
    compile_all(f);
}

/* Users 1 and 2 hold one compiler each, and each has one more source that waits. */
static void send_several_sources(struct fixture *f)
{
    f->executor.slots = 2;
    must(submit(f, 'a', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'b', 2, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'c', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'd', 2, PRIORITY_INTERACTIVE), f->err);
}

TEST_F(queue, a_user_with_many_compiles_gives_way_to_a_single_one)
{
    send_several_sources(f);
    must(submit(f, 'X', 3, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, MOMENT_NS);
    let_give_way(f, 'a');
    assert_string_equal(look(f).running, "Xb");
    compile_all(f);
}

TEST_F(queue, users_with_many_compiles_give_way_to_each_other_after_a_while)
{
    send_several_sources(f);
    must(submit(f, 'X', 3, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'Y', 3, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, 2 * MOMENT_NS);
    assert_int_equal(f->executor.compiles_stopped, 0);
    let_time_pass(f, 2 * MOMENT_NS);
    let_give_way(f, 'a');
    assert_string_equal(look(f).running, "Xb");
    compile_all(f);
}

/* Users 1 and 2 have compiled nothing before. They send sources whose compiles never end. */
TEST_F(queue, a_user_who_compiled_much_waits_for_a_fair_share_at_most)
{
    f->executor.slots = 2;
    must(submit(f, 'X', 3, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, 12 * YIELD_SHARE_NS);
    fake_executor_compile(&f->executor, bytes_of_text("object"));
    must(submit(f, 'a', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'b', 2, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'Y', 3, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, YIELD_SHARE_NS - MOMENT_NS);
    assert_int_equal(f->executor.compiles_stopped, 0);
    let_time_pass(f, MOMENT_NS);
    let_give_way(f, 'a');
    assert_string_equal(look(f).running, "Yb");
    compile_all(f);
}

/* Returns whether a compile of user 1 that began a moment ago gives way to user 3. */
static bool gives_way(const struct fixture *f, const struct yield_use *use, uint64_t now_ns)
{
    struct list running;
    struct compile_order order = { .uid = 1, .started_ns = now_ns - MOMENT_NS };
    const struct compile_order waiting = { .uid = 3 };
    const struct yield_question question = {
        .queue = f->queue, .running = &running, .use = use, .compilers = 2, .now_ns = now_ns
    };
    list_init(&running);
    list_append(&running, &order.running);
    return yield_choose(&question, &waiting) != NULL;
}

TEST_F(queue, compiler_time_of_a_user_is_forgotten_slowly)
{
    struct yield_use use = { 0 };
    yield_use_add(&use, 1, 10 * MOMENT_NS, HOUR_NS);
    assert_true(gives_way(f, &use, HOUR_NS));
    assert_true(gives_way(f, &use, HOUR_NS + 60 * MOMENT_NS));
    assert_false(gives_way(f, &use, HOUR_NS + 70 * MOMENT_NS));
    yield_use_add(&use, 3, 10 * MOMENT_NS, HOUR_NS);
    assert_false(gives_way(f, &use, HOUR_NS));

    /* These are more users than are remembered. Each used less compiler time than user 1, who must
     * therefore not be forgotten. */
    for (uid_t uid = 10; uid < 10 + 2 * YIELD_USERS; uid++)
        yield_use_add(&use, uid, MOMENT_NS, HOUR_NS);
    yield_use_add(&use, 1, 10 * MOMENT_NS, HOUR_NS);
    assert_true(gives_way(f, &use, HOUR_NS));
}

TEST_F(queue, the_only_compiler_changes_hands_after_a_fair_share)
{
    fill_compilers(f, 1, 1);
    must(submit(f, 'X', 2, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, 9 * MOMENT_NS);
    assert_int_equal(f->executor.compiles_stopped, 0);
    let_time_pass(f, 2 * MOMENT_NS);
    assert_int_equal(stopped(f)->name, 'a');
    fake_executor_end_stopped(&f->executor);
    assert_string_equal(look(f).running, "X");
    compile_all(f);
    assert_string_equal(f->finished, "Xa");
}

TEST_F(queue, the_only_compiler_is_taken_from_a_compile_twice_at_most)
{
    fill_compilers(f, 1, 1);
    must(submit(f, 'X', 2, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, 11 * MOMENT_NS);
    fake_executor_end_stopped(&f->executor);
    fake_executor_compile(&f->executor, bytes_of_text("object"));
    must(submit(f, 'Y', 2, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, 59 * MOMENT_NS);
    assert_int_equal(f->executor.compiles_stopped, 1);
    let_time_pass(f, 2 * MOMENT_NS);
    fake_executor_end_stopped(&f->executor);
    assert_int_equal(f->orders[0].end, COMPILE_UNAVAILABLE);
    compile_all(f);
    assert_string_equal(f->finished, "XaY");
}

TEST_F(queue, a_compile_that_nobody_waits_for_gives_way_at_once)
{
    fill_compilers(f, 2, 1);
    compile_queue_set_abandoned(f->queue, &f->orders[1].order, true);
    assert_int_equal(f->executor.compiles_stopped, 0);
    must(submit(f, 'c', 1, PRIORITY_INTERACTIVE), f->err);
    assert_int_equal(stopped(f)->name, 'b');
    fake_executor_end_stopped(&f->executor);
    assert_int_equal(f->orders[1].end, COMPILE_UNAVAILABLE);
    compile_all(f);
    assert_string_equal(f->finished, "bac");
}

TEST_F(queue, a_compile_that_nobody_waits_for_ends_soon)
{
    fill_compilers(f, 1, 1);
    compile_queue_set_abandoned(f->queue, &f->orders[0].order, true);
    let_time_pass(f, 11 * MOMENT_NS);
    assert_int_equal(stopped(f)->name, 'a');
    fake_executor_end_stopped(&f->executor);
}

TEST_F(queue, a_stopped_compile_that_is_wanted_again_starts_again)
{
    fill_compilers(f, 1, 1);
    compile_queue_set_abandoned(f->queue, &f->orders[0].order, true);
    must(submit(f, 'b', 1, PRIORITY_INTERACTIVE), f->err);
    compile_queue_set_abandoned(f->queue, &f->orders[0].order, false);
    fake_executor_end_stopped(&f->executor);
    compile_all(f);
    assert_string_equal(f->finished, "ba");
    assert_int_equal(f->orders[0].end, COMPILE_DONE);
}

TEST_F(queue, a_time_out_on_a_crowded_host_is_no_property_of_the_kernel)
{
    fill_compilers(f, 1, 1);
    must(submit(f, 'X', 2, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, MOMENT_NS);
    fake_executor_fail(&f->executor, COMPILE_TIMED_OUT, "too slow", NULL);
    assert_int_equal(f->orders[0].end, COMPILE_UNAVAILABLE);
    fake_executor_fail(&f->executor, COMPILE_TIMED_OUT, "too slow", NULL);
    assert_int_equal(f->orders[1].end, COMPILE_TIMED_OUT);
}

TEST_F(queue, no_compile_is_stopped_for_a_prefetch_while_interactive_orders_wait)
{
    fill_compilers(f, 2, 1);
    must(submit(f, 'c', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'P', 2, PRIORITY_PREFETCH), f->err);
    let_time_pass(f, HOUR_NS);
    assert_int_equal(f->executor.compiles_stopped, 0);
    compile_all(f);
}

TEST_F(queue, a_freed_compiler_falls_to_the_user_in_need_even_after_long_compiles)
{
    fill_compilers(f, 2, 1);
    fake_executor_compile(&f->executor, bytes_of_text("object"));
    must(submit(f, 'X', 2, PRIORITY_INTERACTIVE), f->err);
    f->orders[2].order.started_ns -= HOUR_NS; /* user 2 is charged for an hour */
    compile_all(f);
    fill_compilers(f, 2, 1);
    must(submit(f, 'c', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'Y', 2, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, MOMENT_NS);
    fake_executor_end_stopped(&f->executor);
    assert_non_null(strchr(look(f).running, 'Y'));
    compile_all(f);
}

static void finish(struct fixture *f, char name)
{
    struct compile_task *task = &f->orders[0].order.task;
    for (unsigned i = 0; i < f->count; i++)
        task = f->orders[i].name == name ? &f->orders[i].order.task : task;
    list_remove(&task->link);
    list_prepend(&f->executor.compiles, &task->link);
    fake_executor_compile(&f->executor, bytes_of_text("object"));
}

TEST_F(queue, an_order_that_gave_way_does_not_block_its_users_later_orders)
{
    fill_compilers(f, 2, 1);
    must(submit(f, 'X', 2, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, MOMENT_NS);
    assert_int_equal(stopped(f)->name, 'a');
    fake_executor_end_stopped(&f->executor);
    finish(f, 'b');
    must(submit(f, 'c', 1, PRIORITY_INTERACTIVE), f->err);
    finish(f, 'X');
    must(submit(f, 'Y', 2, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, MOMENT_NS);
    assert_int_equal(stopped(f)->name, 'c');
    fake_executor_end_stopped(&f->executor);
    must(submit(f, 'd', 1, PRIORITY_INTERACTIVE), f->err);
    assert_string_equal(look(f).running, "Ya");

    /* The compiles a and c both gave way before, so they must not run at the same time. */
    finish(f, 'Y');

    assert_string_equal(look(f).running, "da");
    compile_all(f);
    assert_int_equal(f->finished_count, 6);
}

TEST_F(queue, an_order_that_gave_way_waits_for_its_like_only_for_a_while)
{
    fill_compilers(f, 2, 1);
    f->orders[0].order.has_yielded = true;
    f->orders[1].order.uid = 3;
    must(submit(f, 'Z', 2, PRIORITY_INTERACTIVE), f->err);
    f->orders[2].order.has_yielded = true;
    let_time_pass(f, 59 * MOMENT_NS);
    assert_int_equal(f->executor.compiles_stopped, 0);
    let_time_pass(f, 2 * MOMENT_NS);
    let_give_way(f, 'a');
    assert_int_equal(f->orders[0].end, COMPILE_UNAVAILABLE);
    assert_string_equal(look(f).running, "Zb");
    compile_all(f);
}

TEST_F(queue, a_compile_that_gave_way_is_stopped_again_only_if_no_other_can_be)
{
    fill_compilers(f, 3, 1);
    f->orders[0].order.has_yielded = true;
    must(submit(f, 'X', 2, PRIORITY_INTERACTIVE), f->err);
    let_time_pass(f, HOUR_NS);
    assert_int_not_equal(stopped(f)->name, 'a');
    f->orders[1].order.has_yielded = f->orders[2].order.has_yielded = true;
    fake_executor_end_stopped(&f->executor);
    compile_all(f);
}

struct caller { /* a user who sends a source now and then; each compiles for |takes| seconds */
    struct named_order *order;
    unsigned sent, takes, longest; /* seconds */
    bool waits;
};

static void send_source(struct fixture *f, struct caller *c, unsigned second)
{
    c->waits = true;
    c->sent = second;
    must(compile_queue_submit(f->queue, &c->order->order, &f->err), f->err);
}

static void note_second(struct fixture *f, struct caller *c, unsigned second)
{
    const struct compile_order *order = &c->order->order;
    uint64_t ran_ns = order->started_ns ? clock_monotonic_ns() - order->started_ns : 0;
    if (!c->waits)
        return;
    c->longest = second - c->sent > c->longest ? second - c->sent : c->longest;
    if (order->slot.user || order->is_stopping || ran_ns < c->takes * MOMENT_NS)
        return;
    finish(f, c->order->name);
    c->waits = false;
}

/* There are two compilers. User 1 sends three sources whose compiles never end. User 3 sends a
 * source every 20 s, which compiles for 1 s. User 2 sends one source, which compiles for 40 s. */
TEST_F(queue, endless_compiles_keep_no_compiler_from_other_users)
{
    fill_compilers(f, 2, 1);
    must(submit(f, 'c', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'Q', 3, PRIORITY_INTERACTIVE), f->err);
    struct caller quick = { .order = &f->orders[3], .takes = 1, .waits = true };
    struct caller slow = { .order = &f->orders[4], .takes = 40 };
    for (unsigned second = 1; second <= 300; second++) {
        let_time_pass(f, MOMENT_NS);
        if (f->executor.stopped)
            fake_executor_end_stopped(&f->executor);
        note_second(f, &quick, second);
        note_second(f, &slow, second);
        if (second % 20 == 0 && !quick.waits)
            send_source(f, &quick, second);
        if (second == 100) {
            must(submit(f, 'S', 2, PRIORITY_INTERACTIVE), f->err);
            slow.waits = true;
            slow.sent = second;
        }
    }
    assert_false(slow.waits);
    assert_in_range(slow.longest, 40, 125);
    assert_in_range(quick.longest, 1, 6);
    assert_int_equal(slow.order->end, COMPILE_DONE);
    compile_queue_drain(f->queue);
    compile_all(f);
}
