/* SPDX-License-Identifier: MIT */
/* Find and tune against a made-up daemon and device. */
#include "tests/support/test.h"
#include "tests/unit/libclient/conv_device.h"
#include "tests/unit/libclient/fake_tuning.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PUTS_MOST 16u
#define SPACE 16u /* configs "0,1" to "15,1" of a solver that has any */

struct made_solver {
    const char *name;
    const char *kernel; /* NULL: does not compile */
    double find_ms;     /* recorded */
    const char *best;   /* config recorded */
    bool has_space;     /* then |kernel| is for its config "0,1"; 11 is the fastest */
};

struct put {
    uint8_t kind;
    char solver[32], params[16], toolchain[32], driver[32], uuid[32], device[32];
    uint32_t samples, clock_mhz;
    double median_ms;
};

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct made_device *device;
    struct kiln_problem problem;
    struct kiln_conv_options options;
    struct kiln_conv_result *result;
    struct kiln_error err;
    const struct made_solver *solvers;
    unsigned solver_count;
    const char *wrong_config, *fatal_config, *uncompiled_config;
    bool silent_plans, all_taken;
    int timeout_ms;

    struct put puts[PUTS_MOST];
    unsigned put_count, plans, config_requests, removals, told, leases, reports;
    unsigned enough_after;
};

/* ---- the daemon ---- */

static const struct made_solver *find_solver(const struct fixture *f, struct bytes name)
{
    for (unsigned i = 0; i < f->solver_count; i++) {
        if (bytes_equal_text(name, f->solvers[i].name))
            return &f->solvers[i];
    }
    return NULL;
}

static void reply(const struct fake_request *rq, uint16_t type, const struct buffer *body)
{
    fake_reply(rq, type, 0, buffer_view(body), NULL, 0);
}

static void answer_solutions(struct fixture *f, const struct fake_request *rq)
{
    BUFFER_AUTO struct buffer list, body;
    buffer_init(&list, 100000);
    buffer_init(&body, 100000);
    for (unsigned i = 0; i < f->solver_count; i++) {
        const struct made_solver *s = &f->solvers[i];
        const struct message_solution m = {
            .solver = bytes_of_text(s->name),
            .algorithm = bytes_of_text("miopenConvolutionFwdAlgoDirect"),
            .find_ms = fake_real(s->find_ms),
            .config = bytes_of_text(s->has_space ? "0,1" : ""),
            .best_config = bytes_of_text(s->best),
            .candidates = s->has_space ? SPACE : 0,
            .valid = s->has_space ? SPACE : 0,
        };
        message_solution_write(&list, &m);
    }
    const struct message_solved m = { .count = f->solver_count, .solutions = buffer_view(&list) };
    message_solved_write(&body, &m);
    reply(rq, MESSAGE_solved, &body);
}

static void answer_configs(struct fixture *f, const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    const struct message_configs asked = message_configs_read(&r);
    BUFFER_AUTO struct buffer list, body;
    buffer_init(&list, 100000);
    buffer_init(&body, 100000);
    f->config_requests++;
    for (uint32_t i = asked.first; i < asked.first + asked.count; i++) {
        char text[16];
        snprintf(text, sizeof(text), "%u,1", i * 7 % SPACE);
        const struct message_candidate one = { .index = i, .config = bytes_of_text(text) };
        message_candidate_write(&list, &one);
    }
    const struct message_candidates m = { .next = asked.first + asked.count,
                                          .count = asked.count,
                                          .configs = buffer_view(&list) };
    message_candidates_write(&body, &m);
    reply(rq, MESSAGE_candidates, &body);
}

/* What the kernel of |s| with |config| is called. */
static void write_entry(const struct fixture *f, const struct made_solver *s, const char *config,
                        char entry[32])
{
    unsigned value = (unsigned)strtoul(config, NULL, 10);
    if (!s->has_space)
        snprintf(entry, 32, "%s", s->kernel);
    else if (f->wrong_config && strcmp(config, f->wrong_config) == 0)
        snprintf(entry, 32, "wrong 0.3");
    else if (f->fatal_config && strcmp(config, f->fatal_config) == 0)
        snprintf(entry, 32, "fatal 1");
    else
        snprintf(entry, 32, "right %.3f", 1 + 0.1 * (value > 11 ? value - 11 : 11 - value));
}

