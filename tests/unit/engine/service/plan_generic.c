/* SPDX-License-Identifier: MIT */
/* Plans of generic kernels, which stand in for kernels that are not stored. */
#include "tests/unit/engine/service/users_fixture.h"

#include <string.h>

#define DEVICE "opencl_1a2b3c4d"

static const char generic[] = "ConvGeneric";

SET_UP_OF(setup, struct users)
{
    users_open(f, /* describe= */ true);
    f->engine.options.queue_bytes_uid = 4u << 20;
    users_reopen(f);
}

FIXTURE_OF(plan, struct users, setup, NULL);

static struct message_plan plan_of(uint32_t channels, uint8_t flags, const char *solver)
{
    return (struct message_plan){ .problem = small_problem(channels),
                                  .flags = (uint8_t)(FETCH_NO_OBJECT | flags),
                                  .target = bytes_of_text(FIXTURE_TARGET),
                                  .database_id = bytes_of_text(DEVICE),
                                  .solver = bytes_of_text(solver) };
}

static void begin_plan(struct test_caller *c, uint32_t channels, uint8_t flags, const char *solver)
{
    const struct message_plan m = plan_of(channels, flags, solver);
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, plan, 8, &m);
}

/* Ends all compiles, and returns their number. */
static unsigned compile_all(struct users *f)
{
    unsigned count = 0;
    fake_executor_run_tasks(&f->engine.executor);
    for (; fake_executor_next_compile(&f->engine.executor); count++) {
        finish_compile(f, "object");
        fake_executor_run_tasks(&f->engine.executor);
    }
    return count;
}

static struct message_planned planned(const struct test_caller *c)
{
    assert_int_equal(c->reply_count, 1);
    assert_int_equal(c->replies[0].type, MESSAGE_planned);
    struct reader r = reader_of(c->replies[0].body);
    return message_planned_read(&r);
}

static void assert_generic(const struct test_caller *c)
{
    const struct message_planned m = planned(c);
    assert_true(bytes_equal_text(m.solver, generic));
    assert_int_equal(m.source, PLAN_SOURCE_GENERIC);
}

static void assert_chosen(const struct test_caller *c)
{
    const struct message_planned m = planned(c);
    assert_false(bytes_equal_text(m.solver, generic));
    assert_int_equal(m.source, PLAN_SOURCE_HEURISTIC);
}

/* Stores the generic kernel, by a plan for a problem that the tests do not use otherwise. */
static void store_generic(struct users *f)
{
    begin_plan(&f->ann, 7, 0, generic);
    assert_int_equal(compile_all(f), 1);
}

TEST_F(plan, generic_kernels_stand_in_until_the_chosen_ones_are_stored)
{
    store_generic(f);
    begin_plan(&f->ann, 12, PLAN_GENERIC, "");
    assert_int_equal(compile_all(f), 0);
    assert_generic(&f->ann);

    begin_plan(&f->ann, 12, 0, "");
    assert_true(compile_all(f) > 0);
    assert_chosen(&f->ann);
    begin_plan(&f->ann, 12, PLAN_GENERIC, "");
    assert_int_equal(compile_all(f), 0);
    assert_chosen(&f->ann);
}

TEST_F(plan, generic_kernels_are_found_after_a_restart)
{
    store_generic(f);
    users_reopen(f);
    begin_plan(&f->bob, 12, PLAN_GENERIC, "");
    assert_int_equal(compile_all(f), 0);
    assert_generic(&f->bob);
}

TEST_F(plan, without_stored_generic_kernels_the_chosen_ones_are_compiled)
{
    begin_plan(&f->ann, 12, PLAN_GENERIC, "");
    assert_true(compile_all(f) > 0);
    assert_chosen(&f->ann);
}

/* Metrics count each kernel of the plan once, however many plans are tried. */
TEST_F(plan, only_the_kernels_of_the_plan_are_counted)
{
    begin_plan(&f->ann, 12, PLAN_GENERIC, "");
    unsigned compiled = compile_all(f);
    assert_true(compiled > 0);
    assert_int_equal(users_stat(f, "fetches"), compiled);
    assert_int_equal(users_stat(f, "misses"), compiled);

    store_generic(f);
    begin_plan(&f->ann, 13, PLAN_GENERIC, "");
    assert_int_equal(compile_all(f), 0);
    assert_generic(&f->ann);
    assert_int_equal(users_stat(f, "fetches"), compiled + 2);
    assert_int_equal(users_stat(f, "misses"), compiled + 1);
    assert_int_equal(users_stat(f, "hits.hot"), 1);
}

TEST_F(plan, a_solver_that_the_client_names_is_compiled)
{
    store_generic(f);
    begin_plan(&f->ann, 12, PLAN_GENERIC, "ConvDirectNaive");
    assert_int_equal(compile_all(f), 1);
    assert_chosen(&f->ann);
}

TEST_F(plan, a_plan_that_may_use_no_cache_is_compiled)
{
    store_generic(f);
    begin_plan(&f->ann, 12, PLAN_GENERIC | FETCH_NO_CACHE, "");
    assert_true(compile_all(f) > 0);
    assert_chosen(&f->ann);
}

TEST_F(plan, a_generic_plan_does_not_wait_for_a_compile)
{
    store_generic(f);
    begin_plan(&f->bob, 12, 0, "");
    fake_executor_run_tasks(&f->engine.executor);
    assert_non_null(fake_executor_next_compile(&f->engine.executor));

    begin_plan(&f->ann, 12, PLAN_GENERIC, "");
    fake_executor_run_tasks(&f->engine.executor);

    assert_generic(&f->ann);
    assert_int_equal(f->bob.reply_count, 0);
    compile_all(f);
    assert_chosen(&f->bob);
}

TEST_F(plan, a_caller_may_leave_while_stored_kernels_are_looked_up)
{
    store_generic(f);
    begin_plan(&f->bob, 12, PLAN_GENERIC, "");
    test_caller_leave(&f->bob);
    assert_int_equal(compile_all(f), 0);
    begin_plan(&f->ann, 12, PLAN_GENERIC, "");
    compile_all(f);
    assert_generic(&f->ann);
}
