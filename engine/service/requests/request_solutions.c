/* SPDX-License-Identifier: MIT */
/*
 * A work queue computes the workspaces, and counts the valid configs of each solver. In a large
 * tuning space, it estimates the count from a sample. The counts are cached.
 */
#include "engine/service/internal.h"
#include "engine/service/kernels/toolchain_waits.h"
#include "engine/service/requests/plan_choose.h"
#include "engine/service/requests/valid_counts.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/service/tuning/tuning_validation.h"
#include "engine/solver/candidates.h"

#include <stdio.h>

struct listed {
    const struct plan_known *known;
    char config[PERF_CONFIG_TEXT_MAX]; /* the config that the heuristic chooses */
    uint64_t workspace, best_workspace;
    uint32_t candidates;
    struct candidate_count valid;
    bool is_counted;
};

struct solutions_request {
    struct deferred base;
    struct problem problem;
    struct target target;
    struct plan_ids ids;
    char driver[TUNING_ORIGIN_TEXT], toolchain[PLAN_TOOLCHAIN_MAX];
    struct plan_known known[PLAN_SOLVERS_MAX];
    struct listed listed[PLAN_SOLVERS_MAX];
    unsigned count;
};

static bool is_favoured(const struct solutions_request *rq, const struct solver *solver)
{
    return !solver->is_favoured || solver->is_favoured(&rq->problem, &rq->target);
}

/* Sorts solvers with find records first, by their times. Then come those that the heuristic
 * favours, and then the others, in the order of solvers[]. */
static bool comes_before(const struct solutions_request *rq, const struct plan_known *a,
                         const struct plan_known *b)
{
    if (a->find_ms > 0 || b->find_ms > 0)
        return a->find_ms > 0 && (!(b->find_ms > 0) || plan_known_ms(a) < plan_known_ms(b));
    return is_favoured(rq, a->solver) && !is_favoured(rq, b->solver);
}

static void sort_by_preference(struct solutions_request *rq)
{
    for (unsigned i = 0; i < rq->count; i++) {
        unsigned at = i;
        for (; at > 0 && comes_before(rq, &rq->known[i], rq->listed[at - 1].known); at--)
            rq->listed[at] = rq->listed[at - 1];
        rq->listed[at] = (struct listed){ .known = &rq->known[i] };
    }
}

static enum kiln_code solve_with(const struct solutions_request *rq, const struct solver *solver,
                                 const char *config, struct solution *s, struct kiln_err *err)
{
    const struct solver_choice options = { .solver = bytes_of_text(solver->name),
                                           .config = bytes_of_text(config) };
    *s = (struct solution){ 0 };
    return solver_solve(&rq->problem, &rq->target, &options, s, err);
}

static enum kiln_code describe_solution(const struct solutions_request *rq, struct listed *l,
                                        struct solution *s, struct kiln_err *err)
{
    const struct solver *solver = l->known->solver;
    const struct perf_space space = solver_space(solver, &rq->problem, &rq->target);
    enum kiln_code rc = solve_with(rq, solver, "", s, err);
    if (rc)
        return rc;
    perf_config_write(&s->config, l->config);
    l->workspace = l->best_workspace = s->workspace_size;
    l->candidates = perf_space_size(&space);
    if (l->candidates > 0 && !l->is_counted)
        l->valid = candidates_count_valid(solver, &rq->problem, &rq->target);
    if (l->known->config[0])
        rc = solve_with(rq, solver, l->known->config, s, err);
    if (!rc)
        l->best_workspace = s->workspace_size;
    return rc;
}

static void describe_solutions(struct deferred *d)
{
    struct solutions_request *rq = (struct solutions_request *)d;
    KILN_AUTO(mem) struct solution *s = malloc(sizeof(*s));
    if (!s)
        d->rc = kiln_fail(&d->err, KILN_NO_MEMORY, "cannot solve the problem");
    for (unsigned i = 0; !d->rc && i < rq->count; i++)
        d->rc = describe_solution(rq, &rq->listed[i], s, &d->err);
}

static void put_solution(const struct solutions_request *rq, const struct listed *l,
                         struct buffer *to)
{
    static const char *const algorithms[] = {
        [DIRECTION_FORWARD] = "miopenConvolutionFwdAlgo",
        [DIRECTION_BACKWARD_DATA] = "miopenConvolutionBwdDataAlgo",
        [DIRECTION_BACKWARD_WEIGHTS] = "miopenConvolutionBwdWeightsAlgo",
    };
    const struct solver *solver = l->known->solver;
    char algorithm[128];
    snprintf(algorithm, sizeof(algorithm), "%s%s", algorithms[rq->problem.direction],
             solver->algorithm);
    const struct message_solution m = {
        .solver = bytes_of_text(solver->name),
        .algorithm = bytes_of_text(algorithm),
        .flags = (uint8_t)((is_favoured(rq, solver) ? SOLUTION_FAVOURED : 0) |
                           (l->valid.is_estimate ? SOLUTION_ESTIMATED : 0)),
        .find_ms = tuning_bits_of(l->known->find_ms),
        .config = bytes_of_text(l->config),
        .workspace = l->workspace,
        .best_config = bytes_of_text(l->known->config),
        .best_ms = tuning_bits_of(l->known->config_ms),
        .best_workspace = l->best_workspace,
        .candidates = l->candidates,
        .valid = l->valid.valid,
    };
    message_solution_write(to, &m);
}

