/* SPDX-License-Identifier: MIT */
#include "libclient/plans/plan.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_tuning.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PROBLEMS 600

struct asked {
    unsigned plans;
    uint8_t flags;
    char database_id[32], driver[32], solver[32], config[32];
};

struct answers {
    struct message_planned planned;
    struct message_plan_kernel kernel;
    struct message_plan_argument argument;
    struct tensor_map map;
    uint32_t maps; /* tensor maps after the arguments */
    uint32_t more; /* further arguments of the same kind */
    uint32_t cut;
    struct message_result object;
};

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct kiln_problem problem;
    struct kiln_plan_options options;
    struct answers answers;
    struct asked asked;
};

static void copy(char to[32], struct bytes text)
{
    snprintf(to, 32, "%.*s", (int)text.size, (const char *)text.data);
}

static void note(struct asked *asked, const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    struct message_plan m = message_plan_read(&r);
    assert_false(r.failed);
    asked->plans++;
    asked->flags = m.flags;
    copy(asked->database_id, m.database_id);
    copy(asked->driver, m.driver);
    copy(asked->solver, m.solver);
    copy(asked->config, m.config);
}

/* Confirms recordings of measurements, grants leases, and answers reports of shares with DONE. */
static void answer_tuning(const struct fake_request *rq)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1000);
    const struct message_recorded recorded = { .count = 1 };
    const struct message_leased leased = { .state = rq->header.type == MESSAGE_tuning_lease
                                                        ? LEASE_RESULT_GRANTED
                                                        : LEASE_RESULT_DONE,
                                           .lease = 1 };
    if (rq->header.type == MESSAGE_tuning_put)
        message_recorded_write(&body, &recorded);
    else
        message_leased_write(&body, &leased);
    fake_reply(rq, rq->header.type == MESSAGE_tuning_put ? MESSAGE_recorded : MESSAGE_leased, 0,
               buffer_view(&body));
}

static void answer(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    if (rq->header.type != MESSAGE_plan) {
        answer_tuning(rq);
        return;
    }
    note(&f->asked, rq);
    BUFFER_AUTO struct buffer arguments, kernels, objects, body;
    buffer_init(&arguments, 10000);
    buffer_init(&kernels, 10000);
    buffer_init(&objects, 10000);
    buffer_init(&body, 40000);
    for (uint32_t i = 0; i < 1 + f->answers.more; i++)
        message_plan_argument_write(&arguments, &f->answers.argument);
    for (uint32_t i = 0; i < f->answers.maps; i++)
        tensor_map_write(&arguments, &f->answers.map);
    arguments.size -= f->answers.cut;
    struct message_plan_kernel kernel = f->answers.kernel;
    kernel.arguments = buffer_view(&arguments);
    message_plan_kernel_write(&kernels, &kernel);
    message_result_write(&objects, &f->answers.object);
    struct message_planned m = f->answers.planned;
    m.kernels = buffer_view(&kernels);
    m.objects = buffer_view(&objects);
    message_planned_write(&body, &m);
    fake_reply(rq, MESSAGE_planned, 0, buffer_view(&body));
}

SET_UP(set_up)
{
    static const struct digest key = { { 7 } };
    *f = (struct fixture){
        .problem = public_test_problem(1),
        .options = { .size = sizeof(f->options), .target = "gfx90a" },
        .answers.planned = { .solver = bytes_of_text("Naive"),
                             .config = bytes_of_text("8,4"),
                             .source = PLAN_SOURCE_FIND,
                             .expected_ms = fake_real(0.25),
                             .toolchain = bytes_of_text("clang"),
                             .toolchain_identity = bytes_of_text("clang 15 0123456789ab"),
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
                            .shared_bytes = 65536,
                            .argument_count = 1 },
        .answers.argument = { .kind = ARGUMENT_Y },
        .answers.object = fake_inline_result(0, &key, bytes_of_text("object")),
    };
    fake_daemon_serve(&f->daemon, answer, f, &f->client);
}

FIXTURE(plan, set_up, NULL);

static int get(struct fixture *f, struct kiln_plan **ret_plan)
{
    *ret_plan = NULL;
    return kiln_plan_get(f->client, &f->problem, &f->options, ret_plan, &f->err);
}

