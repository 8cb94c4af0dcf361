/* SPDX-License-Identifier: MIT */
#include "engine/solver/candidates.h"
#include "tests/unit/engine/service/tuning_fixture.h"

#include <string.h>

#define GEMM_SOLVER "ConvImplicitGemm"
#define NAIVE_SOLVER "ConvDirectNaive"
#define DEVICE "opencl_1a2b3c4d"
#define SOLUTIONS_MAX 16

static const struct target target = { .family = TARGET_OPENCL, .text = FIXTURE_TARGET };

static unsigned counts_made;
WRAP(struct candidate_count, candidates_count_valid, const struct solver *solver,
     const struct problem *problem, const struct target *of)
{
    counts_made++;
    return __real_candidates_count_valid(solver, problem, of);
}

static void assert_text(struct bytes text, const char *wanted)
{
    KILN_AUTO(mem) char *copy = bytes_to_text(text);
    assert_string_equal(copy, wanted);
}

static struct message_solutions question(void)
{
    return (struct message_solutions){ .problem = problem_of_batch(1),
                                       .target = bytes_of_text(FIXTURE_TARGET),
                                       .database_id = bytes_of_text(DEVICE) };
}

static enum kiln_code send_solutions(struct test_caller *c, const struct message_solutions *m)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, LIMIT_FRAME_BODY);
    message_solutions_write(&body, m);
    test_caller_forget_replies(c);
    return test_caller_try_send(c, MESSAGE_solutions, 8, buffer_view(&body));
}

struct answer { /* an answer; its texts are borrowed from the caller's reply */
    struct message_solution list[SOLUTIONS_MAX];
    uint32_t count;
};

static struct answer solutions_of(struct users *f, const struct message_solutions *m)
{
    struct answer answer = { .count = 0 };
    must(send_solutions(&f->ann, m), f->engine.err);
    assert_int_equal(f->ann.reply_count, 0);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->ann.replies[0].type, MESSAGE_solved);
    struct reader r = reader_of(f->ann.replies[0].body);
    const struct message_solved solved = message_solved_read(&r);
    must(message_body_check(&r, MESSAGE_solved, &f->engine.err), f->engine.err);
    struct reader list = reader_of(solved.solutions);
    assert_true(solved.count <= SOLUTIONS_MAX);
    for (; answer.count < solved.count; answer.count++)
        answer.list[answer.count] = message_solution_read(&list);
    assert_true(!list.failed && list.at == list.end);
    return answer;
}

static const struct message_solution *of_solver(const struct answer *answer, const char *solver)
{
    for (uint32_t i = 0; i < answer->count; i++) {
        if (bytes_equal_text(answer->list[i].solver, solver))
            return &answer->list[i];
    }
    fail_msg("%s is not listed", solver);
    return NULL;
}

static void assert_refused(struct users *f, const struct message_solutions *m, enum kiln_code code,
                           const char *words)
{
    (void)send_solutions(&f->ann, m);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    assert_reply_refuses(&f->ann, 0, code, words);
}

static void record_put(struct users *f, struct put put)
{
    put.m.database_id = bytes_of_text(DEVICE);
    if (put.m.kind == 0)
        put.m.backend = bytes_of_text("OpenCL");
    tuning_put(f, &f->ann, &put);
}

static struct perf_space gemm_space(void)
{
    const struct problem problem = problem_of_batch(1);
    return solver_space(solver_find(bytes_of_text(GEMM_SOLVER)), &problem, &target);
}

static bool is_valid_point(uint32_t point, char text[PERF_CONFIG_TEXT_MAX])
{
    const struct problem problem = problem_of_batch(1);
    const struct solver *solver = solver_find(bytes_of_text(GEMM_SOLVER));
    const struct perf_space space = gemm_space();
    struct perf_config config;
    perf_space_at(&space, point, &config);
    perf_config_write(&config, text);
    return solver->config_is_valid(&problem, &target, &config);
}