static void write_plan(const struct fixture *f, const struct made_solver *s, const char *config,
                       struct buffer *body)
{
    static const struct message_plan_argument arguments[] = { { .kind = ARGUMENT_X },
                                                              { .kind = ARGUMENT_W },
                                                              { .kind = ARGUMENT_Y } };
    char entry[32];
    BUFFER_AUTO struct buffer list, kernels, objects;
    buffer_init(&list, 1000);
    buffer_init(&kernels, 1000);
    buffer_init(&objects, 1000);
    write_entry(f, s, config, entry);
    for (unsigned i = 0; i < 3; i++)
        message_plan_argument_write(&list, &arguments[i]);
    const struct message_plan_kernel k = { .name = bytes_of_text(entry),
                                           .grid_x = 1,
                                           .grid_y = 1,
                                           .grid_z = 1,
                                           .group_x = 64,
                                           .group_y = 1,
                                           .group_z = 1,
                                           .argument_count = 3,
                                           .arguments = buffer_view(&list) };
    message_plan_kernel_write(&kernels, &k);
    const struct digest key = fake_key((unsigned)bytes_hash(bytes_of_text(entry), 1));
    const struct message_outcome o = fake_inline_outcome(0, &key, bytes_of_text("object"));
    message_outcome_write(&objects, &o);
    const struct message_planned m = { .solver = bytes_of_text(s->name),
                                       .config = bytes_of_text(config),
                                       .toolchain = bytes_of_text("clang"),
                                       .toolchain_identity = bytes_of_text("clang 15 abc"),
                                       .kernel_count = 1,
                                       .kernels = buffer_view(&kernels),
                                       .object_count = 1,
                                       .objects = buffer_view(&objects) };
    message_planned_write(body, &m);
}

static void answer_plan(struct fixture *f, const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    const struct message_plan asked = message_plan_read(&r);
    const struct made_solver *s = asked.solver.size ? find_solver(f, asked.solver) : &f->solvers[0];
    char config[32];
    f->plans++;
    if (f->silent_plans)
        return;
    bool by_record = s && s->best && !(asked.flags & PLAN_HEURISTIC);
    const char *known = s && s->has_space ? by_record ? s->best : "0,1" : "";
    snprintf(config, sizeof(config), "%.*s", (int)asked.config.size,
             (const char *)asked.config.data);
    if (!config[0])
        snprintf(config, sizeof(config), "%s", known);
    if (!s || !s->kernel || (f->uncompiled_config && strcmp(config, f->uncompiled_config) == 0)) {
        fake_reply_error(rq, KILN_COMPILE_FAILED, "the compiler refused it", "line 1: no");
        return;
    }
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 10000);
    write_plan(f, s, config, &body);
    reply(rq, MESSAGE_planned, &body);
}

static void copy(char to[32], struct bytes text)
{
    snprintf(to, 32, "%.*s", (int)text.size, (const char *)text.data);
}

static void answer_put(struct fixture *f, const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    const struct message_tuning_put m = message_tuning_put_read(&r);
    struct reader entries = reader_of(m.entries);
    const struct message_tuning_entry e = message_tuning_entry_read(&entries);
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1000);
    assert_true(f->put_count < PUTS_MOST && m.count == 1);
    struct put *p = &f->puts[f->put_count++];
    *p = (struct put){ .kind = m.kind, .samples = e.samples, .clock_mhz = m.clock_mhz };
    memcpy(&p->median_ms, &e.median_ms, sizeof(p->median_ms));
    copy(p->solver, e.solver);
    snprintf(p->params, sizeof(p->params), "%.*s", (int)e.params.size, (const char *)e.params.data);
    copy(p->toolchain, m.toolchain);
    copy(p->driver, m.driver);
    copy(p->uuid, m.device_uuid);
    copy(p->device, m.device);
    const struct message_recorded recorded = { .count = 1 };
    message_recorded_write(&body, &recorded);
    reply(rq, MESSAGE_recorded, &body);
}