TEST_F(plan, a_plan_reports_its_launches_and_their_objects)
{
    struct kiln_plan *plan;

    must(get(f, &plan), f->err);

    assert_string_equal(kiln_plan_solver(plan), "Naive");
    assert_string_equal(kiln_plan_config(plan), "8,4");
    assert_int_equal(kiln_plan_source(plan), KILN_PLAN_FIND);
    assert_true(kiln_plan_expected_ms(plan) == 0.25);
    assert_string_equal(kiln_plan_toolchain(plan), "clang");
    assert_string_equal(kiln_plan_toolchain_identity(plan), "clang 15 0123456789ab");
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
    assert_int_equal(launch.shared_bytes, 65536);
    assert_int_equal(kiln_plan_launch(plan, 1, &launch, &f->err), KILN_E_INVALID);
    assert_null(kiln_plan_object(plan, 1));
    kiln_plan_unref(plan);
}

TEST_F(plan, a_program_with_an_older_header_gets_the_members_it_knows)
{
    struct kiln_plan *plan;
    struct kiln_plan_launch launch = { .size = offsetof(struct kiln_plan_launch, shared_bytes),
                                       .shared_bytes = 7 };
    f->options.config = "not read";
    f->options.size = offsetof(struct kiln_plan_options, config);
    must(get(f, &plan), f->err);
    must(kiln_plan_launch(plan, 0, &launch, &f->err), f->err);
    assert_int_equal(launch.group[0], 64);
    assert_int_equal(launch.shared_bytes, 7);
    assert_int_equal(launch.size, offsetof(struct kiln_plan_launch, shared_bytes));
    assert_string_equal(f->asked.config, "");
    kiln_plan_unref(plan);
}

TEST_F(plan, the_plan_options_reach_the_daemon)
{
    struct kiln_plan *plan;
    f->options.database_id = "gfx90a68";
    f->options.driver = "6.2";
    f->options.solver = "Naive";
    f->options.config = "16,2";
    must(get(f, &plan), f->err);
    assert_string_equal(f->asked.database_id, "gfx90a68");
    assert_string_equal(f->asked.driver, "6.2");
    assert_string_equal(f->asked.solver, "Naive");
    assert_string_equal(f->asked.config, "16,2");
    assert_int_equal(f->asked.flags, 0);
    kiln_plan_unref(plan);

    f->options.heuristic = 1;
    f->options.config = NULL;

    must(get(f, &plan), f->err);
    assert_int_equal(f->asked.flags, PLAN_HEURISTIC);
    kiln_plan_unref(plan);

    f->options.heuristic = 0;
    f->options.nearest = 1;

    must(get(f, &plan), f->err);
    assert_int_equal(f->asked.flags, PLAN_NEAREST);
    kiln_plan_unref(plan);
}

static void get_again(struct fixture *f)
{
    struct kiln_plan *plan;
    must(get(f, &plan), f->err);
    kiln_plan_unref(plan);
}

TEST_F(plan, a_plan_by_heuristic_is_another_one)
{
    get_again(f);
    f->options.heuristic = 1;
    get_again(f);
    assert_int_equal(f->asked.plans, 2);
    get_again(f);
    assert_int_equal(f->asked.plans, 2);
    f->options.driver = "6.2"; /* records of another driver version are stale */
    get_again(f);
    assert_int_equal(f->asked.plans, 3);
}

TEST_F(plan, plans_with_forced_configs_are_not_kept)
{
    f->options.solver = "Naive";
    f->options.config = "16,2";
    get_again(f);
    get_again(f);
    assert_int_equal(f->asked.plans, 2);
}

/* ---- what this process records ---- */

static int put(struct fixture *f, __typeof__(kiln_find_put) *put_records)
{
    const struct kiln_measurement m = fake_measurement("Naive");
    const struct kiln_recording r = fake_recording(&m, 1);
    return put_records(f->client, &f->problem, &r, &f->err);
}

static int put_find(struct fixture *f) { return put(f, kiln_find_put); }
static int put_perf(struct fixture *f) { return put(f, kiln_perf_put); }

