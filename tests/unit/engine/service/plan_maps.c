/* SPDX-License-Identifier: MIT */
#include "common/protocol/tensor_map.h"
#include "engine/solver/candidates.h"
#include "tests/unit/engine/service/tuning_fixture.h"

#include <elf.h>
#include <string.h>

#define TARGET "sm_90a"
#define DEVICE "sm_90_132"
#define SOLVER "ConvImplicitGemm"
#define IN_BULK "128,64,64,4,1,4,1,1,0,2"
#define LASTING "128,64,64,4,1,4,1,1,0,3"
#define FED_BY_ALL "128,64,64,8,1,4,1,1,0,1"

#define NVRTC                                                                               \
    "{\"toolchains\":[{\"name\":\"nvrtc\",\"version\":\"13.0\",\"path\":\"/x\",\"family\":" \
    "\"nvidia\",\"identity\":"                                                              \
    "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}]}"

struct fixture {
    struct users users;
    struct test_caller no_maps; /* connection of ann's user without CAPABILITY_TENSOR_MAPS */
    const char *device;
};

SET_UP(set_up)
{
    const struct message_hello m = { .oldest_version = 1,
                                     .newest_version = 1,
                                     .capabilities = CAPABILITY_INLINE };
    f->device = DEVICE;
    users_open(&f->users, /* describe= */ false);
    engine_fixture_describe_as(&f->users.engine, NVRTC);
    test_caller_join(&f->no_maps, &f->users.engine, 1000, ROLE_USE);
    SEND_MESSAGE(&f->no_maps, hello, 0, &m);
}

TEAR_DOWN(tear_down) { test_caller_leave(&f->no_maps); }

FIXTURE(plan, set_up, tear_down);

static void run_to_end(struct fixture *f)
{
    struct fake_executor *executor = &f->users.engine.executor;
    Elf64_Ehdr object = { .e_machine = EM_CUDA, .e_flags = 90 };
    memcpy(object.e_ident, ELFMAG, SELFMAG);
    object.e_ident[EI_CLASS] = ELFCLASS64;
    object.e_ident[EI_DATA] = ELFDATA2LSB;
    fake_executor_run_tasks(executor);
    while (fake_executor_next_compile(executor)) {
        fake_executor_compile(executor, bytes_of(&object, sizeof(object)));
        fake_executor_run_tasks(executor);
    }
}

static struct problem layer(void)
{
    struct problem problem = problem_of_batch(64);
    problem.type = TYPE_FLOAT16;
    problem.x_layout = problem.w_layout = problem.y_layout = LAYOUT_CHANNELS_LAST;
    problem.filter = (struct extent){ 1, 3, 3 };
    problem.pad = (struct extent){ 0, 1, 1 };
    return problem;
}

static void send_plan_of(struct fixture *f, struct test_caller *c, const char *config)
{
    const struct message_plan m = { .problem = layer(),
                                    .flags = FETCH_NO_OBJECT,
                                    .target = bytes_of_text(TARGET),
                                    .database_id = bytes_of_text(f->device),
                                    .solver = bytes_of_text(config[0] ? SOLVER : ""),
                                    .config = bytes_of_text(config) };
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, plan, 8, &m);
    run_to_end(f);
    assert_int_equal(c->reply_count, 1);
}

/* Returns the answer, whose texts are borrowed from |c|'s reply. */
static struct message_planned ask_plan(struct fixture *f, struct test_caller *c, const char *config)
{
    send_plan_of(f, c, config);
    if (c->replies[0].type == MESSAGE_error) {
        KILN_AUTO(mem) char *text = bytes_to_text(reply_error(c, 0).text);
        fail_msg("no plan: '%s'", text);
    }
    struct reader r = reader_of(c->replies[0].body);
    struct message_planned m = message_planned_read(&r);
    must(message_body_check(&r, MESSAGE_planned, &f->users.engine.err), f->users.engine.err);
    return m;
}