static void answer_lease(struct fixture *f, const struct fake_request *rq)
{
    bool is_report = rq->header.type == MESSAGE_tuning_report;
    unsigned share = is_report ? ++f->reports : 0;
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 4096);
    f->leases += !is_report;
    const struct message_leased m = { .state = f->all_taken ? LEASE_OUTCOME_TAKEN
                                               : share < 2  ? LEASE_OUTCOME_GRANTED
                                                            : LEASE_OUTCOME_DONE,
                                      .lease = 9,
                                      .first = share * (SPACE / 2),
                                      .count = share < 2 ? SPACE / 2 : 0 };
    message_leased_write(&body, &m);
    reply(rq, MESSAGE_leased, &body);
}

static void answer_get(const struct fake_request *rq)
{
    struct fake_tuned tuned = { .count = 0 };
    const struct message_tuning_answer a = { .code = KILN_NOT_FOUND };
    fake_tuned_add(&tuned, &a);
    fake_tuned_reply(&tuned, rq, 0);
    buffer_done(&tuned.answers);
}

static void answer(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    static const char removed[] = "{\"removed\":1}";
    switch (rq->header.type) {
    case MESSAGE_solutions: answer_solutions(f, rq); break;
    case MESSAGE_configs: answer_configs(f, rq); break;
    case MESSAGE_plan: answer_plan(f, rq); break;
    case MESSAGE_tuning_put: answer_put(f, rq); break;
    case MESSAGE_tuning_lease:
    case MESSAGE_tuning_report: answer_lease(f, rq); break;
    case MESSAGE_tuning_get: answer_get(rq); break;
    case MESSAGE_tuning_remove:
        f->removals++;
        fake_reply(rq, MESSAGE_json, 0, bytes_of_text(removed), NULL, 0);
        break;
    default: fake_reply_error(rq, KILN_INVALID, "not expected", NULL);
    }
}

/* ---- the fixture ---- */

static const struct made_solver several[] = {
    { .name = "ConvGood", .kernel = "right 1" },
    { .name = "ConvSlow", .kernel = "right 50" },
    { .name = "ConvLazy", .kernel = "lazy 0.5" },
    { .name = "ConvWrong", .kernel = "wrong 0.5" },
    { .name = "ConvUncompiled" },
    { .name = "ConvBroken", .kernel = "broken 1" },
    { .name = "ConvBetter", .kernel = "right 0.8" },
    { .name = "ConvDirectNaive", .kernel = "right 2" },
};
static const struct made_solver tunable[] = {
    { .name = "ConvTuned", .kernel = "right 2.1", .has_space = true },
    { .name = "ConvDirectNaive", .kernel = "right 4" },
};

static int told(void *context, const struct kiln_conv_progress *progress)
{
    struct fixture *f = context;
    assert_true(progress->size == sizeof(*progress));
    return ++f->told == f->enough_after;
}

#define USE(f, list) ((f)->solvers = (list), (f)->solver_count = sizeof(list) / sizeof((list)[0]))

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .problem = fake_problem(2) };
    f.options = (struct kiln_conv_options){
        .size = sizeof(f.options), .journal = "", .told = told, .context = &f
    };
    USE(&f, several);
    f.client = fake_daemon_serve(&f.daemon, answer, &f);
    f.device = made_device_open();
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    kiln_conv_result_free(f->result);
    kiln_client_close(f->client);
    unsigned left = f->device->memories + f->device->functions;
    kiln_device_close(&f->device->base);
    fake_daemon_stop(&f->daemon);
    return left ? -1 : 0;
}

static int find(struct fixture *f)
{
    kiln_conv_result_free(KILN_TAKE(f->result));
    return kiln_conv_find(f->client, &f->device->base, &f->problem, &f->options, f->timeout_ms,
                          &f->result, &f->err);
}

static int tune(struct fixture *f)
{
    kiln_conv_result_free(KILN_TAKE(f->result));
    return kiln_conv_tune(f->client, &f->device->base, &f->problem, &f->options, f->timeout_ms,
                          &f->result, &f->err);
}

