/* SPDX-License-Identifier: MIT */
#include "libclient/plans/solutions.h"
#include "common/base/clock.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_tuning.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CANDIDATES 1000u
#define A_SECOND 1000000000u

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct kiln_problem problem;
    struct kiln_plan_options options;
    struct message_solution solution;
    uint32_t count;
    unsigned more; /* extra bytes after the list */

    uint32_t part;                   /* candidates per answer */
    int32_t wrong_next, wrong_index; /* added to the correct values in the answers */
    /* config in the answers; if empty, each config is derived from its index */
    struct bytes config;
    char target[32], database_id[32], driver[32], toolchain[32], solver[32];
    unsigned asked;
};

static void copy(char to[32], struct bytes text)
{
    snprintf(to, 32, "%.*s", (int)text.size, (const char *)text.data);
}

static void answer_solutions(struct fixture *f, const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    const struct message_solutions asked = message_solutions_read(&r);
    BUFFER_AUTO struct buffer list, body;
    buffer_init(&list, 100000);
    buffer_init(&body, 100000);
    assert_false(r.failed);
    copy(f->target, asked.target);
    copy(f->database_id, asked.database_id);
    copy(f->driver, asked.driver);
    copy(f->toolchain, asked.toolchain);
    for (uint32_t i = 0; i < f->count && i < 100; i++)
        message_solution_write(&list, &f->solution);
    for (unsigned i = 0; i < f->more; i++)
        buffer_put_u8(&list, 0);
    const struct message_solved m = { .count = f->count, .solutions = buffer_view(&list) };
    message_solved_write(&body, &m);
    fake_reply(rq, MESSAGE_solved, 0, buffer_view(&body));
}

static void answer_configs(struct fixture *f, const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    const struct message_configs asked = message_configs_read(&r);
    struct message_candidates m = { .next = asked.first };
    BUFFER_AUTO struct buffer list, body;
    buffer_init(&list, 100000);
    buffer_init(&body, 100000);
    assert_false(r.failed);
    copy(f->target, asked.target);
    copy(f->solver, asked.solver);
    f->asked++;
    for (; m.next < asked.first + asked.count && m.next < asked.first + f->part; m.next++) {
        char text[32];
        snprintf(text, sizeof(text), "%u,1", m.next);
        const struct message_candidate one = { .index = m.next + (uint32_t)f->wrong_index,
                                               .config = f->config.size ? f->config
                                                                        : bytes_of_text(text) };
        if (m.next % 3)
            continue;
        message_candidate_write(&list, &one);
        m.count++;
    }
    for (unsigned i = 0; i < f->more; i++)
        buffer_put_u8(&list, 0);
    m.next += (uint32_t)f->wrong_next;
    m.configs = buffer_view(&list);
    message_candidates_write(&body, &m);
    fake_reply(rq, MESSAGE_candidates, 0, buffer_view(&body));
}

static void answer(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    if (rq->header.type == MESSAGE_solutions)
        answer_solutions(f, rq);
    else
        answer_configs(f, rq);
}

SET_UP(set_up)
{
    *f = (struct fixture){
        .problem = public_test_problem(1),
        .options = { .size = sizeof(f->options), .target = "gfx90a" },
        .solution = { .solver = bytes_of_text("ConvSome"),
                      .algorithm = bytes_of_text("miopenConvolutionFwdAlgoDirect"),
                      .flags = SOLUTION_FAVOURED | SOLUTION_ESTIMATED,
                      .find_ms = fake_real(0.5),
                      .config = bytes_of_text("1,2"),
                      .workspace = 64,
                      .best_config = bytes_of_text("3,4"),
                      .best_ms = fake_real(0.25),
                      .best_workspace = 128,
                      .candidates = CANDIDATES,
                      .valid = 333 },
        .count = 3,
        .part = 100,
    };
    fake_daemon_serve(&f->daemon, answer, f, &f->client);
}

FIXTURE(solutions, set_up, NULL);

static int get(struct fixture *f, struct kiln_solutions **ret_solutions)
{
    *ret_solutions = NULL;
    return kiln_solutions_get(f->client, &f->problem, &f->options, ret_solutions, &f->err);
}

