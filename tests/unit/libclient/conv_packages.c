/* SPDX-License-Identifier: MIT */
/* The driver refuses kernels of packages, for example cubins of a newer CUDA release. */
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/conv_fixture.h"

#include <string.h>

static const struct conv_solver compiled[] = {
    { .name = "ConvGood", .kernel = "right 1" },
    { .name = "ConvDirectNaive", .kernel = "right 2" },
};
static const struct conv_solver refused[] = {
    { .name = "ConvGood", .kernel = "damaged 1" },
    { .name = "ConvDirectNaive", .kernel = "damaged 2" },
};
static const struct conv_solver refused_generic = { .name = "ConvGeneric", .kernel = "damaged 3" };
static const struct conv_solver uncompiled[] = {
    { .name = "ConvGood" },
    { .name = "ConvDirectNaive" },
};

SET_UP_OF(set_up, struct conv_fixture)
{
    conv_open(f);
    CONV_USE(f, compiled);
    f->packaged = refused;
    test_unsetenv("KILN_PLANS");
    test_setenv("KILN_SOON_BUDGET", "0");
}

FIXTURE_OF(packages, struct conv_fixture, set_up, NULL);

static const char *solver_in(const struct conv_fixture *f)
{
    return kiln_plan_solver(kiln_conv_result_plan(f->result));
}

TEST_F(packages, a_find_measures_what_kilnd_compiles)
{
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    assert_int_equal(conv_entry(f, "ConvGood").state, KILN_CONV_TIMED);
    assert_int_equal(conv_entry(f, "ConvDirectNaive").state, KILN_CONV_TIMED);
    must(kiln_conv_result_recorded(f->result, &f->err), f->err);
}

TEST_F(packages, a_find_that_measures_nothing_returns_what_kilnd_compiles)
{
    f->options.mode = KILN_FIND_FAST;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    assert_int_equal(f->plans, 2);
    assert_int_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_CORRUPT);
    assert_says(f->err.text, "packages");
}

TEST_F(packages, a_job_gets_at_once_what_kilnd_compiles)
{
    f->options.mode = KILN_FIND_SOON;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    assert_int_equal(f->plans, 2);
    assert_int_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_CORRUPT);
    assert_says(f->err.text, "packages");
}

TEST_F(packages, generic_kernels_are_replaced_at_once)
{
    f->options.mode = KILN_FIND_SOON;
    f->generic = &refused_generic;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    assert_int_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_CORRUPT);
}

TEST_F(packages, kernels_of_packages_are_not_requested_again)
{
    f->options.mode = KILN_FIND_SOON;
    must(conv_find(f), f->err);
    f->problem.n++;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    must(kiln_conv_result_recorded(f->result, &f->err), f->err);
    assert_int_equal(f->packaged_plans, 1);
}

static bool is_better(void *context)
{
    struct conv_fixture *f = context;
    return kiln_conv_generation(f->client) != kiln_conv_result_generation(f->result);
}