static struct kiln_conv_entry entry(const struct fixture *f, const char *solver)
{
    struct kiln_conv_entry e = { .size = sizeof(e) };
    for (unsigned i = 0; i < kiln_conv_result_count(f->result); i++) {
        must(kiln_conv_result_entry(f->result, i, &e, NULL), f->err);
        if (strcmp(e.solver, solver) == 0)
            return e;
    }
    fail_msg("no %s in the result", solver);
    return e;
}

static struct kiln_conv_entry at(const struct fixture *f, unsigned index)
{
    struct kiln_conv_entry e = { .size = sizeof(e) };
    must(kiln_conv_result_entry(f->result, index, &e, NULL), f->err);
    return e;
}

static const struct put *put_of(const struct fixture *f, uint8_t kind, const char *solver)
{
    for (unsigned i = 0; i < f->put_count; i++) {
        if (f->puts[i].kind == kind && strcmp(f->puts[i].solver, solver) == 0)
            return &f->puts[i];
    }
    return NULL;
}

/* ---- find ---- */

static void find_orders_solvers_by_speed_and_says_what_was_wrong_with_others(void **state)
{
    struct fixture *f = *state;
    must(find(f), f->err);
    assert_int_equal(kiln_conv_result_count(f->result), 8);
    assert_string_equal(at(f, 0).solver, "ConvBetter");
    assert_string_equal(at(f, 1).solver, "ConvGood");
    assert_string_equal(at(f, 2).solver, "ConvDirectNaive");
    assert_int_equal(at(f, 2).state, KILN_CONV_TIMED);
    assert_string_equal(at(f, 3).solver, "ConvSlow");
    assert_int_equal(at(f, 3).state, KILN_CONV_CUT_SHORT);
    assert_int_equal(entry(f, "ConvLazy").state, KILN_CONV_WRONG);
    assert_int_equal(entry(f, "ConvWrong").state, KILN_CONV_WRONG);
    assert_int_equal(entry(f, "ConvUncompiled").state, KILN_CONV_NOT_COMPILED);
    assert_string_equal(entry(f, "ConvUncompiled").reason, "the compiler refused it");
    assert_int_equal(entry(f, "ConvBroken").state, KILN_CONV_NOT_RUN);
    assert_non_null(strstr(entry(f, "ConvBroken").reason, "too many resources"));
    assert_string_equal(kiln_plan_solver(kiln_conv_result_plan(f->result)), "ConvBetter");
    assert_int_equal(f->plans, 9); /* all in one batch, and the reference */
    assert_int_equal(f->told, 8);
}

static void times_are_the_devices_and_the_whole_result_is_compared(void **state)
{
    struct fixture *f = *state;
    must(find(f), f->err);
    struct kiln_conv_entry e = entry(f, "ConvGood");
    assert_true(fabs(e.median_ms - 1) < 1e-9);
    assert_true(e.spread_ms < 1e-9);
    assert_int_equal(e.samples, 24);
    assert_int_equal(e.checked, 2 * 8 * 8 * 8);
    e = entry(f, "ConvWrong"); /* one element, the last */
    assert_non_null(strstr(e.reason, "1 of 1024 elements"));
    assert_non_null(strstr(e.reason, "number 1023"));
}

static void what_is_timed_is_recorded_with_where_it_comes_from(void **state)
{
    struct fixture *f = *state;
    must(find(f), f->err);
    assert_int_equal(f->put_count, 4);
    const struct put *p = put_of(f, TUNING_FIND, "ConvGood");
    assert_non_null(p);
    assert_int_equal(p->samples, 24);
    assert_true(fabs(p->median_ms - 1) < 1e-9);
    assert_string_equal(p->toolchain, "clang 15 abc");
    assert_string_equal(p->driver, "Made 1.0");
    assert_string_equal(p->uuid, "GPU-0000");
    assert_string_equal(p->device, "Made Device");
    assert_int_equal(p->clock_mhz, 1700);
    assert_int_equal(put_of(f, TUNING_FIND, "ConvSlow")->samples, 1);
    assert_null(put_of(f, TUNING_FIND, "ConvWrong"));
    assert_null(put_of(f, TUNING_PERF, "ConvGood"));
}