TEST_F(users, every_solver_that_applies_is_listed_with_its_space)
{
    const struct message_solutions m = question();
    const struct perf_space space = gemm_space();
    char text[PERF_CONFIG_TEXT_MAX];
    uint32_t valid = 0;
    for (uint32_t i = 0; i < perf_space_size(&space); i++)
        valid += is_valid_point(i, text);

    struct answer answer = solutions_of(f, &m);

    const struct message_solution *gemm = of_solver(&answer, GEMM_SOLVER);
    assert_text(gemm->algorithm, "miopenConvolutionFwdAlgoImplicitGEMM");
    assert_true(gemm->config.size > 0);
    assert_int_equal(gemm->best_config.size, 0);
    assert_int_equal(gemm->find_ms + gemm->best_ms, 0);
    assert_int_equal(gemm->candidates, perf_space_size(&space));
    if (!(gemm->flags & SOLUTION_ESTIMATED))
        assert_int_equal(gemm->valid, valid);
    const struct message_solution *naive = of_solver(&answer, NAIVE_SOLVER);
    assert_text(naive->algorithm, "miopenConvolutionFwdAlgoDirect");
    assert_int_equal(naive->config.size + naive->candidates + naive->valid, 0);
    assert_true(naive > gemm);
    for (uint32_t i = 0; i < answer.count; i++)
        assert_false(bytes_equal_text(answer.list[i].solver, "ConvDepthwise"));
}

TEST_F(users, algorithms_are_named_for_their_direction)
{
    static const char *const names[] = { "miopenConvolutionFwdAlgoDirect",
                                         "miopenConvolutionBwdDataAlgoDirect",
                                         "miopenConvolutionBwdWeightsAlgoDirect" };
    for (uint32_t i = 0; i < 3; i++) {
        struct message_solutions m = question();
        m.problem.direction = i;
        struct answer answer = solutions_of(f, &m);
        assert_text(of_solver(&answer, NAIVE_SOLVER)->algorithm, names[i]);
    }
}

TEST_F(users, solutions_list_recorded_solvers_first_by_time)
{
    const struct message_solutions m = question();
    char best[PERF_CONFIG_TEXT_MAX];
    uint32_t point = 0;
    while (!is_valid_point(point, best))
        point++;
    record_put(f, find_put(NAIVE_SOLVER, 0.05));
    struct answer answer = solutions_of(f, &m);
    assert_text(answer.list[0].solver, NAIVE_SOLVER);
    assert_int_equal(answer.list[0].find_ms, double_bits(0.05));
    record_put(f, find_put(GEMM_SOLVER, 0.06));
    answer = solutions_of(f, &m);
    assert_text(answer.list[0].solver, NAIVE_SOLVER);
    assert_text(answer.list[1].solver, GEMM_SOLVER);

    record_put(f, perf_put(GEMM_SOLVER, best, 0.04));

    answer = solutions_of(f, &m);
    assert_text(answer.list[0].solver, GEMM_SOLVER);
    assert_text(answer.list[0].best_config, best);
    assert_int_equal(answer.list[0].best_ms, double_bits(0.04));
    assert_int_equal(answer.list[0].find_ms, double_bits(0.06));
}

TEST_F(users, solutions_without_a_device_have_no_records)
{
    struct message_solutions m = question();
    record_put(f, find_put(NAIVE_SOLVER, 0.05));
    m.database_id = bytes_of_text("");
    struct answer answer = solutions_of(f, &m);
    assert_int_equal(of_solver(&answer, NAIVE_SOLVER)->find_ms, 0);
}

