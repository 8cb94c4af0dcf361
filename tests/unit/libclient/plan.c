/* SPDX-License-Identifier: MIT */
/* Plans: asked for, read, refused. */
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <string.h>

#define PROBLEMS 600

/* What the daemon answers with. */
struct answers {
    struct message_planned planned;
    struct message_plan_kernel kernel;
    struct message_plan_argument argument;
    struct message_outcome object;
};

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct kiln_problem problem;
    struct kiln_plan_options options;
    struct answers answers;
};

static void answer(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    BUFFER_AUTO struct buffer arguments, kernels, objects, body;
    buffer_init(&arguments, 10000);
    buffer_init(&kernels, 10000);
    buffer_init(&objects, 10000);
    buffer_init(&body, 40000);
    message_plan_argument_write(&arguments, &f->answers.argument);
    struct message_plan_kernel kernel = f->answers.kernel;
    kernel.arguments = buffer_view(&arguments);
    message_plan_kernel_write(&kernels, &kernel);
    message_outcome_write(&objects, &f->answers.object);
    struct message_planned m = f->answers.planned;
    m.kernels = buffer_view(&kernels);
    m.objects = buffer_view(&objects);
    message_planned_write(&body, &m);
    fake_reply(rq, MESSAGE_planned, 0, buffer_view(&body), NULL, 0);
}

static int set_up(void **state)
{
    static struct fixture f;
    static const struct digest key = { { 7 } };
    f = (struct fixture){
        .problem = { .size = sizeof(f.problem),
                     .spatial_dims = 2,
                     .n = 1,
                     .c = 4,
                     .k = 8,
                     .groups = 1,
                     .in = { 1, 8, 8 },
                     .filter = { 1, 3, 3 },
                     .pad = { 0, 1, 1 },
                     .stride = { 1, 1, 1 },
                     .dilation = { 1, 1, 1 } },
        .options = { .size = sizeof(f.options), .target = "gfx90a" },
        .answers.planned = { .solver = bytes_of_text("Naive"),
                             .toolchain = bytes_of_text("clang"),
                             .workspace_size = 64,
                             .plan_ns = 9,
                             .kernel_count = 1,
                             .object_count = 1 },
        .answers.kernel = { .name = bytes_of_text("conv"),
                            .grid_x = 2,
                            .grid_y = 3,
                            .grid_z = 4,
                            .group_x = 64,
                            .group_y = 1,
                            .group_z = 1,
                            .argument_count = 1 },
        .answers.argument = { .kind = ARGUMENT_Y },
        .answers.object = fake_inline_outcome(0, &key, bytes_of_text("object")),
    };
    f.daemon.context = &f;
    f.daemon.handle = answer;
    fake_daemon_start(&f.daemon);
    f.client = fake_client(&f.daemon);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    kiln_client_close(f->client);
    fake_daemon_stop(&f->daemon);
    return 0;
}

static int get(struct fixture *f, struct kiln_plan **ret_plan)
{
    *ret_plan = NULL;
    return kiln_plan_get(f->client, &f->problem, &f->options, 0, ret_plan, &f->err);
}

static void a_plan_says_what_to_launch_and_with_which_object(void **state)
{
    struct fixture *f = *state;
    struct kiln_plan *plan;

    must(get(f, &plan), f->err);

    assert_string_equal(kiln_plan_solver(plan), "Naive");
    assert_string_equal(kiln_plan_toolchain(plan), "clang");
    assert_int_equal(kiln_plan_workspace(plan), 64);
    assert_int_equal(kiln_plan_ns(plan), 9);
    assert_int_equal(kiln_plan_object_count(plan), 1);
    assert_int_equal(kiln_plan_object_tier(plan, 0), KILN_TIER_HOT);
    assert_int_equal(kiln_plan_object_size(plan, 0), 6);
    assert_int_equal(kiln_plan_object_compile_ns(plan, 0), 5);
    assert_memory_equal(kiln_kernel_data(kiln_plan_object(plan, 0)), "object", 6);
    assert_string_equal(kiln_plan_object_key(plan, 0), kiln_kernel_key(kiln_plan_object(plan, 0)));
    struct kiln_plan_launch launch = { .size = sizeof(launch) };
    assert_int_equal(kiln_plan_launch_count(plan), 1);
    must(kiln_plan_launch(plan, 0, &launch, &f->err), f->err);
    assert_string_equal(launch.kernel, "conv");
    assert_int_equal(launch.grid[2], 4);
    assert_int_equal(launch.group[0], 64);
    assert_int_equal(kiln_plan_launch(plan, 1, &launch, &f->err), KILN_E_INVALID);
    assert_null(kiln_plan_object(plan, 1));
    kiln_plan_unref(plan);
}

