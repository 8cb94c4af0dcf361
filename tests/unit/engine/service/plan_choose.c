/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/plan_choose.h"
#include "engine/service/internal.h"
#include "engine/solver/candidates.h"
#include "tests/unit/engine/service/kernel_files.h"
#include "tests/unit/engine/service/tuning_fixture.h"

#include <stdio.h>
#include <string.h>

#define GEMM_SOLVER "ConvImplicitGemm"
#define NAIVE_SOLVER "ConvDirectNaive"
#define DEVICE "opencl_1a2b3c4d"

static const struct target target = { .family = TARGET_OPENCL, .text = FIXTURE_TARGET };

/* The byte limit must allow a plan of two programs, which is charged with both sources while it
 * waits. */
SET_UP_OF(setup, struct users)
{
    users_open(f, /* describe= */ true);
    f->engine.options.queue_bytes_uid = 4u << 20;
    users_reopen(f);
}

FIXTURE_OF(with_engine, struct users, setup, NULL);

struct wanted {
    const char *solver, *config, *database_id, *driver;
    uint8_t flags;
    uint32_t n; /* batch size; 0 means 1 */
};

static void send_wanted(struct users *f, struct test_caller *c, const struct wanted *w)
{
    const struct message_plan m = { .problem = problem_of_batch(w->n ? w->n : 1),
                                    .flags = (uint8_t)(FETCH_NO_OBJECT | w->flags),
                                    .target = bytes_of_text(FIXTURE_TARGET),
                                    .database_id =
                                        bytes_of_text(w->database_id ? w->database_id : DEVICE),
                                    .driver = bytes_of_text(w->driver),
                                    .solver = bytes_of_text(w->solver),
                                    .config = bytes_of_text(w->config) };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, LIMIT_FRAME_BODY);
    message_plan_write(&body, &m);
    test_caller_forget_replies(c);
    enum kiln_code rc = test_caller_try_send(c, MESSAGE_plan, 8, buffer_view(&body));
    fake_executor_run_tasks(&f->engine.executor);
    while (!rc && fake_executor_next_compile(&f->engine.executor)) {
        finish_compile(f, "object");
    }
}

/* Returns the answer, whose texts are borrowed from |c|'s reply. */
static struct message_planned ask_plan(struct users *f, struct test_caller *c,
                                       const struct wanted *w)
{
    send_wanted(f, c, w);
    assert_int_equal(c->reply_count, 1);
    if (c->replies[0].type == MESSAGE_error) {
        KILN_AUTO(mem) char *text = bytes_to_text(reply_error(c, 0).text);
        fail_msg("no plan: '%s'", text);
    }
    struct reader r = reader_of(c->replies[0].body);
    struct message_planned m = message_planned_read(&r);
    must(message_body_check(&r, MESSAGE_planned, &f->engine.err), f->engine.err);
    return m;
}

static struct message_planned plan_simply(struct users *f)
{
    return ask_plan(f, &f->ann, &(struct wanted){ 0 });
}

static void assert_refused(struct users *f, const struct wanted *w, enum kiln_code code,
                           const char *words)
{
    send_wanted(f, &f->ann, w);
    assert_int_equal(f->ann.reply_count, 1);
    assert_reply_refuses(&f->ann, 0, code, words);
}

static void assert_text(struct bytes text, const char *wanted)
{
    KILN_AUTO(mem) char *copy = bytes_to_text(text);
    assert_string_equal(copy, wanted);
}

static void assert_plan(const struct message_planned *m, const char *solver,
                        enum plan_source source, double expected_ms)
{
    assert_text(m->solver, solver);
    assert_int_equal(m->source, source);
    assert_int_equal(m->expected_ms, double_bits(expected_ms));
}

static struct put of_device(struct put put)
{
    put.m.database_id = bytes_of_text(DEVICE);
    if (put.m.kind == 0)
        put.m.backend = bytes_of_text("OpenCL");
    return put;
}

static void record_find(struct users *f, struct test_caller *c, const char *solver, double ms)
{
    const struct put put = of_device(find_put(solver, ms));
    tuning_put(f, c, &put);
}

static void record_perf(struct users *f, struct test_caller *c, const char *params, double ms)
{
    const struct put put = of_device(perf_put(GEMM_SOLVER, params, ms));
    tuning_put(f, c, &put);
}

static void record_for_host(struct users *f, struct put put)
{
    put.m.tier = 2;
    tuning_put(f, &f->publisher, &put);
}