static int take_lease(struct fixture *f)
{
    const struct kiln_lease_request r = { .size = sizeof(r),
                                          .database_id = "gfx90a68",
                                          .solver = "Naive" };
    struct kiln_lease lease = { .size = sizeof(lease) };
    return kiln_lease_take(f->client, &f->problem, &r, &lease, &f->err);
}

TEST_F(plan, a_recording_by_this_process_counts_for_its_next_plan)
{
    int (*const changes[])(struct fixture *) = { put_find, put_perf, take_lease };
    get_again(f);
    f->problem.n = 2;
    get_again(f);
    for (unsigned i = 0; i < 3; i++) {
        const unsigned before = f->asked.plans;
        f->problem.n = 1;

        must(changes[i](f), f->err);

        get_again(f);
        assert_int_equal(f->asked.plans, before + 1);
        f->problem.n = 2;
        get_again(f);
        assert_int_equal(f->asked.plans, before + 1);
    }
}

TEST(plan, the_last_report_of_a_lease_counts_for_the_next_plan)
{
    struct fixture *f = *state;
    const struct kiln_lease_request r = { .size = sizeof(r),
                                          .database_id = "gfx90a68",
                                          .solver = "Naive" };
    struct kiln_lease lease = { .size = sizeof(lease) };
    must(kiln_lease_take(f->client, &f->problem, &r, &lease, &f->err), f->err);
    get_again(f);
    assert_int_equal(f->asked.plans, 1);
    must(kiln_lease_report(f->client, &lease, NULL, &lease, &f->err), f->err);
    assert_int_equal(lease.state, KILN_LEASE_DONE);
    get_again(f);
    assert_int_equal(f->asked.plans, 2);
}

/* ---- the in-process cache ---- */

TEST_F(plan, the_same_problem_is_planned_once)
{
    struct kiln_plan *first, *second, *third;
    must(get(f, &first), f->err);
    must(get(f, &second), f->err);
    assert_int_equal(f->daemon.requests, 1);
    assert_int_equal(kiln_plan_object_tier(second, 0), KILN_TIER_PROCESS);
    assert_int_equal(kiln_kernel_tier(kiln_plan_object(second, 0)), KILN_TIER_PROCESS);
    assert_int_equal(kiln_plan_object_tier(first, 0), KILN_TIER_HOT);

    f->options.solver = "Naive";
    must(get(f, &third), f->err);
    assert_int_equal(f->daemon.requests, 2);
    kiln_plan_unref(first);
    kiln_plan_unref(second);
    kiln_plan_unref(third);
}

/* The next request may be answered with the chosen kernels, which may be compiled by then. */
TEST_F(plan, generic_plans_are_not_cached)
{
    struct kiln_plan *plan;
    f->options.generic = 1;
    f->answers.planned.source = PLAN_SOURCE_GENERIC;
    for (unsigned i = 1; i <= 2; i++) {
        must(get(f, &plan), f->err);
        assert_int_equal(f->asked.flags, PLAN_GENERIC);
        assert_int_equal(f->asked.plans, i);
        assert_int_equal(kiln_plan_source(plan), KILN_PLAN_GENERIC);
        kiln_plan_unref(plan);
    }
}

