/* SPDX-License-Identifier: MIT */
#include "engine/jobs/compile_queue.h"
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
    o->end = order->task.outcome.end;
    compile_outcome_done(&order->task.outcome);
}

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    f.err = KILN_ERR_INIT;
    fake_executor_init(&f.executor, 1);
    struct compile_queue_options options = { .executor = &f.executor.base,
                                             .limit = 20,
                                             .limit_uid = 10 };
    must(compile_queue_create(&options, &f.queue, &f.err), f.err);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    compile_queue_destroy(f->queue);
    return 0;
}

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

static void users_alternate_and_the_orders_of_each_stay_in_order(void **state)
{
    struct fixture *f = *state;
    must(submit(f, '0', 9, PRIORITY_INTERACTIVE), f->err); /* occupies the one compiler */
    for (const char *name = "abcdef"; *name; name++)
        must(submit(f, *name, 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'X', 2, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'Y', 2, PRIORITY_INTERACTIVE), f->err);
    compile_all(f);
    assert_string_equal(f->finished, "0aXbYcdef");
}

static void interactive_goes_before_prefetch(void **state)
{
    struct fixture *f = *state;
    must(submit(f, '0', 1, PRIORITY_PREFETCH), f->err);
    must(submit(f, 'p', 1, PRIORITY_PREFETCH), f->err);
    must(submit(f, 'q', 1, PRIORITY_PREFETCH), f->err);
    must(submit(f, 'I', 1, PRIORITY_INTERACTIVE), f->err);
    compile_all(f);
    assert_string_equal(f->finished, "0Ipq");
}

static void a_promoted_prefetch_overtakes_the_others(void **state)
{
    struct fixture *f = *state;
    must(submit(f, '0', 1, PRIORITY_PREFETCH), f->err);
    must(submit(f, 'p', 1, PRIORITY_PREFETCH), f->err);
    must(submit(f, 'q', 1, PRIORITY_PREFETCH), f->err);
    compile_queue_promote(f->queue, &f->orders[2].order);
    compile_queue_promote(f->queue, &f->orders[0].order); /* runs already: nothing to do */
    compile_all(f);
    assert_string_equal(f->finished, "0qp");
}

static void an_order_that_two_users_wait_for_gets_the_better_place(void **state)
{
    struct fixture *f = *state;
    must(submit(f, '0', 9, PRIORITY_INTERACTIVE), f->err);
    for (const char *name = "abcd"; *name; name++)
        must(submit(f, *name, 1, PRIORITY_INTERACTIVE), f->err);
    compile_queue_share(f->queue, &f->orders[4].order, 2); /* d: three of user 1 before it */
    compile_queue_share(f->queue, &f->orders[1].order, 2); /* a: is first already */
    compile_all(f);
    assert_string_equal(f->finished, "0adbc");
}

static void no_more_run_than_there_are_compilers(void **state)
{
    struct fixture *f = *state;
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

static void a_waiting_order_can_be_cancelled_and_a_running_one_cannot(void **state)
{
    struct fixture *f = *state;
    must(submit(f, 'a', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'b', 1, PRIORITY_INTERACTIVE), f->err);
    must(submit(f, 'c', 1, PRIORITY_INTERACTIVE), f->err);
    assert_false(compile_queue_cancel(f->queue, &f->orders[0].order));
    assert_true(compile_queue_cancel(f->queue, &f->orders[1].order));
    compile_all(f);
    assert_string_equal(f->finished, "ac");
}

static void one_user_cannot_fill_the_queue_for_the_others(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 11; i++) /* one runs, ten wait */
        must(submit(f, 'a', 1, PRIORITY_PREFETCH), f->err);
    assert_int_equal(submit(f, 'a', 1, PRIORITY_INTERACTIVE), KILN_BUSY);
    assert_says(f->err.text, "10 compiles of user 1");
    must(submit(f, 'b', 2, PRIORITY_INTERACTIVE), f->err);
    compile_all(f);
    assert_int_equal(f->finished_count, 12);
    assert_int_equal(f->finished[1], 'b');
}

static void the_whole_queue_is_bounded_too(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < 21; i++)
        must(submit(f, 'a', i, PRIORITY_INTERACTIVE), f->err);
    assert_int_equal(submit(f, 'b', 100, PRIORITY_INTERACTIVE), KILN_BUSY);
    assert_says(f->err.text, "20 compiles wait already");
    compile_all(f);
}

static void draining_fails_what_waits_and_lets_what_runs_end(void **state)
{
    struct fixture *f = *state;
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

static void what_runs_and_who_waits_can_be_seen_until_it_is_over(void **state)
{
    struct fixture *f = *state;
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

    fake_executor_compile(&f->executor, bytes_of_text("object")); /* a ends, d begins */
    assert_string_equal(look(f).running, "dcb");
    compile_all(f);
    seen = look(f);
    assert_string_equal(seen.running, "");
    assert_int_equal(seen.users, 0);
}

#define QUEUE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        QUEUE_TEST(users_alternate_and_the_orders_of_each_stay_in_order),
        QUEUE_TEST(interactive_goes_before_prefetch),
        QUEUE_TEST(a_promoted_prefetch_overtakes_the_others),
        QUEUE_TEST(an_order_that_two_users_wait_for_gets_the_better_place),
        QUEUE_TEST(no_more_run_than_there_are_compilers),
        QUEUE_TEST(a_waiting_order_can_be_cancelled_and_a_running_one_cannot),
        QUEUE_TEST(one_user_cannot_fill_the_queue_for_the_others),
        QUEUE_TEST(the_whole_queue_is_bounded_too),
        QUEUE_TEST(draining_fails_what_waits_and_lets_what_runs_end),
        QUEUE_TEST(what_runs_and_who_waits_can_be_seen_until_it_is_over),
    };
    return cmocka_run_group_tests_name("compile_queue", tests, NULL, NULL);
}