static void nothing_is_recorded_where_that_was_said(void **state)
{
    struct fixture *f = *state;
    f->options.no_record = 1;
    must(find(f), f->err);
    assert_int_equal(f->put_count, 0);
    assert_int_equal(entry(f, "ConvGood").state, KILN_CONV_TIMED);
}

static void one_solver_alone_may_be_asked_for(void **state)
{
    struct fixture *f = *state;
    f->options.solver = "ConvGood";
    must(find(f), f->err);
    assert_int_equal(kiln_conv_result_count(f->result), 1);
    assert_int_equal(f->plans, 2);
    f->options.solver = "ConvNowhere";
    assert_int_equal(find(f), KILN_E_UNSUPPORTED);
    assert_non_null(strstr(f->err.text, "ConvNowhere does not apply"));
}

static void records_answer_fast_and_hybrid_without_a_launch(void **state)
{
    static const struct made_solver known[] = {
        { .name = "ConvGood", .kernel = "right 1", .find_ms = 1.5 },
        { .name = "ConvDirectNaive", .kernel = "right 2" },
    };
    struct fixture *f = *state;
    USE(f, known);
    for (int mode = KILN_FIND_FAST; mode <= KILN_FIND_HYBRID; mode++) {
        f->options.mode = mode;
        must(find(f), f->err);
        assert_int_equal(at(f, 0).state, KILN_CONV_RECORDED);
        assert_true(at(f, 0).median_ms == 1.5);
        assert_int_equal(at(f, 1).state, KILN_CONV_UNTIMED);
        assert_string_equal(kiln_plan_solver(kiln_conv_result_plan(f->result)), "ConvGood");
    }
    assert_int_equal(f->device->launches, 0);
    f->options.mode = KILN_FIND_NORMAL;
    must(find(f), f->err);
    assert_true(at(f, 0).median_ms < 1.01);
}

static void without_records_fast_takes_the_heuristic_and_hybrid_measures(void **state)
{
    struct fixture *f = *state;
    f->options.mode = KILN_FIND_FAST;
    must(find(f), f->err);
    assert_int_equal(f->device->launches, 0);
    assert_int_equal(at(f, 0).state, KILN_CONV_UNTIMED);
    assert_non_null(kiln_conv_result_plan(f->result));
    f->options.mode = KILN_FIND_HYBRID;
    must(find(f), f->err);
    assert_string_equal(at(f, 0).solver, "ConvBetter");
}

static void who_has_enough_gets_what_was_measured(void **state)
{
    struct fixture *f = *state;
    f->enough_after = 2;
    must(find(f), f->err);
    assert_int_equal(entry(f, "ConvGood").state, KILN_CONV_TIMED);
    assert_int_equal(entry(f, "ConvBetter").state, KILN_CONV_UNTIMED);
    assert_string_equal(entry(f, "ConvBetter").reason, "no time was left");
}

/* ---- find: what goes wrong ---- */

static void a_lost_device_ends_it_and_what_was_measured_is_recorded(void **state)
{
    static const struct made_solver fatal[] = {
        { .name = "ConvGood", .kernel = "right 1" },
        { .name = "ConvFatal", .kernel = "fatal 1" },
        { .name = "ConvDirectNaive", .kernel = "right 2" },
    };
    struct fixture *f = *state;
    USE(f, fatal);
    assert_int_equal(find(f), KILN_E_GPU_FAULT);
    assert_non_null(strstr(f->err.text, "the device was lost with ConvFatal"));
    assert_null(f->result);
    assert_int_equal(f->put_count, 1);
    assert_non_null(put_of(f, TUNING_FIND, "ConvGood"));
}