TEST_F(solutions, a_list_reports_all_about_each_solver)
{
    struct kiln_solutions *list;
    struct kiln_solution s = { .size = sizeof(s) };
    f->options.database_id = "gfx90a68";
    f->options.driver = "6.2";
    f->options.toolchain = "clang";

    must(get(f, &list), f->err);

    assert_string_equal(f->target, "gfx90a");
    assert_string_equal(f->database_id, "gfx90a68");
    assert_string_equal(f->driver, "6.2");
    assert_string_equal(f->toolchain, "clang");
    assert_int_equal(kiln_solutions_count(list), 3);
    for (unsigned i = 0; i < 3; i++) {
        must(kiln_solutions_at(list, i, &s, &f->err), f->err);
        assert_string_equal(s.solver, "ConvSome");
        assert_string_equal(s.algorithm, "miopenConvolutionFwdAlgoDirect");
        assert_int_equal(s.is_favoured, 1);
        assert_true(s.find_ms == 0.5 && s.best_ms == 0.25);
        assert_string_equal(s.config, "1,2");
        assert_string_equal(s.best_config, "3,4");
        assert_int_equal(s.workspace, 64);
        assert_int_equal(s.best_workspace, 128);
        assert_int_equal(s.candidates, CANDIDATES);
        assert_int_equal(s.valid, 333);
        assert_int_equal(s.valid_is_an_estimate, 1);
    }
    assert_int_equal(kiln_solutions_at(list, 3, &s, &f->err), KILN_E_INVALID);
    s.size = 8;
    assert_int_equal(kiln_solutions_at(list, 0, &s, &f->err), KILN_E_INVALID);
    kiln_client_close(f->client);
    f->client = NULL;
    s.size = sizeof(s);
    must(kiln_solutions_at(list, 0, &s, &f->err), f->err);
    kiln_solutions_free(list);
}

TEST_F(solutions, a_solver_with_nothing_to_tune_has_empty_texts)
{
    struct kiln_solutions *list;
    struct kiln_solution s = { .size = sizeof(s) };
    f->solution = (struct message_solution){ .solver = f->solution.solver,
                                             .algorithm = f->solution.algorithm };
    must(get(f, &list), f->err);
    must(kiln_solutions_at(list, 2, &s, &f->err), f->err);
    assert_string_equal(s.config, "");
    assert_string_equal(s.best_config, "");
    assert_int_equal(s.is_favoured + s.valid_is_an_estimate, 0);
    kiln_solutions_free(list);
}

TEST_F(solutions, inconsistent_lists_of_solvers_are_refused)
{
    const struct message_solution solution = f->solution;
    const uint32_t count = f->count;
    struct kiln_solutions *list;
    static char longest[TUNING_WORD_MAX + 1];
    memset(longest, '1', sizeof(longest));
#define BREAK(field, value)                              \
    do {                                                 \
        f->field = (value);                              \
        assert_int_equal(get(f, &list), KILN_E_CORRUPT); \
        assert_says(f->err.text, "solvers");             \
        assert_null(list);                               \
        f->count = count;                                \
        f->more = 0;                                     \
        f->solution = solution;                          \
    } while (0)
    BREAK(count, 0);
    BREAK(count, 65);
    BREAK(count, UINT32_MAX);
    BREAK(more, 1);
    BREAK(solution.solver, bytes_of_text(""));
    BREAK(solution.solver, bytes_of_text("Conv Some"));
    BREAK(solution.algorithm, bytes_of_text("Direct"));
    BREAK(solution.config, bytes_of("1\0,2", 4));
    BREAK(solution.config, bytes_of(longest, sizeof(longest)));
    BREAK(solution.best_config, bytes_of_text("1;2"));
    BREAK(solution.find_ms, fake_real(NAN));
    BREAK(solution.best_ms, fake_real(-1));
    BREAK(solution.valid, CANDIDATES + 1);
#undef BREAK
}

TEST_F(solutions, an_invalid_request_is_refused_without_asking_kilnd)
{
    struct kiln_solutions *list;
    f->options.target = NULL;
    assert_int_equal(get(f, &list), KILN_E_INVALID);
    assert_says(f->err.text, "kiln_plan_options.target");
    f->options.size = 0;
    assert_int_equal(get(f, &list), KILN_E_INVALID);
    assert_says(f->err.text, "kiln_plan_options.size");
    assert_int_equal(kiln_solutions_get(f->client, &f->problem, &f->options, NULL, &f->err),
                     KILN_E_INVALID);
    f->problem.n = 0;
    assert_int_equal(get(f, &list), KILN_E_INVALID);
    kiln_solutions_free(NULL);
}