/* Stores a config in |text|: the config number |which| (from 0) of those that are valid or, if
 * |valid| is false, of those that are not. Skips the config that the heuristic chooses. */
static void other_config_of_batch(uint32_t n, bool valid, unsigned which,
                                  char text[PERF_CONFIG_TEXT_MAX])
{
    const struct problem problem = problem_of_batch(n);
    const struct solver *solver = solver_find(bytes_of_text(GEMM_SOLVER));
    const struct perf_space space = solver_space(solver, &problem, &target);
    const struct candidate_order order = candidate_order_of(solver->name, &space);
    char heuristic[PERF_CONFIG_TEXT_MAX];
    struct perf_config config;
    solver->choose_config(&problem, &target, &config);
    perf_config_write(&config, heuristic);
    for (uint32_t i = 0; i < order.count; i++) {
        perf_space_at(&space, candidate_point(&order, i), &config);
        perf_config_write(&config, text);
        if (solver->config_is_valid(&problem, &target, &config) == valid &&
            strcmp(text, heuristic) != 0 && which-- == 0)
            return;
    }
    fail_msg("the space has no such config");
}

static void other_config(bool valid, unsigned which, char text[PERF_CONFIG_TEXT_MAX])
{
    other_config_of_batch(1, valid, which, text);
}

TEST_F(with_engine, without_records_the_heuristic_decides)
{
    struct message_planned m = plan_simply(f);
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_HEURISTIC, 0);
    assert_true(m.config.size > 0);
    assert_true(m.toolchain_identity.size > m.toolchain.size);
}

TEST_F(with_engine, the_fastest_recorded_kiln_solver_is_chosen)
{
    record_find(f, &f->ann, GEMM_SOLVER, 0.07);
    record_find(f, &f->ann, NAIVE_SOLVER, 0.05);
    /* MIOpen's solver, which kiln does not have */
    record_find(f, &f->ann, "ConvBinWinogradRxSf2x3g1", 0.01);

    struct message_planned m = plan_simply(f);

    assert_plan(&m, NAIVE_SOLVER, PLAN_SOURCE_FIND, 0.05);
    assert_int_equal(m.config.size, 0);
}

TEST_F(with_engine, a_recorded_solver_that_does_not_apply_is_skipped)
{
    /* ConvDepthwise applies only to problems with as many groups as channels. */
    record_find(f, &f->ann, "ConvDepthwise", 0.01);
    record_find(f, &f->ann, NAIVE_SOLVER, 0.05);
    struct message_planned m = plan_simply(f);
    assert_plan(&m, NAIVE_SOLVER, PLAN_SOURCE_FIND, 0.05);
}

TEST_F(with_engine, a_plan_uses_the_recorded_config)
{
    char config[PERF_CONFIG_TEXT_MAX];
    other_config(true, 0, config);
    record_perf(f, &f->ann, config, 0.04);
    struct message_planned m = plan_simply(f);
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_PERF, 0.04);
    assert_text(m.config, config);
}

TEST_F(with_engine, a_tuned_solver_is_ranked_by_its_tuned_time)
{
    char config[PERF_CONFIG_TEXT_MAX];
    other_config(true, 0, config);
    record_find(f, &f->ann, GEMM_SOLVER, 0.07);
    record_find(f, &f->ann, NAIVE_SOLVER, 0.05);
    record_perf(f, &f->ann, config, 0.04);
    struct message_planned m = plan_simply(f);
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_FIND, 0.04);
    assert_text(m.config, config);
}

static const struct wanted nearest = { .flags = PLAN_NEAREST, .n = 4 };

TEST_F(with_engine, a_similar_problems_records_are_used_only_on_request)
{
    char config[PERF_CONFIG_TEXT_MAX];
    other_config_of_batch(4, true, 0, config);
    record_find(f, &f->ann, NAIVE_SOLVER, 0.05);
    record_find(f, &f->ann, GEMM_SOLVER, 0.02);
    record_perf(f, &f->ann, config, 0.02);

    struct message_planned m = ask_plan(f, &f->ann, &(struct wanted){ .n = 4 });
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_HEURISTIC, 0);

    m = ask_plan(f, &f->ann, &nearest);
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_NEAREST, 0);
    assert_text(m.config, config);
    assert_int_equal(users_stat(f, "plans_recorded"), 1);
}