TEST_F(plan, a_plan_lives_as_long_as_somebody_holds_it)
{
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

TEST_F(plan, a_plan_without_objects_still_reports_about_them)
{
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
    must(get(f, &plan), f->err); /* failures are not cached, because the daemon may forget them */
    assert_int_equal(f->daemon.requests, 2);
    kiln_plan_unref(plan);
}

TEST_F(plan, a_failed_object_is_the_plans_failure)
{
    struct kiln_plan *plan;
    f->answers.object = (struct message_result){ .code = KILN_COMPILE_FAILED,
                                                 .text = bytes_of_text("crashed"),
                                                 .log = bytes_of_text("log") };
    assert_int_equal(get(f, &plan), KILN_E_COMPILE_FAILED);
    assert_string_equal(f->err.text, "crashed");
    assert_string_equal(f->err.log, "log");
}

TEST_F(plan, texts_of_the_greatest_length_are_not_truncated)
{
    struct kiln_plan *plan;
    static char config[TUNING_WORD_MAX + 1], identity[TUNING_WORD_MAX + 1];
    memset(config, '1', TUNING_WORD_MAX);
    memset(identity, 'x', TUNING_WORD_MAX);
    f->answers.planned.config = bytes_of_text(config);
    f->answers.planned.toolchain_identity = bytes_of_text(identity);

    must(get(f, &plan), f->err);

    struct kiln_plan_launch launch = { .size = sizeof(launch) };
    must(kiln_plan_launch(plan, 0, &launch, &f->err), f->err);
    assert_string_equal(kiln_plan_config(plan), config);
    assert_string_equal(kiln_plan_toolchain_identity(plan), identity);
    assert_string_equal(launch.kernel, "conv");
    assert_int_equal(launch.shared_bytes, 65536);
    kiln_plan_unref(plan);
}

static void refused(struct fixture *f, const char *part)
{
    struct kiln_plan *plan;
    assert_int_equal(get(f, &plan), KILN_E_CORRUPT);
    assert_says(f->err.text, part);
    assert_null(plan);
}

TEST_F(plan, inconsistent_plans_are_refused)
{
    const struct answers good = f->answers;
    static char longest[TUNING_WORD_MAX + 1];
    memset(longest, '1', sizeof(longest));
#define BREAK(field, value, part)   \
    do {                            \
        f->answers.field = (value); \
        refused(f, part);           \
        f->answers = good;          \
    } while (0)
    BREAK(planned.kernel_count, 0, "kernels");
    BREAK(planned.kernel_count, 2, "name");
    BREAK(planned.kernel_count, 1000000, "kernels");
    BREAK(planned.object_count, 2, "match");
    BREAK(planned.object_count, 9, "code objects");
    BREAK(planned.solver, bytes_of_text(""), "no solver");
    BREAK(planned.toolchain, bytes_of("a\0b", 3), "toolchain");
    BREAK(planned.config, bytes_of("1\0,2", 4), "perf config");
    BREAK(planned.config, bytes_of(longest, sizeof(longest)), "perf config");
    BREAK(planned.toolchain_identity, bytes_of(longest, sizeof(longest)), "toolchain");
    BREAK(planned.source, PLAN_SOURCE_GENERIC + 1, "source");
    BREAK(planned.expected_ms, fake_real(-1), "expected time");
    BREAK(planned.expected_ms, fake_real(NAN), "expected time");
    BREAK(planned.expected_ms, fake_real(INFINITY), "expected time");
    BREAK(kernel.name, bytes_of("a\0b", 3), "a name");
    BREAK(kernel.object, 1, "missing");
    BREAK(kernel.grid_y, 0, "geometry");
    BREAK(kernel.group_z, 0, "geometry");
    BREAK(kernel.group_x, 0x80000000u, "geometry");
    BREAK(kernel.argument_count, 2, "match");
    BREAK(kernel.argument_count, 100, "many arguments");
    BREAK(argument.kind, 99, "unknown kind");
    BREAK(object.index, 1, "order");
    BREAK(object.size, 0, "size");
    BREAK(object.tier, 77, "tier");
    BREAK(object.size, 7, "7 bytes");
#undef BREAK
}

TEST_F(plan, a_plans_tensor_maps_are_checked_like_all_of_it)
{
    struct kiln_plan *plan;
    f->answers.argument.kind = ARGUMENT_TENSOR_MAP;
    f->answers.maps = 1;
    f->answers.map = (struct tensor_map){ .operand = ARGUMENT_X,
                                          .type = TYPE_FLOAT16,
                                          .rank = 1,
                                          .dims = { 64 },
                                          .strides = { 2 },
                                          .steps = { 1 },
                                          .box = { 64 } };
    f->options.no_objects = 1;
    f->answers.object.content = (struct bytes){ 0 };
    must(get(f, &plan), f->err);
    assert_int_equal(plan->content->map_count, 1);
    assert_memory_equal(&plan->content->maps[0], &f->answers.map, sizeof(f->answers.map));
    kiln_plan_unref(plan);

    const struct answers good = f->answers;
    f->answers.maps = 0;
    refused(f, "tensor map");
    f->answers.maps = 2;
    refused(f, "arguments");
    f->answers = good;
    for (f->answers.cut = 1; f->answers.cut < TENSOR_MAP_WIRE_SIZE; f->answers.cut += 7)
        refused(f, "tensor map");
    f->answers = good;
    f->answers.maps = f->answers.kernel.argument_count = LIMIT_PLAN_MAPS + 1;
    f->answers.more = LIMIT_PLAN_MAPS;
    refused(f, "too many");
    f->answers = good;
    f->answers.map.rank = 6;
    refused(f, "6 dimensions");
    f->answers.map = good.map;
    f->answers.map.operand = ARGUMENT_TENSOR_MAP;
    refused(f, "operand 7");
    f->answers.map = good.map;
    f->answers.map.strides[0] = 1;
    refused(f, "stride");
}

TEST_F(plan, an_invalid_request_is_refused_without_asking_kilnd)
{
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
    f->options.target = "gfx90a";
    f->options.config = "1,2";
    assert_int_equal(get(f, &plan), KILN_E_INVALID);
    assert_says(f->err.text, "kiln_plan_options.solver");
    static char longest[TUNING_WORD_MAX + 2];
    memset(longest, '1', sizeof(longest) - 1);
    f->options.solver = "Naive";
    f->options.config = longest;
    assert_int_equal(get(f, &plan), KILN_E_INVALID);
    assert_says(f->err.text, "kiln_plan_options.config");
    assert_int_equal(f->daemon.connections, 0);
}

/* ---- many plans at once ---- */

struct seen {
    unsigned calls, failures, stop_at;
    bool reported[PROBLEMS];
};

static int on_plan(void *context, size_t index, struct kiln_plan *plan,
                   const struct kiln_error *err)
{
    struct seen *s = context;
    assert_true((plan == NULL) == (err != NULL));
    assert_false(s->reported[index]);
    s->reported[index] = true;
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

static int get_batch(struct fixture *f, const struct kiln_problem *problems, struct seen *seen)
{
    const struct kiln_plan_batch batch = { .size = sizeof(batch),
                                           .problems = problems,
                                           .count = PROBLEMS,
                                           .options = &f->options,
                                           .ready = on_plan,
                                           .context = seen };
    return kiln_plan_batch(f->client, &batch, &f->err);
}

TEST_F(plan, a_batch_of_plans_is_reported_each_once)
{
    struct kiln_problem *problems = many(f);
    problems[17].k = 0;
    struct seen seen = { 0 };

    must(get_batch(f, problems, &seen), f->err);

    assert_int_equal(seen.calls, PROBLEMS);
    assert_int_equal(seen.failures, 1);
    assert_true(seen.reported[17]);
    assert_int_equal(f->daemon.requests, PROBLEMS - 1);
}

TEST_F(plan, a_batch_of_plans_stays_within_the_daemons_limit)
{
    struct seen seen = { 0 };
    f->daemon.max_in_flight = 3;
    must(get_batch(f, many(f), &seen), f->err);
    assert_int_equal(seen.calls, PROBLEMS);
}

TEST_F(plan, a_callback_may_stop_a_batch_of_plans)
{
    struct seen seen = { .stop_at = 5 };
    assert_int_equal(get_batch(f, many(f), &seen), KILN_E_CANCELLED);
    assert_int_equal(seen.calls, 5);
    struct kiln_plan *plan;
    f->problem.n = 7;
    must(get(f, &plan), f->err);
    assert_int_equal(f->daemon.connections, 1);
    kiln_plan_unref(plan);
}

TEST_F(plan, a_batch_with_missing_members_is_refused)
{
    const struct kiln_plan_batch good = { .size = sizeof(good),
                                          .problems = many(f),
                                          .count = 1,
                                          .options = &f->options,
                                          .ready = on_plan };
    struct kiln_plan_batch bad[4] = { good, good, good, good };
    bad[0].size = 0;
    bad[1].problems = NULL;
    bad[2].options = NULL;
    bad[3].ready = NULL;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(kiln_plan_batch(f->client, &bad[i], &f->err), KILN_E_INVALID);
    assert_int_equal(kiln_plan_batch(f->client, NULL, &f->err), KILN_E_INVALID);
    f->options.timeout_ms = -1;
    assert_int_equal(kiln_plan_batch(f->client, &good, &f->err), KILN_E_INVALID);
    assert_int_equal(f->daemon.requests, 0);
}