TEST_F(users, an_invalid_solutions_request_is_refused)
{
    static char text[64u << 10];
    memset(text, 'x', sizeof(text) - 1);
    struct message_solutions m = question();
    m.problem.n = 0;
    assert_refused(f, &m, KILN_INVALID, "batch");
    m = question();
    m.target = bytes_of_text("gfx");
    assert_refused(f, &m, KILN_INVALID, "target");
    m = question();
    m.database_id = bytes_of_text(text);
    assert_refused(f, &m, KILN_INVALID, "database id");
    m = question();
    m.database_id = bytes_of_text("gfx90a68");
    assert_refused(f, &m, KILN_INVALID, "'gfx90a68'");
    m = question();
    m.driver = bytes_of_text(text);
    assert_refused(f, &m, KILN_INVALID, "65535");
    m = question();
    m.toolchain = bytes_of_text("magic");
    assert_refused(f, &m, KILN_NOT_FOUND, "magic");
    m = question();
    m.problem.type = TYPE_INT8;
    assert_refused(f, &m, KILN_UNSUPPORTED, "no solver");
}

TEST_F(users, solutions_are_listed_for_a_target_without_a_compiler)
{
    struct message_solutions m = question();
    m.target = bytes_of_text("sm_90a");
    m.database_id = bytes_of_text("sm_90_132");
    struct answer answer = solutions_of(f, &m);
    assert_true(answer.count >= 2);
}

TEST_F(undescribed, solutions_wait_until_compilers_are_known)
{
    const struct message_solutions m = question();
    must(send_solutions(&f->ann, &m), f->engine.err);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 0);

    engine_fixture_describe(&f->engine);

    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->ann.replies[0].type, MESSAGE_solved);
}

TEST_F(users, a_client_that_cancels_solutions_gets_no_answer)
{
    const struct message_solutions m = question();
    must(send_solutions(&f->bob, &m), f->engine.err);
    test_caller_cancel(&f->bob, 8);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->bob.reply_count, 1);
    assert_reply_refuses(&f->bob, 0, KILN_CANCELLED, "cancel");
}

TEST_F(users, valid_configs_are_counted_once)
{
    struct message_solutions m = question();
    counts_made = 0;
    struct answer first = solutions_of(f, &m);
    const uint32_t valid = of_solver(&first, GEMM_SOLVER)->valid;
    const uint8_t flags = of_solver(&first, GEMM_SOLVER)->flags;
    const unsigned made = counts_made;
    assert_true(made > 0);

    struct answer second = solutions_of(f, &m);

    assert_int_equal(counts_made, made);
    assert_int_equal(of_solver(&second, GEMM_SOLVER)->valid, valid);
    assert_int_equal(of_solver(&second, GEMM_SOLVER)->flags, flags);
    m.problem.n = 2;
    (void)solutions_of(f, &m);
    assert_true(counts_made > made);
    m = question();
    m.target = bytes_of_text("sm_90a");
    m.database_id = bytes_of_text("");
    const unsigned before = counts_made;
    (void)solutions_of(f, &m);
    assert_true(counts_made > before);
}

static struct message_configs range_of(uint32_t first, uint32_t count)
{
    return (struct message_configs){ .problem = problem_of_batch(1),
                                     .target = bytes_of_text(FIXTURE_TARGET),
                                     .solver = bytes_of_text(GEMM_SOLVER),
                                     .first = first,
                                     .count = count };
}

static void send_configs(struct test_caller *c, const struct message_configs *m)
{
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, configs, 8, m);
}

static struct message_candidates configs_of(struct users *f, const struct message_configs *m)
{
    send_configs(&f->ann, m);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->ann.replies[0].type, MESSAGE_candidates);
    struct reader r = reader_of(f->ann.replies[0].body);
    struct message_candidates answer = message_candidates_read(&r);
    must(message_body_check(&r, MESSAGE_candidates, &f->engine.err), f->engine.err);
    return answer;
}

static void refuses_range(struct users *f, const struct message_configs *m, enum kiln_code code,
                          const char *words)
{
    send_configs(&f->ann, m);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 1);
    assert_reply_refuses(&f->ann, 0, code, words);
}