static void without_a_reference_nothing_is_measured(void **state)
{
    static const struct made_solver bad[] = { { .name = "ConvGood", .kernel = "right 1" },
                                              { .name = "ConvDirectNaive" } };
    static const struct made_solver lazy[] = { { .name = "ConvGood", .kernel = "right 1" },
                                               { .name = "ConvDirectNaive", .kernel = "lazy 1" } };
    struct fixture *f = *state;
    USE(f, bad);
    assert_int_equal(find(f), KILN_E_UNSUPPORTED);
    assert_non_null(strstr(f->err.text, "the reference, ConvDirectNaive"));
    assert_non_null(strstr(f->err.text, "the compiler refused it"));
    USE(f, lazy);
    assert_int_equal(find(f), KILN_E_GPU_FAULT);
    assert_non_null(strstr(f->err.text, "no number"));
    assert_int_equal(f->put_count, 0);
}

static void without_a_daemon_it_says_so(void **state)
{
    struct fixture *f = *state;
    fake_daemon_kill(&f->daemon);
    assert_int_equal(find(f), KILN_E_UNAVAILABLE);
    assert_int_equal(tune(f), KILN_E_UNAVAILABLE);
    assert_int_equal(f->device->memories, 0);
}

static void plans_that_never_come_time_out(void **state)
{
    struct fixture *f = *state;
    f->silent_plans = true;
    f->timeout_ms = 50;
    assert_int_equal(find(f), KILN_E_TIMED_OUT);
    assert_non_null(strstr(f->err.text, "the reference"));
}

static void a_device_without_memory_says_what_it_was_for(void **state)
{
    struct fixture *f = *state;
    f->device->memory_left = 1000;
    assert_int_equal(find(f), KILN_E_NO_MEMORY);
    assert_non_null(strstr(f->err.text, "preparing to measure on made:0"));
}

/* With room for one set of operands and no more. */
static void where_memory_is_short_one_set_of_operands_serves(void **state)
{
    struct fixture *f = *state;
    uint64_t bytes = 0, all = 0;
    for (int i = 0; i < 3; i++) {
        must(kiln_problem_tensor(&f->problem, i, NULL, &bytes, &f->err), f->err);
        all += bytes;
    }
    f->device->memory_left = all + 16;
    must(find(f), f->err);
    assert_string_equal(at(f, 0).solver, "ConvBetter");
}

static void arguments_that_make_no_sense_are_refused(void **state)
{
    struct fixture *f = *state;
    f->options.mode = 4;
    assert_int_equal(find(f), KILN_E_INVALID);
    assert_non_null(strstr(f->err.text, "kiln_conv_options.mode is 4"));
    f->options.mode = 0;
    f->options.enforce = 6;
    assert_int_equal(find(f), KILN_E_INVALID);
    f->options.enforce = 0;
    f->options.budget_ms = -1;
    assert_int_equal(find(f), KILN_E_INVALID);
    f->options.budget_ms = 0;
    f->options.size = 3;
    assert_int_equal(find(f), KILN_E_INVALID);
    f->options.size = sizeof(f->options);
    f->problem.type = KILN_INT8;
    assert_int_equal(find(f), KILN_E_UNSUPPORTED);
    assert_int_equal(kiln_conv_find(f->client, NULL, &f->problem, NULL, 0, &f->result, &f->err),
                     KILN_E_INVALID);
}

/* ---- the caller's tensors ---- */

static void tensors_of_the_callers_are_used_and_checked(void **state)
{
    struct fixture *f = *state;
    struct kiln_memory *memory[3];
    float values[4096];
    uint64_t bytes;
    for (unsigned i = 0; i < 4096; i++)
        values[i] = (float)i / 1024 - 2;
    for (int i = 0; i < 3; i++) {
        must(kiln_problem_tensor(&f->problem, i, NULL, &bytes, &f->err), f->err);
        must(kiln_memory_create(&f->device->base, bytes, &memory[i], &f->err), f->err);
        must(kiln_memory_write(memory[i], values, bytes, &f->err), f->err);
    }
    f->options.x = memory[0];
    f->options.w = memory[1];
    assert_int_equal(find(f), KILN_E_INVALID);
    assert_non_null(strstr(f->err.text, "tensor y is not given"));
    f->options.y = memory[2];
    must(find(f), f->err);
    assert_string_equal(at(f, 0).solver, "ConvBetter");
    assert_int_equal(entry(f, "ConvLazy").state, KILN_CONV_WRONG);
    values[5] = NAN;
    must(kiln_memory_write(memory[1], values, 64, &f->err), f->err);
    assert_int_equal(find(f), KILN_E_INVALID);
    assert_non_null(strstr(f->err.text, "no number"));
    for (int i = 0; i < 3; i++)
        kiln_memory_destroy(memory[i]);
}