TEST_F(with_engine, a_similar_problems_fastest_solver_is_chosen)
{
    record_find(f, &f->ann, NAIVE_SOLVER, 0.05);
    record_find(f, &f->ann, GEMM_SOLVER, 0.07);
    struct message_planned m = ask_plan(f, &f->ann, &nearest);
    assert_plan(&m, NAIVE_SOLVER, PLAN_SOURCE_NEAREST, 0);
}

TEST_F(with_engine, the_problems_own_record_comes_before_a_similar_problems)
{
    record_find(f, &f->ann, NAIVE_SOLVER, 0.05);
    struct message_planned m = ask_plan(f, &f->ann, &(struct wanted){ .flags = PLAN_NEAREST });
    assert_plan(&m, NAIVE_SOLVER, PLAN_SOURCE_FIND, 0.05);
}

TEST_F(with_engine, a_similar_problems_config_that_does_not_fit_is_skipped)
{
    struct message_planned m = plan_simply(f);
    KILN_AUTO(mem) char *heuristic = bytes_to_text(m.config);
    record_find(f, &f->ann, GEMM_SOLVER, 0.02);
    record_perf(f, &f->ann, "1,2", 0.02);
    m = ask_plan(f, &f->ann, &nearest);
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_NEAREST, 0);
    assert_text(m.config, heuristic);
}

TEST_F(with_engine, another_users_similar_problem_is_not_used)
{
    record_find(f, &f->ann, NAIVE_SOLVER, 0.05);
    struct message_planned m = ask_plan(f, &f->bob, &nearest);
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_HEURISTIC, 0);
}

TEST_F(with_engine, plans_from_records_are_counted)
{
    record_find(f, &f->ann, NAIVE_SOLVER, 0.05);
    ask_plan(f, &f->ann, &(struct wanted){ .flags = PLAN_HEURISTIC });
    assert_int_equal(users_stat(f, "plans_recorded"), 0);
    plan_simply(f);
    assert_int_equal(users_stat(f, "plans_recorded"), 1);
}

TEST_F(with_engine, a_recorded_config_that_does_not_fit_is_skipped)
{
    struct message_planned m = plan_simply(f);
    KILN_AUTO(mem) char *heuristic = bytes_to_text(m.config);
    char invalid[PERF_CONFIG_TEXT_MAX];
    other_config(false, 0, invalid);
    const char *const bad[] = { invalid,
                                "1",
                                "0,0,0,0",
                                "x,y",
                                "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18",
                                "99999999999999999999" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        record_perf(f, &f->ann, bad[i], 0.01 / (double)(i + 1));
        m = plan_simply(f);
        assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_HEURISTIC, 0);
        assert_text(m.config, heuristic);
    }
}

TEST_F(with_engine, the_hosts_config_is_used_if_the_users_does_not_fit)
{
    char config[PERF_CONFIG_TEXT_MAX];
    other_config(true, 0, config);
    record_for_host(f, of_device(perf_put(GEMM_SOLVER, config, 0.04)));
    record_perf(f, &f->ann, "1,2", 0.01);
    struct message_planned m = plan_simply(f);
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_PERF, 0.04);
    assert_text(m.config, config);
}

TEST_F(with_engine, a_users_record_comes_before_the_hosts)
{
    record_for_host(f, of_device(find_put(NAIVE_SOLVER, 0.01)));
    struct message_planned m = plan_simply(f);
    assert_plan(&m, NAIVE_SOLVER, PLAN_SOURCE_FIND, 0.01);

    record_find(f, &f->ann, GEMM_SOLVER, 0.07);

    m = plan_simply(f);
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_FIND, 0.07);
    m = ask_plan(f, &f->bob, &(struct wanted){ 0 });
    assert_plan(&m, NAIVE_SOLVER, PLAN_SOURCE_FIND, 0.01);
}

TEST_F(with_engine, miopens_records_of_a_user_do_not_hide_the_hosts)
{
    record_for_host(f, of_device(find_put(NAIVE_SOLVER, 0.05)));
    record_find(f, &f->ann, "ConvBinWinogradRxSf2x3g1", 0.01);
    struct message_planned m = plan_simply(f);
    assert_plan(&m, NAIVE_SOLVER, PLAN_SOURCE_FIND, 0.05);
}

TEST_F(with_engine, records_of_another_device_or_backend_do_not_count)
{
    struct put put = of_device(find_put(NAIVE_SOLVER, 0.05));
    put.m.database_id = bytes_of_text("opencl_00000000");
    tuning_put(f, &f->ann, &put);
    put = of_device(find_put(NAIVE_SOLVER, 0.05));
    put.m.database_id = bytes_of_text("gfx90a68");
    tuning_put(f, &f->ann, &put); /* recorded for MIOpen's OpenCL backend */
    struct message_planned m = plan_simply(f);
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_HEURISTIC, 0);
}

