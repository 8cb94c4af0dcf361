/* SPDX-License-Identifier: MIT */
#include "tests/unit/libclient/conv_fixture.h"

#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define SMALL_WORKSPACE 64
#define TOO_MUCH_WORKSPACE ((uint64_t)1 << 40)

static const struct conv_solver *find_solver(const struct conv_fixture *f, struct bytes name)
{
    for (unsigned i = 0; i < f->solver_count; i++) {
        if (bytes_equal_text(name, atomic_load(&f->solvers)[i].name))
            return &atomic_load(&f->solvers)[i];
    }
    return NULL;
}

static void reply(const struct fake_request *rq, uint16_t type, const struct buffer *body)
{
    fake_reply(rq, type, 0, buffer_view(body));
}

static void answer_solutions(struct conv_fixture *f, const struct fake_request *rq)
{
    BUFFER_AUTO struct buffer list, body;
    buffer_init(&list, 100000);
    buffer_init(&body, 100000);
    for (unsigned i = 0; i < f->solver_count; i++) {
        const struct conv_solver *s = &atomic_load(&f->solvers)[i];
        const struct message_solution m = {
            .solver = bytes_of_text(s->name),
            .algorithm = bytes_of_text("miopenConvolutionFwdAlgoDirect"),
            .find_ms = fake_real(s->find_ms),
            .config = bytes_of_text(s->has_space ? "0,1" : ""),
            .best_config = bytes_of_text(s->best),
            .best_ms = fake_real(s->best_ms),
            .candidates = s->has_space ? f->space : 0,
            .valid = s->has_space ? f->space : 0,
        };
        message_solution_write(&list, &m);
    }
    const struct message_solved m = { .count = f->solver_count, .solutions = buffer_view(&list) };
    message_solved_write(&body, &m);
    reply(rq, MESSAGE_solved, &body);
}

static void answer_configs(struct conv_fixture *f, const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    const struct message_configs asked = message_configs_read(&r);
    BUFFER_AUTO struct buffer list, body;
    buffer_init(&list, 100000);
    buffer_init(&body, 100000);
    f->config_requests++;
    for (uint32_t i = asked.first; i < asked.first + asked.count; i++) {
        char text[16];
        snprintf(text, sizeof(text), "%u,1", i * 7 % f->space);
        const struct message_candidate one = { .index = i, .config = bytes_of_text(text) };
        message_candidate_write(&list, &one);
    }
    const struct message_candidates m = { .next = asked.first + asked.count,
                                          .count = asked.count,
                                          .configs = buffer_view(&list) };
    message_candidates_write(&body, &m);
    reply(rq, MESSAGE_candidates, &body);
}

static void write_entry(const struct conv_fixture *f, const struct conv_solver *s,
                        const char *config, char entry[32])
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

static uint8_t source_of(const struct conv_fixture *f, const struct conv_solver *s,
                         const char *config, uint32_t flags)
{
    bool is_near = f->near_config && (flags & PLAN_NEAREST) && strcmp(config, f->near_config) == 0;
    return s == f->generic ? PLAN_SOURCE_GENERIC
           : is_near       ? PLAN_SOURCE_NEAREST
                           : PLAN_SOURCE_FORCED;
}

static void write_plan(const struct conv_fixture *f, const struct conv_solver *s,
                       const char *config, uint8_t source, struct buffer *body)
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
    const struct message_result o = fake_inline_result(0, &key, bytes_of_text("object"));
    message_result_write(&objects, &o);
    bool is_greedy = f->greedy_config && strcmp(config, f->greedy_config) == 0;
    const struct message_planned m = { .solver = bytes_of_text(s->name),
                                       .config = bytes_of_text(config),
                                       .source = source,
                                       .toolchain = bytes_of_text("clang"),
                                       .toolchain_identity = bytes_of_text("clang 15 abc"),
                                       .workspace_size = is_greedy          ? TOO_MUCH_WORKSPACE
                                                         : f->greedy_config ? SMALL_WORKSPACE
                                                                            : 0,
                                       .kernel_count = 1,
                                       .kernels = buffer_view(&kernels),
                                       .object_count = 1,
                                       .objects = buffer_view(&objects) };
    message_planned_write(body, &m);
}