static unsigned count_maps(const struct message_planned *m)
{
    struct reader kernels = reader_of(m->kernels);
    unsigned all = 0;
    for (uint32_t i = 0; i < m->kernel_count; i++) {
        const struct message_plan_kernel k = message_plan_kernel_read(&kernels);
        struct reader r = reader_of(k.arguments);
        unsigned maps = 0;
        for (uint32_t j = 0; j < k.argument_count; j++) {
            const struct message_plan_argument a = message_plan_argument_read(&r);
            maps += a.kind == ARGUMENT_TENSOR_MAP;
            assert_true(a.kind != ARGUMENT_TENSOR_MAP || a.value == 0);
        }
        for (unsigned j = 0; j < maps; j++) {
            struct kiln_err err = KILN_ERR_INIT;
            const struct tensor_map map = tensor_map_read(&r);
            must(tensor_map_check(&map, &err), err);
        }
        assert_true(!r.failed && r.at == r.end);
        all += maps;
    }
    assert_true(!kernels.failed && kernels.at == kernels.end);
    return all;
}

/* Returns whether the config copies in bulk. The last number of such a config is 2, or 3 with
 * persistent groups. */
static bool is_in_bulk(struct bytes config)
{
    return config.size > 2 && config.data[config.size - 2] == ',' &&
           (config.data[config.size - 1] == '2' || config.data[config.size - 1] == '3');
}

TEST_F(plan, a_client_that_encodes_tensor_maps_gets_them_behind_the_arguments)
{
    struct message_planned m = ask_plan(f, &f->users.ann, "");
    assert_true(is_in_bulk(m.config));
    assert_in_range(count_maps(&m), 2, 3);
    m = ask_plan(f, &f->users.ann, IN_BULK);
    assert_int_equal(count_maps(&m), 2);
    /* the config LASTING also writes the result through a tensor map */
    m = ask_plan(f, &f->users.ann, LASTING);
    assert_int_equal(count_maps(&m), 3);
    m = ask_plan(f, &f->users.ann, FED_BY_ALL);
    assert_int_equal(count_maps(&m), 0);
}

TEST_F(plan, a_client_that_encodes_no_tensor_maps_gets_a_plan_without_any)
{
    const struct message_planned m = ask_plan(f, &f->no_maps, "");
    assert_true(m.config.size > 0);
    assert_false(is_in_bulk(m.config));
    assert_int_equal(count_maps(&m), 0);
    send_plan_of(f, &f->no_maps, IN_BULK);
    assert_reply_refuses(&f->no_maps, 0, KILN_INVALID, IN_BULK);
    send_plan_of(f, &f->no_maps, LASTING);
    assert_reply_refuses(&f->no_maps, 0, KILN_INVALID, LASTING);
}

/* The database id ends with the number of multiprocessors. */
TEST_F(plan, persistent_groups_are_as_many_as_the_device_holds)
{
    static const struct {
        const char *device;
        uint32_t processors;
    } devices[] = { { "sm_90_132", 132 }, { "sm_90_78", 78 }, { "sm_90_1", 1 }, { "", 132 } };
    uint32_t groups[4];
    for (size_t i = 0; i < 4; i++) {
        f->device = devices[i].device;
        const struct message_planned m = ask_plan(f, &f->users.ann, LASTING);
        struct reader kernels = reader_of(m.kernels);
        const struct message_plan_kernel k = message_plan_kernel_read(&kernels);
        groups[i] = k.grid_x;
        assert_in_range(groups[i], devices[i].processors / 2, devices[i].processors * 4);
    }
    assert_true(groups[1] < groups[0] && groups[2] < groups[1]);
    assert_int_equal(groups[3], groups[0]);
}

static void record_config(struct fixture *f, struct test_caller *c, uint8_t tier,
                          const char *config, double ms)
{
    struct put put = perf_put(SOLVER, config, ms);
    put.m.problem = layer();
    put.m.database_id = bytes_of_text(DEVICE);
    if (tier)
        put.m.tier = tier;
    tuning_put(&f->users, c, &put);
}