TEST_F(users, a_range_of_configs_has_its_valid_candidates_in_order)
{
    const struct perf_space space = gemm_space();
    const struct candidate_order order = candidate_order_of(GEMM_SOLVER, &space);
    const uint32_t parts = 5;
    uint32_t first = 0;
    for (uint32_t part = 0; part < parts; part++) {
        const uint32_t end = (uint32_t)((uint64_t)order.count * (part + 1) / parts);
        while (first < end) {
            const struct message_configs m = range_of(first, end - first);
            const struct message_candidates answer = configs_of(f, &m);
            struct reader r = reader_of(answer.configs);
            uint32_t count = 0;
            assert_true(answer.next > first && answer.next <= end);
            for (; first < answer.next; first++) {
                char text[PERF_CONFIG_TEXT_MAX];
                if (!is_valid_point(candidate_point(&order, first), text))
                    continue;
                const struct message_candidate one = message_candidate_read(&r);
                assert_int_equal(one.index, first);
                assert_text(one.config, text);
                count++;
            }
            assert_int_equal(count, answer.count);
            assert_true(!r.failed && r.at == r.end);
        }
    }
    assert_int_equal(first, order.count);
}

TEST_F(users, a_long_range_of_configs_is_answered_in_parts)
{
    const struct perf_space space = gemm_space();
    const uint32_t count = perf_space_size(&space);
    const struct message_configs m = range_of(0, count);
    const struct message_candidates answer = configs_of(f, &m);
    assert_int_equal(answer.next, count < 4096 ? count : 4096);
}

TEST_F(users, a_range_beyond_the_tuning_space_is_refused)
{
    const struct perf_space space = gemm_space();
    const uint32_t count = perf_space_size(&space);
    const uint32_t ranges[][2] = {
        { 0, 0 },         { 0, count + 1 },  { count, 1 },
        { count - 1, 2 }, { 1, UINT32_MAX }, { UINT32_MAX, UINT32_MAX }
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        const struct message_configs m = range_of(ranges[i][0], ranges[i][1]);
        refuses_range(f, &m, KILN_INVALID, "ConvImplicitGemm");
    }
}

TEST_F(users, configs_of_an_untunable_solver_are_refused)
{
    struct message_configs m = range_of(0, 1);
    m.solver = bytes_of_text(NAIVE_SOLVER);
    refuses_range(f, &m, KILN_INVALID, "ConvDirectNaive");
    m.solver = bytes_of_text("ConvMagic");
    refuses_range(f, &m, KILN_NOT_FOUND, "'ConvMagic'");
    m.solver = bytes_of_text("");
    refuses_range(f, &m, KILN_NOT_FOUND, "''");
    m.solver = bytes_of_text("ConvDepthwise");
    refuses_range(f, &m, KILN_UNSUPPORTED, "ConvDepthwise");
    m = range_of(0, 1);
    m.problem.groups = 7;
    refuses_range(f, &m, KILN_INVALID, "group");
    m = range_of(0, 1);
    m.target = bytes_of_text("");
    refuses_range(f, &m, KILN_INVALID, "no target");
}

TEST_F(users, a_client_that_cancels_gets_no_configs)
{
    const struct message_configs m = range_of(0, 10);
    send_configs(&f->bob, &m);
    test_caller_cancel(&f->bob, 8);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->bob.reply_count, 1);
    assert_reply_refuses(&f->bob, 0, KILN_CANCELLED, "cancel");
}

static enum kiln_code send_one_config(struct test_caller *c, uint64_t id)
{
    const struct message_configs m = range_of(0, 1);
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, LIMIT_FRAME_BODY);
    message_configs_write(&body, &m);
    return test_caller_try_send(c, MESSAGE_configs, id, buffer_view(&body));
}