static void answer_plan(struct conv_fixture *f, const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    const struct message_plan asked = message_plan_read(&r);
    const struct conv_solver *s =
        asked.solver.size ? find_solver(f, asked.solver) : atomic_load(&f->solvers);
    bool may_be_packaged = f->is_older || !(asked.flags & PLAN_NO_PACKAGES);
    bool may_be_generic = may_be_packaged && asked.flags & PLAN_GENERIC;
    char config[32];
    f->plans++;
    f->generic_plans += may_be_generic;
    if (may_be_generic && f->generic)
        s = f->generic;
    else if (s && f->packaged && may_be_packaged)
        s = &f->packaged[s - atomic_load(&f->solvers)];
    f->packaged_plans += may_be_packaged;
    if (f->silent_plans || (f->silent && s && strcmp(s->name, f->silent) == 0)) {
        f->unanswered++;
        return;
    }
    bool by_record = s && s->best && !(asked.flags & PLAN_HEURISTIC);
    const char *known = s && s->has_space ? by_record ? s->best : "0,1" : "";
    snprintf(config, sizeof(config), "%.*s", (int)asked.config.size,
             (const char *)asked.config.data);
    if (!config[0] && f->near_config && (asked.flags & PLAN_NEAREST))
        known = f->near_config;
    if (!config[0])
        snprintf(config, sizeof(config), "%s", known);
    if (f->busy && ((s && strcmp(s->name, f->busy) == 0) || strcmp(config, f->busy) == 0)) {
        fake_reply_error(rq, KILN_BUSY, "too much is asked at once", NULL);
        return;
    }
    if (s && f->not_built_in && strstr(f->not_built_in, s->name)) {
        fake_reply_error(rq, KILN_NOT_FOUND, "the kernels are not built into this program", NULL);
        return;
    }
    if (!s || !s->kernel || (f->uncompiled_config && strcmp(config, f->uncompiled_config) == 0)) {
        fake_reply_error(rq, KILN_COMPILE_FAILED, "the compiler refused it", "line 1: no");
        return;
    }
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 10000);
    write_plan(f, s, config, source_of(f, s, config, asked.flags), &body);
    reply(rq, MESSAGE_planned, &body);
}

static void copy(char to[32], struct bytes text)
{
    snprintf(to, 32, "%.*s", (int)text.size, (const char *)text.data);
}

static void answer_put(struct conv_fixture *f, const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    const struct message_tuning_put m = message_tuning_put_read(&r);
    struct reader entries = reader_of(m.entries);
    const struct message_tuning_entry e = message_tuning_entry_read(&entries);
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1000);
    assert_true(f->put_count < CONV_PUTS_MAX && m.count == 1);
    f->puts_asked++;
    if (f->refuses_puts) {
        fake_reply_error(rq, KILN_FULL, "the disk is full", NULL);
        return;
    }
    struct conv_put *p = &f->puts[f->put_count++];
    *p = (struct conv_put){ .kind = m.kind, .samples = e.samples, .clock_mhz = m.clock_mhz };
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

#define FIND_LEASE 7

/* Answers requests for the right to find the problem, and its return.  Returns false for leases of
 * solvers. */
static bool answer_find_lease(struct conv_fixture *f, const struct fake_request *rq)
{
    bool is_report = rq->header.type == MESSAGE_tuning_report;
    struct reader r = reader_of(rq->body);
    bool is_find = is_report ? message_tuning_report_read(&r).lease == FIND_LEASE
                             : bytes_equal_text(message_tuning_lease_read(&r).solver, "find");
    const struct message_leased m = { .state = is_report               ? LEASE_RESULT_DONE
                                               : f->is_found_elsewhere ? LEASE_RESULT_TAKEN
                                                                       : LEASE_RESULT_GRANTED,
                                      .lease = FIND_LEASE };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 4096);
    if (!is_find)
        return false;
    message_leased_write(&body, &m);
    reply(rq, MESSAGE_leased, &body);
    f->find_leases += !is_report;
    return true;
}

static void answer_lease(struct conv_fixture *f, const struct fake_request *rq)
{
    bool is_report = rq->header.type == MESSAGE_tuning_report;
    /* Like an older kilnd, grants the same share of the configs again, until the client reports
     * it. */
    if (answer_find_lease(f, rq))
        return;
    unsigned share = is_report ? ++f->reports : f->reports;
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 4096);
    f->leases += !is_report;
    if (is_report && f->refuses_reports) {
        fake_reply_error(rq, KILN_DENIED, "the host's tier is for administrators", NULL);
        return;
    }
    if (is_report && f->loses_lease) {
        f->loses_lease = false;
        f->reports = 0;
        fake_reply_error(rq, KILN_NOT_FOUND, "nobody has this lease", NULL);
        return;
    }
    share += f->has_company || (f->is_last && share > 0);
    const struct message_leased m = { .state = f->all_taken ? LEASE_RESULT_TAKEN
                                               : share < 2  ? LEASE_RESULT_GRANTED
                                                            : LEASE_RESULT_DONE,
                                      .lease = 9,
                                      .first = share * (CONV_SPACE / 2),
                                      .count = share < 2 ? CONV_SPACE / 2 : 0 };
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

static void answer_watch(struct conv_fixture *f, const struct fake_request *rq)
{
    const struct message_watched m = { .size = TUNING_WATCH_SIZE };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1000);
    f->watches_asked++;
    if (f->counter_file == 0) { /* like an older kilnd */
        fake_reply_error(rq, KILN_INVALID, "unknown request type 62", NULL);
        return;
    }
    message_watched_write(&body, &m);
    fake_reply_files(rq, MESSAGE_watched, 0, buffer_view(&body),
                     (struct fake_files){ &f->counter_file, 1 });
}