static void the_same_problem_is_planned_once(void **state)
{
    struct fixture *f = *state;
    struct kiln_plan *first, *second, *third;
    must(get(f, &first), f->err);
    must(get(f, &second), f->err);
    assert_int_equal(f->daemon.requests, 1);
    assert_int_equal(kiln_plan_object_tier(second, 0), KILN_TIER_TABLE);
    assert_int_equal(kiln_kernel_tier(kiln_plan_object(second, 0)), KILN_TIER_TABLE);
    assert_int_equal(kiln_plan_object_tier(first, 0), KILN_TIER_HOT);

    f->options.solver = "Naive"; /* another question */
    must(get(f, &third), f->err);
    assert_int_equal(f->daemon.requests, 2);
    kiln_plan_unref(first);
    kiln_plan_unref(second);
    kiln_plan_unref(third);
}

static void a_plan_lives_as_long_as_somebody_holds_it(void **state)
{
    struct fixture *f = *state;
    struct kiln_plan *plan;
    must(get(f, &plan), f->err);
    assert_ptr_equal(kiln_plan_ref(plan), plan);
    kiln_client_close(f->client);
    f->client = NULL;

    kiln_plan_unref(plan);

    assert_string_equal(kiln_plan_solver(plan), "Naive");
    assert_memory_equal(kiln_kernel_data(kiln_plan_object(plan, 0)), "object", 6);
    kiln_plan_unref(plan);
}

static void a_plan_without_objects_still_tells_about_them(void **state)
{
    struct fixture *f = *state;
    struct kiln_plan *plan;
    f->options.no_objects = 1;
    f->answers.object.content = (struct bytes){ 0 };
    f->answers.object.size = 12345;

    must(get(f, &plan), f->err);

    assert_null(kiln_plan_object(plan, 0));
    assert_int_equal(kiln_plan_object_size(plan, 0), 12345);
    assert_int_equal(kiln_plan_object_tier(plan, 0), KILN_TIER_HOT);
    assert_int_equal(strlen(kiln_plan_object_key(plan, 0)), 64);
    kiln_plan_unref(plan);
    must(get(f, &plan), f->err); /* and is not kept: the daemon may have forgotten meanwhile */
    assert_int_equal(f->daemon.requests, 2);
    kiln_plan_unref(plan);
}

static void a_failed_object_is_the_plans_failure(void **state)
{
    struct fixture *f = *state;
    struct kiln_plan *plan;
    f->answers.object = (struct message_outcome){ .code = KILN_COMPILE_FAILED,
                                                  .text = bytes_of_text("crashed"),
                                                  .log = bytes_of_text("log") };
    assert_int_equal(get(f, &plan), KILN_E_COMPILE_FAILED);
    assert_string_equal(f->err.text, "crashed");
    assert_string_equal(f->err.log, "log");
}

static void refused(struct fixture *f, const char *part)
{
    struct kiln_plan *plan;
    assert_int_equal(get(f, &plan), KILN_E_CORRUPT);
    assert_says(f->err.text, part);
    assert_null(plan);
}

static void plans_that_do_not_fit_together_are_refused(void **state)
{
    struct fixture *f = *state;
    const struct answers good = f->answers;
#define BREAK(field, value, part)   \
    do {                            \
        f->answers.field = (value); \
        refused(f, part);           \
        f->answers = good;          \
    } while (0)
    BREAK(planned.kernel_count, 0, "number of kernels");
    BREAK(planned.kernel_count, 2, "a kernel without a name");
    BREAK(planned.kernel_count, 1000000, "number of kernels");
    BREAK(planned.object_count, 2, "objects do not add up");
    BREAK(planned.object_count, 9, "number of code objects");
    BREAK(planned.solver, bytes_of_text(""), "no solver");
    BREAK(planned.toolchain, bytes_of("a\0b", 3), "no solver or toolchain");
    BREAK(kernel.name, bytes_of("a\0b", 3), "without a name");
    BREAK(kernel.object, 1, "not there");
    BREAK(kernel.grid_y, 0, "geometry");
    BREAK(kernel.group_z, 0, "geometry");
    BREAK(kernel.group_x, 0x80000000u, "geometry");
    BREAK(kernel.argument_count, 2, "arguments do not add up");
    BREAK(kernel.argument_count, 100, "too many arguments");
    BREAK(argument.kind, 99, "unknown kind");
    BREAK(object.index, 1, "out of order");
    BREAK(object.size, 0, "size");
    BREAK(object.tier, 77, "tier");
    BREAK(object.size, 7, "states 7 bytes and sends 6");
#undef BREAK
}