TEST_F(users, one_solver_question_is_on_a_work_queue_at_a_time)
{
    const unsigned before = f->engine.executor.tasks_of[WORK_QUEUE_READ];
    for (uint64_t id = 1; id <= 9; id++)
        must(send_one_config(&f->ann, id), f->engine.err);
    for (unsigned i = 1; i <= 9; i++) {
        assert_int_equal(f->engine.executor.tasks_of[WORK_QUEUE_READ], before + i);
        assert_true(fake_executor_run_task(&f->engine.executor));
        assert_int_equal(f->ann.reply_count, i);
    }
}

TEST_F(users, solver_questions_of_users_are_served_alternately)
{
    for (uint64_t id = 1; id <= 9; id++)
        must(send_one_config(&f->ann, id), f->engine.err);
    must(send_one_config(&f->bob, 1), f->engine.err);
    must(send_one_config(&f->bob, 2), f->engine.err);
    (void)fake_executor_run_task(&f->engine.executor);
    (void)fake_executor_run_task(&f->engine.executor);
    assert_int_equal(f->ann.reply_count + f->bob.reply_count, 2);
    assert_int_equal(f->bob.reply_count, 1);
    (void)fake_executor_run_task(&f->engine.executor);
    (void)fake_executor_run_task(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 2);
    assert_int_equal(f->bob.reply_count, 2);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->ann.reply_count, 9);
}

TEST_F(users, a_user_has_at_most_256_solver_questions_waiting)
{
    /* One request runs, and the others wait. */
    for (uint64_t id = 1; id <= 257; id++)
        must(send_one_config(&f->ann, id), f->engine.err);
    (void)send_one_config(&f->ann, 258);
    assert_int_equal(f->ann.reply_count, 1);
    assert_reply_refuses(&f->ann, 0, KILN_BUSY, "256 queries");
    const struct message_solutions m = question();
    (void)send_solutions(&f->ann, &m);
    assert_reply_refuses(&f->ann, 0, KILN_BUSY, "user 1000");
    must(send_one_config(&f->bob, 1), f->engine.err);
    test_caller_leave(&f->ann);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->bob.reply_count, 1);
    assert_int_equal(f->bob.replies[0].type, MESSAGE_candidates);
}

TEST_F(users, a_solver_question_cancelled_in_the_queue_does_not_run)
{
    const unsigned before = f->engine.executor.tasks_of[WORK_QUEUE_READ];
    const struct message_solutions m = question();
    must(send_one_config(&f->ann, 1), f->engine.err);
    must(send_solutions(&f->bob, &m), f->engine.err);
    must(send_one_config(&f->bob, 9), f->engine.err);
    test_caller_cancel(&f->bob, 8);
    test_caller_cancel(&f->bob, 9);
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(f->engine.executor.tasks_of[WORK_QUEUE_READ], before + 1);
    assert_int_equal(f->ann.reply_count, 1);
    assert_int_equal(f->bob.reply_count, 2);
    assert_reply_refuses(&f->bob, 0, KILN_CANCELLED, "cancel");
}

TEST_F(users, solver_questions_of_the_wrong_size_are_refused)
{
    static const enum message_type types[] = { MESSAGE_solutions, MESSAGE_configs };
    const struct message_solutions solutions = question();
    const struct message_configs configs = range_of(0, 1);
    for (size_t i = 0; i < 2; i++) {
        BUFFER_AUTO struct buffer body;
        buffer_init(&body, LIMIT_FRAME_BODY);
        if (types[i] == MESSAGE_solutions)
            message_solutions_write(&body, &solutions);
        else
            message_configs_write(&body, &configs);
        buffer_put_u8(&body, 0);
        for (size_t size = 0; size <= body.size; size++) {
            if (size == body.size - 1)
                continue;
            test_caller_forget_replies(&f->ann);
            test_caller_send(&f->ann, types[i], 8, bytes_of(body.data, size));
            assert_int_equal(f->ann.reply_count, 1);
            assert_reply_refuses(&f->ann, 0, KILN_INVALID, message_name(types[i]));
        }
    }
}