TEST_F(with_engine, a_request_without_a_device_or_for_the_heuristic_gets_the_heuristic)
{
    char config[PERF_CONFIG_TEXT_MAX];
    other_config(true, 0, config);
    record_find(f, &f->ann, NAIVE_SOLVER, 0.05);
    record_perf(f, &f->ann, config, 0.04);
    const struct wanted ways[] = { { .database_id = "" },
                                   { .flags = PLAN_HEURISTIC },
                                   { .flags = PLAN_HEURISTIC, .solver = GEMM_SOLVER } };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct message_planned m = ask_plan(f, &f->ann, &ways[i]);
        assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_HEURISTIC, 0);
        assert_false(bytes_equal_text(m.config, config));
    }
}

TEST_F(with_engine, a_forced_solver_gets_its_recorded_config)
{
    char config[PERF_CONFIG_TEXT_MAX];
    other_config(true, 0, config);
    record_find(f, &f->ann, NAIVE_SOLVER, 0.01);
    record_perf(f, &f->ann, config, 0.04);
    struct message_planned m = ask_plan(f, &f->ann, &(struct wanted){ .solver = GEMM_SOLVER });
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_PERF, 0.04);
    assert_text(m.config, config);
}

TEST_F(with_engine, a_plan_uses_a_forced_config)
{
    char recorded[PERF_CONFIG_TEXT_MAX], forced[PERF_CONFIG_TEXT_MAX];
    other_config(true, 0, recorded);
    other_config(true, 1, forced);
    record_perf(f, &f->ann, recorded, 0.04);
    struct message_planned m =
        ask_plan(f, &f->ann, &(struct wanted){ .solver = GEMM_SOLVER, .config = forced });
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_FORCED, 0);
    assert_text(m.config, forced);
}

TEST_F(with_engine, a_solver_or_config_that_cannot_be_forced_is_refused)
{
    char valid[PERF_CONFIG_TEXT_MAX], invalid[PERF_CONFIG_TEXT_MAX];
    other_config(true, 0, valid);
    other_config(false, 0, invalid);
    assert_refused(f, &(struct wanted){ .config = valid }, KILN_INVALID, "solver");
    assert_refused(f, &(struct wanted){ .solver = "ConvMagic", .config = valid }, KILN_NOT_FOUND,
                   "'ConvMagic'");
    assert_refused(f, &(struct wanted){ .solver = GEMM_SOLVER, .config = invalid }, KILN_INVALID,
                   "not fit");
    assert_refused(f, &(struct wanted){ .solver = GEMM_SOLVER, .config = "1,x" }, KILN_INVALID,
                   "'1,x'");
    assert_refused(f, &(struct wanted){ .solver = NAIVE_SOLVER, .config = "1" }, KILN_INVALID,
                   "ConvDirectNaive");
    assert_refused(f, &(struct wanted){ .solver = "ConvDepthwise" }, KILN_UNSUPPORTED,
                   "ConvDepthwise");
    assert_refused(f, &(struct wanted){ .database_id = "gfx" }, KILN_INVALID, "database id");
}

TEST_F(with_engine, a_long_config_or_driver_is_refused)
{
    static char text[64u << 10];
    memset(text, '1', sizeof(text) - 1);
    assert_refused(f, &(struct wanted){ .solver = GEMM_SOLVER, .config = text }, KILN_INVALID,
                   "'1111");
    assert_refused(f, &(struct wanted){ .driver = text }, KILN_INVALID, "65535");
    assert_refused(f, &(struct wanted){ .database_id = text }, KILN_INVALID, "database id");
}

TEST_F(with_engine, plans_do_not_use_stale_records_that_the_policy_ignores)
{
    struct message_planned m = plan_simply(f);
    KILN_AUTO(mem) char *toolchain = bytes_to_text(m.toolchain_identity);
    f->engine.options.tuning_stale = TUNING_IGNORE;
    users_reopen(f);
    struct put put = of_device(find_put(NAIVE_SOLVER, 0.05));
    tuning_put(f, &f->ann, &put);
    m = plan_simply(f);
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_HEURISTIC, 0);

    put.m.toolchain = bytes_of_text(toolchain);
    tuning_put(f, &f->ann, &put);

    m = plan_simply(f);
    assert_plan(&m, NAIVE_SOLVER, PLAN_SOURCE_FIND, 0.05);
    m = ask_plan(f, &f->ann, &(struct wanted){ .driver = "driver 1" });
    assert_plan(&m, NAIVE_SOLVER, PLAN_SOURCE_FIND, 0.05);
    m = ask_plan(f, &f->ann, &(struct wanted){ .driver = "driver 2" });
    assert_plan(&m, GEMM_SOLVER, PLAN_SOURCE_HEURISTIC, 0);
}