void conv_answer(struct fake_request *rq)
{
    struct conv_fixture *f = rq->daemon->context;
    static const char removed[] = "{\"removed\":1}";
    switch (rq->header.type) {
    case MESSAGE_ping: fake_pong(rq); break;
    case MESSAGE_solutions:
        f->unanswered += f->silent_solutions;
        if (!f->silent_solutions)
            answer_solutions(f, rq);
        f->solutions_asked++;
        break;
    case MESSAGE_configs: answer_configs(f, rq); break;
    case MESSAGE_plan: answer_plan(f, rq); break;
    case MESSAGE_tuning_put: answer_put(f, rq); break;
    case MESSAGE_tuning_lease:
    case MESSAGE_tuning_report: answer_lease(f, rq); break;
    case MESSAGE_tuning_get: answer_get(rq); break;
    case MESSAGE_tuning_watch: answer_watch(f, rq); break;
    case MESSAGE_tuning_remove:
        f->removals++;
        fake_reply(rq, MESSAGE_json, 0, bytes_of_text(removed));
        break;
    default: fake_reply_error(rq, KILN_INVALID, "not expected", NULL);
    }
}

const struct conv_solver conv_several[] = {
    { .name = "ConvGood", .kernel = "right 1" },
    { .name = "ConvSlow", .kernel = "right 50" },
    { .name = "ConvLazy", .kernel = "lazy 0.5" },
    { .name = "ConvWrong", .kernel = "wrong 0.5" },
    { .name = "ConvUncompiled" },
    { .name = "ConvBroken", .kernel = "broken 1" },
    { .name = "ConvBetter", .kernel = "right 0.8" },
    { .name = "ConvDirectNaive", .kernel = "right 2" },
};
const struct conv_solver conv_tunable[] = {
    { .name = "ConvTuned", .kernel = "right 2.1", .has_space = true },
    { .name = "ConvDirectNaive", .kernel = "right 4" },
};

static int reported(void *context, const struct kiln_conv_progress *progress)
{
    struct conv_fixture *f = context;
    assert_true(progress->size == sizeof(*progress));
    return ++f->reported == f->enough_after;
}

static void conv_close(void *fixture)
{
    struct conv_fixture *f = fixture;
    kiln_conv_result_free(f->result);
    kiln_client_close(KILN_TAKE(f->client));
    unsigned left = f->device->memories + f->device->functions;
    kiln_device_close(&f->device->base);
    assert_int_equal(left, 0);
}

static void close_counter(void *fixture)
{
    struct conv_fixture *f = fixture;
    if (f->counter_file > 0)
        close(f->counter_file);
    if (f->counter)
        munmap(f->counter, TUNING_WATCH_SIZE);
    f->counter_file = 0;
    f->counter = NULL;
}

void conv_open(struct conv_fixture *f)
{
    f->problem = public_test_problem(2);
    f->options = (struct kiln_conv_options){
        .size = sizeof(f->options), .journal = "", .reported = reported, .context = f
    };
    CONV_USE(f, conv_several);
    f->space = CONV_SPACE;
    fake_daemon_serve(&f->daemon, conv_answer, f, &f->client);
    f->device = made_device_open();
    test_at_end(close_counter, f);
    test_at_end(conv_close, f);
}

void conv_offer_counter(struct conv_fixture *f, uint64_t first)
{
    static const uint8_t empty[TUNING_WATCH_SIZE];
    close_counter(f);
    f->counter_file = fake_memfd(bytes_of(empty, sizeof(empty)), /* sealed= */ false);
    f->counter =
        mmap(NULL, TUNING_WATCH_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, f->counter_file, 0);
    assert_true(f->counter != MAP_FAILED);
    assert_int_equal(fcntl(f->counter_file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    *f->counter = first;
}

int conv_find(struct conv_fixture *f)
{
    kiln_conv_result_free(KILN_TAKE(f->result));
    f->options.device = &f->device->base;
    return kiln_conv_find(f->client, &f->problem, &f->options, &f->result, &f->err);
}

int conv_tune(struct conv_fixture *f)
{
    kiln_conv_result_free(KILN_TAKE(f->result));
    f->options.device = &f->device->base;
    return kiln_conv_tune(f->client, &f->problem, &f->options, &f->result, &f->err);
}

struct kiln_conv_entry conv_entry(const struct conv_fixture *f, const char *solver)
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

struct kiln_conv_entry conv_at(const struct conv_fixture *f, unsigned index)
{
    struct kiln_conv_entry e = { .size = sizeof(e) };
    must(kiln_conv_result_entry(f->result, index, &e, NULL), f->err);
    return e;
}

unsigned conv_trials_in(const struct conv_fixture *f, int state)
{
    unsigned count = 0;
    for (unsigned i = 0; i < kiln_conv_result_trial_count(f->result); i++) {
        struct kiln_conv_entry e = { .size = sizeof(e) };
        must(kiln_conv_result_trial(f->result, i, &e, NULL), f->err);
        count += e.state == state;
    }
    return count;
}

const struct conv_put *conv_put_of(const struct conv_fixture *f, uint8_t kind, const char *solver)
{
    for (unsigned i = 0; i < f->put_count; i++) {
        if (f->puts[i].kind == kind && strcmp(f->puts[i].solver, solver) == 0)
            return &f->puts[i];
    }
    return NULL;
}