static enum kiln_code ask(struct fixture *f, uint32_t first, uint32_t count,
                          struct config_list *list, struct failure *failure)
{
    static const struct problem problem = { .spatial_dims = 2 };
    const struct configs_question question = { .problem = &problem,
                                               .target = bytes_of_text("gfx90a"),
                                               .solver = bytes_of_text("ConvSome"),
                                               .first = first,
                                               .count = count };
    return configs_ask(f->client, &question, clock_monotonic_ns() + 10u * A_SECOND, list, failure);
}

TEST_F(solutions, a_long_range_is_asked_for_in_parts)
{
    CONFIG_LIST_AUTO struct config_list list = { .count = 0 };
    FAILURE_AUTO struct failure failure = FAILURE_INIT;

    must(ask(f, 10, 985, &list, &failure), failure.err);

    assert_string_equal(f->target, "gfx90a");
    assert_string_equal(f->solver, "ConvSome");
    assert_int_equal(f->asked, 10);
    assert_int_equal(list.count, 328);
    for (uint32_t i = 0; i < list.count; i++) {
        char text[32];
        assert_int_equal(list.configs[i].candidate, 12 + 3 * i);
        snprintf(text, sizeof(text), "%u,1", 12 + 3 * i);
        assert_string_equal(config_text(&list, i), text);
    }
}

TEST_F(solutions, a_range_without_valid_candidates_is_empty)
{
    CONFIG_LIST_AUTO struct config_list list = { .count = 0 };
    FAILURE_AUTO struct failure failure = FAILURE_INIT;
    must(ask(f, 1, 2, &list, &failure), failure.err);
    assert_int_equal(list.count, 0);
}

TEST_F(solutions, an_empty_range_of_candidates_is_refused_without_asking_kilnd)
{
    const uint32_t ranges[][2] = { { 0, 0 }, { 1, UINT32_MAX }, { UINT32_MAX, 1 } };
    for (size_t i = 0; i < 3; i++) {
        CONFIG_LIST_AUTO struct config_list list = { .count = 0 };
        FAILURE_AUTO struct failure failure = FAILURE_INIT;
        assert_int_equal(ask(f, ranges[i][0], ranges[i][1], &list, &failure), KILN_INVALID);
    }
    assert_int_equal(f->asked, 0);
}

static void spoilt(struct fixture *f)
{
    CONFIG_LIST_AUTO struct config_list list = { .count = 0 };
    FAILURE_AUTO struct failure failure = FAILURE_INIT;
    assert_int_equal(ask(f, 30, 300, &list, &failure), KILN_CORRUPT);
    assert_says(failure.err.text, "perf configs");
    f->wrong_next = f->wrong_index = 0;
    f->more = 0;
    f->part = 100;
    f->config = (struct bytes){ 0 };
}

TEST_F(solutions, inconsistent_lists_of_configs_are_refused)
{
    f->part = 0; /* if the client accepted answers without candidates, it would ask forever */
    spoilt(f);
    f->wrong_next = -200;
    spoilt(f);
    f->wrong_next = 500;
    spoilt(f);
    f->wrong_index = -30;
    spoilt(f);
    f->wrong_index = 99;
    spoilt(f);
    f->more = 3;
    spoilt(f);
    f->config = bytes_of("1\0", 2);
    spoilt(f);
}

TEST_F(solutions, lists_and_failures_are_released_alike)
{
    CONFIG_LIST_AUTO struct config_list list = { .count = 0 };
    FAILURE_AUTO struct failure failure = FAILURE_INIT;
    fake_daemon_kill(&f->daemon);
    static const struct problem problem = { .spatial_dims = 2 };
    const struct configs_question question = { .problem = &problem,
                                               .target = bytes_of_text("gfx90a"),
                                               .solver = bytes_of_text("ConvSome"),
                                               .count = 1 };
    assert_int_not_equal(
        configs_ask(f->client, &question, clock_monotonic_ns() + A_SECOND / 10, &list, &failure),
        KILN_OK);
    assert_int_equal(list.count, 0);
}