TEST_F(with_engine, by_default_a_stale_record_still_counts)
{
    record_find(f, &f->ann, NAIVE_SOLVER, 0.05);
    struct message_planned m = ask_plan(f, &f->ann, &(struct wanted){ .driver = "driver 2" });
    assert_plan(&m, NAIVE_SOLVER, PLAN_SOURCE_FIND, 0.05);
}

static unsigned compile_all(struct users *f)
{
    unsigned count = 0;
    fake_executor_run_tasks(&f->engine.executor);
    for (; fake_executor_next_compile(&f->engine.executor); count++) {
        finish_compile(f, "object");
    }
    return count;
}

static unsigned build_problems(struct users *f, uint32_t count, const char *database_id,
                               uint64_t *ret_kernels)
{
    char question[200];
    BUFFER_AUTO struct buffer problems;
    buffer_init(&problems, 1u << 20);
    for (uint32_t n = 1; n <= count; n++) {
        const struct problem p = problem_of_batch(n);
        problem_write(&problems, &p);
    }
    const int file = sealed_file(buffer_view(&problems));
    snprintf(question, sizeof(question),
             "{\"target\":\"" FIXTURE_TARGET "\",\"database_id\":\"%s\"}", database_id);
    test_caller_forget_replies(&f->ann);
    test_caller_send_files(&f->ann, MESSAGE_package_build, question, &file, 1);
    unsigned compiled = compile_all(f);
    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, f->ann.reply_count - 1);
    assert_int_equal(json_get_u64(answer, "failures", 9), 0);
    *ret_kernels = json_get_u64(answer, "kernels", 0);
    return compiled;
}

TEST_F(with_engine, a_build_chooses_configs_as_a_plan_does)
{
    char config[PERF_CONFIG_TEXT_MAX];
    uint64_t kernels;
    other_config(true, 0, config);
    record_perf(f, &f->ann, config, 0.04);
    plan_simply(f);

    assert_int_equal(build_problems(f, 1, DEVICE, &kernels), 0);

    assert_true(kernels > 0);
    assert_true(build_problems(f, 1, "opencl_00000000", &kernels) > 0);
}

TEST_F(with_engine, every_problem_of_a_long_build_is_looked_up)
{
    const uint32_t count = 600;
    char config[PERF_CONFIG_TEXT_MAX];
    uint64_t before, after;
    f->engine.options.queue_bytes_uid = 64u << 20;
    f->engine.options.queue_bytes = 256u << 20;
    users_reopen(f);
    build_problems(f, count, DEVICE, &before);
    other_config_of_batch(count, true, 0, config);
    struct put put = of_device(perf_put(GEMM_SOLVER, config, 0.4));
    put.m.problem = problem_of_batch(count);
    tuning_put(f, &f->ann, &put);

    assert_true(build_problems(f, count, DEVICE, &after) > 0);

    assert_true(after > before);
}

static bool is_found(struct users *f, const char *database_id)
{
    char question[400];
    snprintf(question, sizeof(question),
             "{\"problem\":\"" DRIVER "\",\"target\":\"" FIXTURE_TARGET
             "\",\"database_id\":\"%s\"}",
             database_id);
    KILN_AUTO(json)
    struct json *answer = test_caller_ask(&f->ann, MESSAGE_why_miss, question);
    return json_get_bool(answer, "found", false);
}

TEST_F(with_engine, why_miss_looks_for_the_kernels_of_a_plan)
{
    char config[PERF_CONFIG_TEXT_MAX];
    other_config(true, 0, config);
    record_perf(f, &f->ann, config, 0.04);
    plan_simply(f);
    assert_true(is_found(f, DEVICE));
    assert_false(is_found(f, "opencl_00000000"));
}