/* ---- tune ---- */

static void tune_finds_the_best_config_and_records_it(void **state)
{
    struct fixture *f = *state;
    USE(f, tunable);
    must(tune(f), f->err);
    assert_string_equal(at(f, 0).solver, "ConvTuned");
    assert_string_equal(at(f, 0).config, "11,1");
    assert_true(fabs(at(f, 0).median_ms - 1) < 1e-9);
    assert_int_equal(at(f, 0).tried, SPACE);
    assert_int_equal(kiln_conv_result_trial_count(f->result), SPACE);
    const struct put *p = put_of(f, TUNING_PERF, "ConvTuned");
    assert_non_null(p);
    assert_string_equal(p->params, "11,1");
    assert_non_null(put_of(f, TUNING_FIND, "ConvTuned"));
    assert_null(put_of(f, TUNING_PERF, "ConvDirectNaive"));
    assert_string_equal(kiln_plan_config(kiln_conv_result_plan(f->result)), "11,1");
}

static void wrong_and_uncompiled_configs_never_win(void **state)
{
    struct fixture *f = *state;
    USE(f, tunable);
    f->wrong_config = "11,1";
    f->uncompiled_config = "10,1";
    must(tune(f), f->err);
    assert_string_equal(at(f, 0).config, "12,1");
    unsigned wrong = 0, uncompiled = 0;
    for (unsigned i = 0; i < kiln_conv_result_trial_count(f->result); i++) {
        struct kiln_conv_entry e = { .size = sizeof(e) };
        must(kiln_conv_result_trial(f->result, i, &e, &f->err), f->err);
        wrong += e.state == KILN_CONV_WRONG;
        uncompiled += e.state == KILN_CONV_NOT_COMPILED;
    }
    assert_int_equal(wrong, 1);
    assert_int_equal(uncompiled, 1);
}

static void a_device_lost_in_a_search_leaves_what_was_found_recorded(void **state)
{
    struct fixture *f = *state;
    USE(f, tunable);
    f->fatal_config = "11,1";
    assert_int_equal(tune(f), KILN_E_GPU_FAULT);
    assert_non_null(strstr(f->err.text, "tuning ConvTuned: the device was lost"));
    assert_non_null(strstr(f->err.text, "11,1"));
    assert_non_null(put_of(f, TUNING_FIND, "ConvTuned"));
}

static const struct made_solver tuned_before[] = {
    { .name = "ConvTuned", .kernel = "right 2.1", .has_space = true, .best = "5,1" },
    { .name = "ConvDirectNaive", .kernel = "right 4" },
};

static void what_is_known_is_searched_again_only_where_that_is_enforced(void **state)
{
    struct fixture *f = *state;
    USE(f, tuned_before);
    must(tune(f), f->err);
    assert_string_equal(at(f, 0).config, "5,1");
    assert_int_equal(at(f, 0).tried, 0);
    assert_null(put_of(f, TUNING_PERF, "ConvTuned"));
    f->options.enforce = KILN_ENFORCE_SEARCH;
    must(tune(f), f->err);
    assert_int_equal(at(f, 0).tried, 0);
    f->options.enforce = KILN_ENFORCE_DB_UPDATE;
    must(tune(f), f->err);
    assert_string_equal(at(f, 0).config, "11,1");
}