TEST_F(plan, a_tuned_config_with_tensor_maps_is_skipped_for_a_client_without_them)
{
    record_config(f, &f->users.ann, 0, IN_BULK, 0.01);
    struct message_planned m = ask_plan(f, &f->users.ann, "");
    assert_int_equal(m.source, PLAN_SOURCE_PERF);
    assert_true(bytes_equal_text(m.config, IN_BULK));
    m = ask_plan(f, &f->no_maps, "");
    assert_int_equal(m.source, PLAN_SOURCE_HEURISTIC);
    assert_int_equal(count_maps(&m), 0);

    record_config(f, &f->users.publisher, 2, FED_BY_ALL, 0.02);

    m = ask_plan(f, &f->no_maps, "");
    assert_int_equal(m.source, PLAN_SOURCE_PERF);
    assert_true(bytes_equal_text(m.config, FED_BY_ALL));
    m = ask_plan(f, &f->users.ann, "");
    assert_true(bytes_equal_text(m.config, IN_BULK));
}

static struct message_solution solution(struct fixture *f, struct test_caller *c)
{
    const struct message_solutions question = { .problem = layer(),
                                                .target = bytes_of_text(TARGET),
                                                .database_id = bytes_of_text(DEVICE) };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, LIMIT_FRAME_BODY);
    message_solutions_write(&body, &question);
    test_caller_forget_replies(c);
    test_caller_send(c, MESSAGE_solutions, 8, buffer_view(&body));
    run_to_end(f);
    assert_int_equal(c->reply_count, 1);
    struct reader r = reader_of(c->replies[0].body);
    const struct message_solved solved = message_solved_read(&r);
    must(message_body_check(&r, MESSAGE_solved, &f->users.engine.err), f->users.engine.err);
    struct reader list = reader_of(solved.solutions);
    for (uint32_t i = 0; i < solved.count; i++) {
        const struct message_solution one = message_solution_read(&list);
        if (bytes_equal_text(one.solver, SOLVER))
            return one;
    }
    fail_msg("%s is not listed", SOLVER);
    return (struct message_solution){ 0 };
}

TEST_F(plan, solutions_count_configs_that_the_client_can_run)
{
    /* The first request counts the valid configs; the second uses the cached number. */
    for (unsigned i = 0; i < 2; i++) {
        const struct message_solution with = solution(f, &f->users.ann);
        const struct message_solution without = solution(f, &f->no_maps);
        assert_true(is_in_bulk(with.config));
        assert_false(is_in_bulk(without.config));
        assert_int_equal(with.candidates, without.candidates);
        assert_true(with.valid > without.valid);
    }
}

static unsigned bulk_candidates(struct fixture *f, struct test_caller *c, unsigned *ret_all)
{
    const struct message_configs question = { .problem = layer(),
                                              .target = bytes_of_text(TARGET),
                                              .solver = bytes_of_text(SOLVER),
                                              .first = 0,
                                              .count = 4096 };
    BUFFER_AUTO struct buffer body;
    unsigned in_bulk = 0;
    buffer_init(&body, LIMIT_FRAME_BODY);
    message_configs_write(&body, &question);
    test_caller_forget_replies(c);
    test_caller_send(c, MESSAGE_configs, 8, buffer_view(&body));
    run_to_end(f);
    assert_int_equal(c->reply_count, 1);
    assert_int_equal(c->replies[0].type, MESSAGE_candidates);
    struct reader r = reader_of(c->replies[0].body);
    const struct message_candidates answer = message_candidates_read(&r);
    struct reader list = reader_of(answer.configs);
    for (uint32_t i = 0; i < answer.count; i++)
        in_bulk += is_in_bulk(message_candidate_read(&list).config);
    assert_false(list.failed);
    *ret_all = answer.count;
    return in_bulk;
}

TEST_F(plan, candidates_are_configs_that_the_client_can_run)
{
    unsigned with, without;
    const unsigned in_bulk = bulk_candidates(f, &f->users.ann, &with);
    assert_true(in_bulk > 0);
    assert_int_equal(bulk_candidates(f, &f->no_maps, &without), 0);
    assert_int_equal(with - in_bulk, without);
}