TEST(plain, a_plan_without_tuning_databases_uses_the_heuristic)
{
    const struct problem problem = problem_of_batch(1);
    const struct plan_options wish = {
        .problem = &problem, .target = &target, .database_id = DEVICE, .driver = "", .toolchain = ""
    };
    struct plan_choice choice;
    struct kiln_err err = KILN_ERR_INIT;
    must(plan_choose(NULL, &wish, &choice, &err), err);
    assert_int_equal(choice.source, PLAN_SOURCE_HEURISTIC);
    assert_int_equal(choice.chosen.solver.size + choice.chosen.config.size, 0);
}

TEST(plain, a_plan_can_hold_every_solver)
{
    unsigned count = 0;
    while (solvers[count])
        count++;
    assert_in_range(count, 1, PLAN_SOLVERS_MAX);
}

TEST(plain, records_match_the_device_and_packages_the_code_target)
{
    static const struct {
        const char *target, *given, *device, *package;
        uint32_t processors;
    } known[] = {
        { "gfx90a:sramecc+:xnack-", "gfx90a68", "gfx90a68", "gfx90a68", 104 },
        { "gfx90a:sramecc+:xnack-", "", "", "gfx90a", 0 },
        { "sm_90a", "sm_90_132", "sm_90_132", "sm_90a", 132 },
        { "sm_90", "sm_90_78", "sm_90_78", "sm_90", 78 },
        { "sm_90a", "sm_90a", "sm_90a", "sm_90a", 0 },
        { "sm_90a", "", "", "sm_90a", 0 },
        { "opencl:test", "opencl_1a2b3c4d", "opencl_1a2b3c4d", "opencl_1a2b3c4d", 0 },
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct kiln_err err = KILN_ERR_INIT;
        struct target t;
        struct plan_ids ids;
        must(target_parse(bytes_of_text(known[i].target), &t, &err), err);
        must(plan_ids_take(&t, bytes_of_text(known[i].given), &ids, &err), err);
        assert_string_equal(ids.device, known[i].device);
        assert_string_equal(ids.package, known[i].package);
        assert_int_equal(t.processors, known[i].processors);
    }
}

TEST(plain, a_database_id_that_contradicts_the_target_is_ignored)
{
    static const struct {
        const char *target, *given;
        bool fits;
    } ways[] = {
        { "gfx90a:sramecc+:xnack-", "gfx90a68", true },
        { "gfx906:sramecc-:xnack+", "gfx906_xnack_60", true },
        { "gfx906", "gfx906_60", true },
        { "gfx906", "gfx90a68", false },
        { "gfx90a", "gfx906_60", false },
        { "gfx90a", "sm_90_132", false },
        { "gfx90a", "opencl_1a2b3c4d", false },
        { "sm_90a", "sm_90_132", true },
        { "sm_90a", "sm_90a", true },
        { "sm_90", "sm_90_132", true },
        { "sm_90", "sm_90a", false },
        { "sm_80", "sm_90_132", false },
        { "sm_90", "gfx90a68", false },
        { "opencl:test", "opencl_1a2b3c4d", true },
        { "opencl:test", "gfx90a68", false },
        { "opencl:test", "", true },
    };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct kiln_err err = KILN_ERR_INIT;
        struct target t;
        struct plan_ids ids;
        must(target_parse(bytes_of_text(ways[i].target), &t, &err), err);
        must(plan_ids_take(&t, bytes_of_text(ways[i].given), &ids, &err), err);
        if (plan_ids_check(&t, &ids, &err) != (ways[i].fits ? KILN_OK : KILN_INVALID))
            fail_msg("'%s' of '%s': '%s'", ways[i].given, ways[i].target, err.text);
        if (!ways[i].fits)
            assert_says(err.text, "another device");
    }
}

TEST_F(with_engine, a_plan_whose_database_id_contradicts_its_target_is_refused)
{
    assert_refused(f, &(struct wanted){ .database_id = "gfx90a68" }, KILN_INVALID,
                   "'" FIXTURE_TARGET "'");
}

TEST(plain, a_toolchain_is_named_by_name_version_and_identity)
{
    struct toolchain tc = { .name = "nvrtc",
                            .version = "13.0\x01",
                            .identity = { { 0x1a, 0x2b } } };
    char text[PLAN_TOOLCHAIN_MAX];
    plan_toolchain_write(&tc, text);
    assert_string_equal(text, "nvrtc 13.0? 1a2b00000000");
    memset(tc.version, 'v', sizeof(tc.version) - 1);
    plan_toolchain_write(&tc, text);
    assert_int_equal(strlen(text), 6 + 191 + 13);
}