static void send_solved(struct deferred *d, struct caller *caller)
{
    const struct solutions_request *rq = (const struct solutions_request *)d;
    struct engine *e = d->engine;
    buffer_clear(&e->records);
    buffer_clear(&e->body);
    for (unsigned i = 0; i < rq->count; i++)
        put_solution(rq, &rq->listed[i], &e->records);
    const struct message_solved m = { .count = rq->count, .solutions = buffer_view(&e->records) };
    e->body.failed = e->records.failed;
    message_solved_write(&e->body, &m);
    service_reply_body(e, caller, MESSAGE_solved, d->request_id);
}

static void keep_counts(const struct solutions_request *rq)
{
    for (unsigned i = 0; i < rq->count; i++) {
        const struct listed *l = &rq->listed[i];
        const struct valid_count count = { l->known->solver, rq->problem, rq->target, l->valid };
        if (l->candidates > 0 && !l->is_counted)
            valid_counts_keep(rq->base.engine->valid_counts, &count);
    }
}

static void end_solutions(struct deferred *d)
{
    if (!d->rc)
        keep_counts((struct solutions_request *)d);
    deferred_end(d);
}

static const struct deferred_kind solutions_kind = { .size = sizeof(struct solutions_request),
                                                     .reply = send_solved };
static const struct deferred_step describe_step = { .work_queue = WORK_QUEUE_READ,
                                                    .work = describe_solutions,
                                                    .done = end_solutions };

/* Finds the toolchain. Returns KILN_OK even if there is no compiler: then no record counts as stale
 * because of its toolchain. */
static enum kiln_code ask_for_toolchain(struct deferred *d)
{
    struct solutions_request *rq = (struct solutions_request *)d;
    struct reader r = reader_of(d->body);
    const struct message_solutions m = message_solutions_read(&r);
    const struct toolchain *tc = NULL;
    enum kiln_code rc = toolchains_resolve(d, &rq->target, m.toolchain, &tc, &d->err);
    if (!rc)
        plan_toolchain_write(tc, rq->toolchain);
    if (!rc || rc == KILN_BUSY || m.toolchain.size > 0)
        return rc;
    d->err = KILN_ERR_INIT;
    return KILN_OK;
}

static enum kiln_code look_up(struct solutions_request *rq, struct kiln_err *err)
{
    struct engine *e = rq->base.engine;
    const struct plan_options options = { .problem = &rq->problem,
                                          .target = &rq->target,
                                          .database_id = rq->ids.device,
                                          .driver = rq->driver,
                                          .toolchain = rq->toolchain,
                                          .uid = (uint32_t)rq->base.uid };
    rq->count = plan_known_of(tuning_databases(e), &options, rq->known);
    sort_by_preference(rq);
    for (unsigned i = 0; i < rq->count; i++) {
        struct listed *l = &rq->listed[i];
        l->is_counted = valid_counts_find(e->valid_counts, l->known->solver, &rq->problem,
                                          &rq->target, &l->valid);
    }
    return rq->count > 0 ? KILN_OK : solver_none(&rq->problem, &rq->target, err);
}

static enum kiln_code answer_solutions(struct deferred *d)
{
    struct request_queue *queue = requests_queue(d->engine->requests, QUEUE_SOLVER_QUESTIONS);
    enum kiln_code rc = look_up((struct solutions_request *)d, &d->err);
    return rc ? rc : deferred_enqueue(d, queue, &describe_step, &d->err);
}

static const struct toolchain_need solutions_need = { .ask = ask_for_toolchain,
                                                      .answer = answer_solutions };

static enum kiln_code read_solutions(struct solutions_request *rq, const struct caller *caller,
                                     const struct message_solutions *m, struct kiln_err *err)
{
    enum kiln_code rc = problem_check(&m->problem, err);
    rq->problem = m->problem;
    if (!rc)
        rc = plan_target_take(caller->capabilities, m->target, &rq->target, err);
    if (!rc)
        rc = plan_ids_take(&rq->target, m->database_id, &rq->ids, err);
    if (!rc)
        rc = plan_ids_check(&rq->target, &rq->ids, err);
    if (!rc)
        rc = tuning_text_take("driver", m->driver, sizeof(rq->driver), rq->driver, err);
    return rc;
}

enum kiln_code handle_solutions(struct engine *e, struct caller *caller,
                                const struct frame_header *header, struct bytes body,
                                struct kiln_err *err)
{
    struct reader r = reader_of(body);
    const struct message_solutions m = message_solutions_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_solutions, err);
    if (rc)
        return rc;
    struct solutions_request *rq =
        deferred_create(&solutions_kind, e, caller, header->request_id, err);
    if (!rq)
        return err->code;
    rc = deferred_wait_or_destroy(&rq->base, read_solutions(rq, caller, &m, err));
    if (!rc)
        toolchains_need(&rq->base, &solutions_need, body);
    return rc;
}