static void what_is_asked_wrongly_is_refused_here(void **state)
{
    struct fixture *f = *state;
    struct kiln_plan *plan;
    f->problem.c = 0;
    assert_int_equal(get(f, &plan), KILN_E_INVALID);
    f->problem.c = 4;
    f->problem.size = 0;
    assert_int_equal(get(f, &plan), KILN_E_INVALID);
    assert_says(f->err.text, "kiln_problem.size");
    f->problem.size = sizeof(f->problem);
    f->options.target = NULL;
    assert_int_equal(get(f, &plan), KILN_E_INVALID);
    assert_says(f->err.text, "kiln_plan_options.target");
    assert_int_equal(f->daemon.connections, 0);
}

/* ---- many ---- */

struct seen {
    unsigned calls, failures, stop_at;
    bool told[PROBLEMS];
};

static int on_plan(void *context, size_t index, struct kiln_plan *plan,
                   const struct kiln_error *err)
{
    struct seen *s = context;
    assert_true((plan == NULL) == (err != NULL));
    assert_false(s->told[index]);
    s->told[index] = true;
    s->failures += err != NULL;
    return ++s->calls == s->stop_at;
}

static struct kiln_problem *many(const struct fixture *f)
{
    static struct kiln_problem problems[PROBLEMS];
    for (unsigned i = 0; i < PROBLEMS; i++) {
        problems[i] = f->problem;
        problems[i].n = i + 1;
    }
    return problems;
}

static void a_batch_of_plans_is_told_each_once(void **state)
{
    struct fixture *f = *state;
    struct kiln_problem *problems = many(f);
    problems[17].k = 0; /* fails alone */
    struct seen seen = { 0 };

    must(kiln_plan_batch(f->client, problems, PROBLEMS, &f->options, 0, on_plan, &seen, &f->err),
         f->err);

    assert_int_equal(seen.calls, PROBLEMS);
    assert_int_equal(seen.failures, 1);
    assert_true(seen.told[17]);
    assert_int_equal(f->daemon.requests, PROBLEMS - 1);
}

static void a_batch_of_plans_keeps_to_what_the_daemon_takes(void **state)
{
    struct fixture *f = *state;
    struct seen seen = { 0 };
    f->daemon.max_in_flight = 3;
    must(kiln_plan_batch(f->client, many(f), PROBLEMS, &f->options, 0, on_plan, &seen, &f->err),
         f->err);
    assert_int_equal(seen.calls, PROBLEMS);
}

static void the_caller_may_have_enough(void **state)
{
    struct fixture *f = *state;
    struct seen seen = { .stop_at = 5 };
    int rc = kiln_plan_batch(f->client, many(f), PROBLEMS, &f->options, 0, on_plan, &seen, &f->err);
    assert_int_equal(rc, KILN_E_CANCELLED);
    assert_int_equal(seen.calls, 5);
    struct kiln_plan *plan;
    f->problem.n = 7;
    must(get(f, &plan), f->err); /* the connection is as good as before */
    assert_int_equal(f->daemon.connections, 1);
    kiln_plan_unref(plan);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_plan_says_what_to_launch_and_with_which_object),
        TEST(the_same_problem_is_planned_once),
        TEST(a_plan_lives_as_long_as_somebody_holds_it),
        TEST(a_plan_without_objects_still_tells_about_them),
        TEST(a_failed_object_is_the_plans_failure),
        TEST(plans_that_do_not_fit_together_are_refused),
        TEST(what_is_asked_wrongly_is_refused_here),
        TEST(a_batch_of_plans_is_told_each_once),
        TEST(a_batch_of_plans_keeps_to_what_the_daemon_takes),
        TEST(the_caller_may_have_enough),
    };
    return cmocka_run_group_tests_name("client plan", tests, NULL, NULL);
}