static void find_searches_where_that_is_enforced(void **state)
{
    struct fixture *f = *state;
    USE(f, tunable);
    f->options.enforce = KILN_ENFORCE_DB_UPDATE;
    must(find(f), f->err);
    assert_int_equal(f->config_requests, 0);
    f->options.enforce = KILN_ENFORCE_SEARCH;
    must(find(f), f->err);
    assert_string_equal(at(f, 0).config, "11,1");
    USE(f, tuned_before);
    f->options.enforce = KILN_ENFORCE_SEARCH_DB_UPDATE;
    must(find(f), f->err);
    assert_string_equal(at(f, 0).config, "11,1");
}

static void clean_forgets_the_config_and_searches_nothing(void **state)
{
    struct fixture *f = *state;
    USE(f, tuned_before);
    f->options.enforce = KILN_ENFORCE_DB_CLEAN;
    must(tune(f), f->err);
    assert_int_equal(f->removals, 1);
    assert_int_equal(f->config_requests, 0);
    assert_string_equal(at(f, 0).config, "0,1");
    f->options.no_record = 1;
    must(find(f), f->err);
    assert_int_equal(f->removals, 1);
}

static void who_has_enough_of_tuning_keeps_the_best_so_far(void **state)
{
    struct fixture *f = *state;
    USE(f, tunable);
    f->enough_after = 2 + 3; /* two solvers found, three configs tried */
    must(tune(f), f->err);
    assert_int_equal(at(f, 0).tried, 3);
    assert_non_null(put_of(f, TUNING_PERF, "ConvTuned"));
}

static void a_shared_search_reports_its_shares(void **state)
{
    struct fixture *f = *state;
    USE(f, tunable);
    f->options.share = 1;
    must(tune(f), f->err);
    assert_int_equal(f->leases, 1);
    assert_int_equal(f->reports, 2);
    assert_string_equal(at(f, 0).config, "11,1");
    assert_int_equal(at(f, 0).tried, SPACE);
}

static void where_all_shares_are_taken_what_is_known_is_refined(void **state)
{
    struct fixture *f = *state;
    USE(f, tunable);
    f->options.share = 1;
    f->all_taken = true;
    must(tune(f), f->err);
    assert_int_equal(f->reports, 0);
    assert_string_equal(at(f, 0).config, "11,1"); /* step by step from 0,1 */
}

static void states_have_names(void **state)
{
    (void)state;
    assert_string_equal(kiln_conv_state_name(KILN_CONV_TIMED), "TIMED");
    assert_string_equal(kiln_conv_state_name(KILN_CONV_NOT_RUN), "NOT_RUN");
    assert_string_equal(kiln_conv_state_name(-1), "?");
    assert_string_equal(kiln_conv_state_name(99), "?");
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(find_orders_solvers_by_speed_and_says_what_was_wrong_with_others),
        T(times_are_the_devices_and_the_whole_result_is_compared),
        T(what_is_timed_is_recorded_with_where_it_comes_from),
        T(nothing_is_recorded_where_that_was_said),
        T(one_solver_alone_may_be_asked_for),
        T(records_answer_fast_and_hybrid_without_a_launch),
        T(without_records_fast_takes_the_heuristic_and_hybrid_measures),
        T(who_has_enough_gets_what_was_measured),
        T(a_lost_device_ends_it_and_what_was_measured_is_recorded),
        T(without_a_reference_nothing_is_measured),
        T(without_a_daemon_it_says_so),
        T(plans_that_never_come_time_out),
        T(a_device_without_memory_says_what_it_was_for),
        T(where_memory_is_short_one_set_of_operands_serves),
        T(arguments_that_make_no_sense_are_refused),
        T(tensors_of_the_callers_are_used_and_checked),
        T(tune_finds_the_best_config_and_records_it),
        T(wrong_and_uncompiled_configs_never_win),
        T(a_device_lost_in_a_search_leaves_what_was_found_recorded),
        T(what_is_known_is_searched_again_only_where_that_is_enforced),
        T(find_searches_where_that_is_enforced),
        T(clean_forgets_the_config_and_searches_nothing),
        T(who_has_enough_of_tuning_keeps_the_best_so_far),
        T(a_shared_search_reports_its_shares),
        T(where_all_shares_are_taken_what_is_known_is_refined),
        T(states_have_names),
    };
    return cmocka_run_group_tests_name("conv", tests, NULL, NULL);
}