/* The driver loads the package of generic kernels, but not that of the specialized ones. */
TEST_F(packages, a_generic_plan_is_replaced_by_what_kilnd_compiles)
{
    static const struct conv_solver generic = { .name = "ConvGeneric", .kernel = "right 9" };
    f->options.mode = KILN_FIND_SOON;
    f->generic = &generic;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGeneric");
    wait_until("the plan without generic kernels", is_better, f);
    must(kiln_conv_plan_refresh(f->client, f->result, NULL, &f->err), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    assert_true(atomic_load(&f->device->base.refuses_packages));
}

/* Another process has measured that ConvGood is faster than the job's plan. */
TEST_F(packages, a_plan_of_another_process_is_replaced_by_what_kilnd_compiles)
{
    static const struct conv_solver first[] = {
        { .name = "ConvDirectNaive", .kernel = "right 2" },
        { .name = "ConvGood", .kernel = "right 1" },
    };
    static const struct conv_solver found[] = {
        { .name = "ConvGood", .kernel = "right 1", .find_ms = 1 },
        { .name = "ConvDirectNaive", .kernel = "right 2", .find_ms = 2 },
    };
    CONV_USE(f, first);
    f->packaged = NULL;
    f->options.mode = KILN_FIND_SOON;
    conv_offer_counter(f, 1);
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvDirectNaive");
    WAIT_FOR(f->watches_asked > 0);
    f->packaged = refused;
    CONV_SWITCH(f, found);
    ++*f->counter;
    wait_until("the plan of the other process", is_better, f);
    must(kiln_conv_plan_refresh(f->client, f->result, NULL, &f->err), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    assert_true(atomic_load(&f->device->base.refuses_packages));
}

TEST_F(packages, without_a_compiler_the_job_learns_both_reasons)
{
    CONV_USE(f, uncompiled);
    f->options.mode = KILN_FIND_SOON;
    f->options.frozen = 1;
    f->generic = &refused_generic;
    assert_int_equal(conv_find(f), KILN_E_COMPILE_FAILED);
    assert_says(f->err.text, "name");
    assert_says(f->err.text, "refused");
}

/* A kilnd that does not know the flag would send the refused generic kernels again. */
TEST_F(packages, an_older_kilnd_is_not_asked_for_generic_kernels_again)
{
    f->options.mode = KILN_FIND_SOON;
    f->packaged = NULL;
    f->generic = &refused_generic;
    f->is_older = true;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    f->problem.n++;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    assert_int_equal(f->generic_plans, 1);
}

/* Only the device's memory lacks. */
TEST_F(packages, packages_are_not_given_up_if_loading_fails_for_another_reason)
{
    static const struct conv_solver large[] = { { .name = "ConvGood", .kernel = "large 1" } };
    CONV_USE(f, large);
    f->packaged = NULL;
    f->options.mode = KILN_FIND_SOON;
    assert_int_equal(conv_find(f), KILN_E_NO_MEMORY);
    assert_int_equal(f->plans, 1);
    assert_false(atomic_load(&f->device->base.refuses_packages));
}

/* The job's plan works.  It must not be exchanged for one that cannot be loaded now. */
TEST_F(packages, a_plan_that_does_not_fit_into_memory_is_not_published)
{
    static const struct conv_solver first[] = {
        { .name = "ConvDirectNaive", .kernel = "right 2" },
        { .name = "ConvGood", .kernel = "large 1" },
    };
    static const struct conv_solver found[] = {
        { .name = "ConvGood", .kernel = "large 1", .find_ms = 1 },
        { .name = "ConvDirectNaive", .kernel = "right 2", .find_ms = 2 },
    };
    CONV_USE(f, first);
    f->packaged = NULL;
    f->options.mode = KILN_FIND_SOON;
    conv_offer_counter(f, 1);
    must(conv_find(f), f->err);
    WAIT_FOR(f->watches_asked > 0);
    CONV_SWITCH(f, found);
    ++*f->counter;
    WAIT_FOR(f->device->large_kernels > 0);
    ++*f->counter;
    WAIT_FOR(f->device->large_kernels > 1); /* the thread has compared the records twice */
    assert_false(is_better(f));
}

/* The driver is older than kilnd's compiler, too. Packages of older compilers may still load. */
TEST_F(packages, packages_are_not_given_up_if_compiled_kernels_are_refused_too)
{
    CONV_USE(f, refused);
    f->options.mode = KILN_FIND_SOON;
    assert_int_equal(conv_find(f), KILN_E_CORRUPT);
    assert_false(atomic_load(&f->device->base.refuses_packages));
    f->packaged = compiled;
    f->problem.n++;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
}

TEST_F(packages, a_plan_of_a_named_toolchain_has_no_packages)
{
    CONV_USE(f, refused);
    f->options.mode = KILN_FIND_FAST;
    f->options.toolchain = "clang";
    assert_int_equal(conv_find(f), KILN_E_CORRUPT);
    assert_int_equal(f->plans, 1);
    assert_null(strstr(f->err.text, "packages"));
}
