/* SPDX-License-Identifier: MIT */
/*
 * Each program of the plan is fetched as if a client had sent its source.
 */
#include "common/base/clock.h"
#include "engine/compile/kernel_key.h"
#include "engine/service/fleet/fleet_records.h"
#include "engine/service/kernels/built_in.h"
#include "engine/service/kernels/program_job.h"
#include "engine/service/kernels/toolchain_waits.h"
#include "engine/service/requests/plan_choose.h"
#include "engine/service/requests/results.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/service/tuning/tuning_validation.h"
#include "engine/solver/conv_generic.h"

#include <stdio.h>
#include <string.h>

/* A request that accepts generic kernels tries these plans in turn. Others only try PLAN_CHOSEN. */
enum plan_trial {
    PLAN_IF_STORED,         /* the chosen plan, if all its kernels are stored */
    PLAN_GENERIC_IF_STORED, /* generic kernels, if they are stored */
    PLAN_CHOSEN,            /* the chosen plan; missing kernels are compiled */
};

struct part {
    struct fetch_ticket ticket;
    struct plan_request *request;
    struct fetch_result result; /* valid once ready; the object is an owned reference */
};

struct plan_request {
    struct deferred base;
    uint64_t plan_ns;
    struct result_options result_options;
    enum priority priority;
    struct plan_choice choice;
    enum plan_trial trial;
    struct solution solution;
    struct problem problem;
    struct toolchain toolchain; /* a copy; without a compiler, only the name "package" is set */
    char toolchain_identity[PLAN_TOOLCHAIN_MAX];
    struct target target;
    struct plan_ids ids;
    bool use_packages;
    bool no_cache, has_named_solver, takes_generic;
    struct kiln_err why_not_compile; /* has a code if no compiler can build for the target */
    uint32_t remaining;
    struct part parts[LIMIT_PLAN_KERNELS];
};

static bool stop_plan(struct deferred *d)
{
    struct plan_request *rq = (struct plan_request *)d;
    for (uint32_t i = 0; i < rq->solution.program_count; i++)
        fetch_cancel(d->engine, &rq->parts[i].ticket);
    return true;
}

static void release_plan(struct deferred *d)
{
    struct plan_request *rq = (struct plan_request *)d;
    for (uint32_t i = 0; i < rq->solution.program_count; i++)
        object_unref(rq->parts[i].result.object);
}

static void write_arguments(struct buffer *out, const struct solution *s,
                            const struct solution_kernel *k)
{
    out->size = 0;
    for (uint32_t i = 0; i < k->argument_count; i++) {
        bool is_map = k->arguments[i].kind == ARGUMENT_TENSOR_MAP;
        struct message_plan_argument a = { .kind = (uint8_t)k->arguments[i].kind,
                                           .value = is_map ? 0 : k->arguments[i].value };
        message_plan_argument_write(out, &a);
    }
    for (uint32_t i = 0; i < k->argument_count; i++)
        if (k->arguments[i].kind == ARGUMENT_TENSOR_MAP)
            tensor_map_write(out, &s->maps[k->arguments[i].value]);
}

static void write_kernel(struct buffer *out, const struct solution *s,
                         const struct solution_kernel *k, struct buffer *arguments)
{
    write_arguments(arguments, s, k);
    struct message_plan_kernel m = {
        .name = bytes_of_text(k->name),
        .object = k->program,
        .grid_x = k->grid[0],
        .grid_y = k->grid[1],
        .grid_z = k->grid[2],
        .group_x = k->group[0],
        .group_y = k->group[1],
        .group_z = k->group[2],
        .shared_bytes = k->shared_bytes,
        .argument_count = k->argument_count,
        .arguments = buffer_view(arguments),
    };
    message_plan_kernel_write(out, &m);
    out->failed |= arguments->failed;
}

static void send_plan(struct deferred *d, struct caller *caller)
{
    struct plan_request *rq = (struct plan_request *)d;
    struct engine *e = d->engine;
    const struct solution *s = &rq->solution;
    BUFFER_AUTO struct buffer kernels, arguments;
    buffer_init(&kernels, LIMIT_FRAME_BODY);
    buffer_init(&arguments, LIMIT_FRAME_BODY);
    for (uint32_t i = 0; i < s->kernel_count; i++)
        write_kernel(&kernels, s, &s->kernels[i], &arguments);

    struct result_list list;
    result_list_begin(&list, e, caller);
    for (uint32_t i = 0; i < s->program_count; i++) {
        rq->result_options.index = i;
        result_list_add(&list, &rq->result_options, &rq->parts[i].result);
    }
    char config[PERF_CONFIG_TEXT_MAX];
    bool is_generic = rq->trial == PLAN_GENERIC_IF_STORED;
    perf_config_write(&s->config, config);
    struct message_planned m = {
        .solver = bytes_of_text(s->solver->name),
        .config = bytes_of_text(config),
        .source = (uint8_t)(is_generic ? PLAN_SOURCE_GENERIC : rq->choice.source),
        .expected_ms = tuning_bits_of(is_generic ? 0 : rq->choice.expected_ms),
        .toolchain = bytes_of_text(rq->toolchain.name),
        .toolchain_identity = bytes_of_text(rq->toolchain_identity),
        .workspace_size = s->workspace_size,
        .plan_ns = rq->plan_ns,
        .kernel_count = s->kernel_count,
        .kernels = buffer_view(&kernels),
        .object_count = list.count,
        .objects = result_list_records(&list),
    };
    e->body.size = 0;
    e->body.failed = e->records.failed || kernels.failed;
    message_planned_write(&e->body, &m);
    if (e->body.failed) {
        service_refuse_unbuilt(e, caller, rq->base.request_id);
        result_list_done(&list);
        return;
    }
    struct reply reply = {
        .type = MESSAGE_planned,
        .request_id = rq->base.request_id,
        .body = buffer_view(&e->body),
        .objects = list.objects,
        .object_count = list.object_count,
    };
    caller->ops->reply(caller, &reply);
    result_list_done(&list);
}

static const struct deferred_kind plan_kind = { .size = sizeof(struct plan_request),
                                                .reply = send_plan,
                                                .stop = stop_plan,
                                                .release = release_plan };

static void explain_unmet_plan(struct engine *e, const struct plan_request *rq,
                               struct kiln_err *err)
{
    const struct unmet_plan plan = { .problem = &rq->problem,
                                     .target = &rq->target,
                                     .database_id = rq->ids.package,
                                     .has_named_solver = rq->has_named_solver };
    built_in_explain(e, &plan, err);
}

/* Refuses the request, and cancels the fetches of the plan's other programs. */
static void fail_plan(struct plan_request *rq, const struct kiln_err *why, const char *log)
{
    struct engine *e = rq->base.engine;
    struct kiln_err err = *why;
    if (why->code == KILN_NOT_FOUND && rq->why_not_compile.code) {
        err = rq->why_not_compile;
        if (!built_in_exists(e))
            kiln_while(&err, "no package has it, and it cannot be compiled");
        explain_unmet_plan(e, rq, &err);
    }
    kiln_while(&err, "solver %s for %s", rq->solution.solver->name, rq->target.text);
    deferred_fail(&rq->base, &err, log);
}

static void try_next(struct plan_request *rq);

/* Keeps the result of one program. Returns true if the plan's other programs need not be fetched:
 * all results are there, or the request has failed or tries another plan. */
static bool take_result(struct part *part, const struct fetch_result *result)
{
    struct plan_request *rq = part->request;
    if (result->err.code && rq->trial < PLAN_CHOSEN) {
        try_next(rq);
        return true;
    }
    if (result->err.code) {
        fail_plan(rq, &result->err, result->log);
        return true;
    }
    part->result = *result;
    part->result.log = NULL;
    object_ref(part->result.object);
    if (--rq->remaining > 0)
        return false;
    deferred_end(&rq->base);
    return true;
}

static void part_ready(struct fetch_ticket *ticket, const struct fetch_result *result)
{
    take_result((struct part *)ticket, result);
}

struct name_texts {
    struct buffer name, args;
};

static void name_texts_done(struct name_texts *texts)
{
    buffer_done(&texts->name);
    buffer_done(&texts->args);
}

static enum kiln_code name_program(const struct plan_request *rq, const struct program_job *p,
                                   struct name_texts *texts, struct kernel_name *ret_name,
                                   struct kiln_err *err)
{
    struct package_source source = program_job_source(&p->job);
    enum kiln_code rc = package_kernel_name(&source, &texts->name, err);
    if (!rc)
        rc = package_kernel_args(&source, &rq->target, &texts->args, err);
    *ret_name = (struct kernel_name){ .database_id = bytes_of_text(rq->ids.package),
                                      .name = buffer_view(&texts->name),
                                      .args = buffer_view(&texts->args),
                                      .target = bytes_of_text(rq->target.text) };
    return rc;
}

static bool begin_fetch(struct plan_request *rq, const struct program_job *p,
                        const struct kernel_name *name, struct part *part,
                        struct fetch_result *ret_result)
{
    bool has_compiler = !rq->why_not_compile.code;
    bool compiles = has_compiler && rq->trial == PLAN_CHOSEN;
    struct fetch_options want = {
        .job = compiles ? &p->job : NULL,
        .tc = compiles ? &rq->toolchain : NULL,
        .name = rq->use_packages ? name : NULL,
        .only_stored = rq->trial != PLAN_CHOSEN,
        .no_cache = rq->no_cache,
    };
    if (!compiles)
        want.key = has_compiler ? kernel_key(&p->job, &rq->toolchain.identity)
                                : kernel_name_packaged(name);
    return fetch_begin(rq->base.engine, &want, &part->ticket, ret_result);
}

static enum kiln_code begin_part(struct plan_request *rq, uint32_t index, bool *ret_ended,
                                 struct kiln_err *err)
{
    struct part *part = &rq->parts[index];
    PROGRAM_JOB_AUTO struct program_job p = { 0 };
    __attribute__((cleanup(name_texts_done))) struct name_texts texts;
    buffer_init(&texts.name, LIMIT_OPTIONS_TEXT);
    buffer_init(&texts.args, 2 * LIMIT_OPTIONS_TEXT);
    struct kernel_name name = { 0 };
    enum kiln_code rc =
        program_job_make(&rq->solution.programs[index], &rq->target, &rq->toolchain, &p, err);
    if (!rc && rq->use_packages)
        rc = name_program(rq, &p, &texts, &name, err);
    if (rc)
        return rc;
    part->request = rq;
    part->ticket.uid = rq->base.caller->uid;
    part->ticket.priority = rq->priority;
    part->ticket.no_object = rq->result_options.no_object;
    part->ticket.is_trial = rq->trial != PLAN_CHOSEN;
    part->ticket.ready = part_ready;
    struct fetch_result result;
    if (begin_fetch(rq, &p, &name, part, &result))
        *ret_ended = take_result(part, &result);
    return KILN_OK;
}

/* Finds the toolchain. Returns KILN_OK even if no compiler is suitable, because a package may have
 * the kernels. */
static enum kiln_code ask_for_toolchain(struct deferred *d)
{
    struct plan_request *rq = (struct plan_request *)d;
    struct reader r = reader_of(d->body);
    const struct message_plan m = message_plan_read(&r);
    const struct toolchain *tc = NULL;
    enum kiln_code rc = toolchains_resolve(d, &rq->target, m.toolchain, &tc, &rq->why_not_compile);
    if (rc == KILN_BUSY)
        return rc;
    rq->use_packages = !rq->no_cache && m.toolchain.size == 0 && !(m.flags & PLAN_NO_PACKAGES) &&
                       package_set_covers(d->engine->packages, bytes_of_text(rq->ids.package));
    if (rc) {
        snprintf(rq->toolchain.name, sizeof(rq->toolchain.name), "package");
        return KILN_OK;
    }
    rq->toolchain = *tc;
    plan_toolchain_write(tc, rq->toolchain_identity);
    return KILN_OK;
}

static enum kiln_code choose_solver(struct plan_request *rq, const struct message_plan *m,
                                    struct kiln_err *err)
{
    struct engine *e = rq->base.engine;
    char driver[TUNING_ORIGIN_TEXT];
    enum kiln_code rc = tuning_text_take("driver", m->driver, sizeof(driver), driver, err);
    if (rc)
        return rc;
    const struct plan_options options = { .problem = &rq->problem,
                                          .target = &rq->target,
                                          .solver = m->solver,
                                          .config = m->config,
                                          .database_id = rq->ids.device,
                                          .driver = driver,
                                          .toolchain = rq->toolchain_identity,
                                          .uid = (uint32_t)rq->base.uid,
                                          .by_heuristic = m->flags & PLAN_HEURISTIC,
                                          .nearest = m->flags & PLAN_NEAREST };
    rc = plan_choose(tuning_databases(e), &options, &rq->choice, err);
    if (!rc)
        rc = solver_solve(&rq->problem, &rq->target, &rq->choice.chosen, &rq->solution, err);
    return rc;
}

/* Makes the plan. Runs when the toolchain is known, because the choice of records may depend on it.
 * If no solver can solve the problem, the message says so, even if there is also no compiler for
 * the target. */
static enum kiln_code make_plan(struct plan_request *rq)
{
    struct deferred *d = &rq->base;
    struct reader r = reader_of(d->body);
    const struct message_plan m = message_plan_read(&r);
    uint64_t began = clock_monotonic_ns();
    enum kiln_code rc = choose_solver(rq, &m, &d->err);
    if (rc)
        return rc;
    if (rq->why_not_compile.code && !rq->use_packages) {
        d->err = rq->why_not_compile;
        explain_unmet_plan(d->engine, rq, &d->err);
        return d->err.code;
    }
    d->engine->stats.plans_recorded +=
        rq->choice.source != PLAN_SOURCE_FORCED && rq->choice.source != PLAN_SOURCE_HEURISTIC;
    rq->plan_ns = clock_monotonic_ns() - began;
    histogram_observe(&d->engine->metrics.plan, rq->plan_ns, 1);
    return KILN_OK;
}

static void begin_parts(struct plan_request *rq)
{
    rq->remaining = rq->solution.program_count;
    bool ended = false;
    for (uint32_t i = 0, count = rq->remaining; i < count && !ended; i++) {
        struct kiln_err err = KILN_ERR_INIT;
        if (begin_part(rq, i, &ended, &err)) {
            fail_plan(rq, &err, NULL);
            ended = true;
        }
    }
}

/* Tries the next plan, because a kernel of this one is not stored. */
static void try_next(struct plan_request *rq)
{
    const struct solver_choice generic = { .solver = bytes_of_text(solver_conv_generic.name) };
    struct kiln_err err = KILN_ERR_INIT;
    stop_plan(&rq->base);
    release_plan(&rq->base);
    memset(rq->parts, 0, sizeof(rq->parts));
    rq->trial++;
    if (rq->trial == PLAN_GENERIC_IF_STORED &&
        solver_solve(&rq->problem, &rq->target, &generic, &rq->solution, &err))
        rq->trial = PLAN_CHOSEN;
    if (rq->trial == PLAN_CHOSEN) {
        err = KILN_ERR_INIT;
        if (solver_solve(&rq->problem, &rq->target, &rq->choice.chosen, &rq->solution, &err)) {
            fail_plan(rq, &err, NULL);
            return;
        }
    }
    begin_parts(rq);
}

/* Generic kernels stand in for a choice of kiln, but not for a solver that the client named. */
static enum plan_trial first_trial(const struct plan_request *rq)
{
    return rq->takes_generic && !rq->has_named_solver && !rq->no_cache ? PLAN_IF_STORED
                                                                       : PLAN_CHOSEN;
}

static enum kiln_code answer_plan(struct deferred *d)
{
    struct plan_request *rq = (struct plan_request *)d;
    enum kiln_code rc = make_plan(rq);
    rq->trial = first_trial(rq);
    if (!rc)
        begin_parts(rq);
    return rc;
}

static const struct toolchain_need plan_need = { .ask = ask_for_toolchain, .answer = answer_plan };

static enum kiln_code read_plan(struct plan_request *rq, const struct caller *caller,
                                const struct message_plan *m, struct kiln_err *err)
{
    rq->problem = m->problem;
    rq->priority = m->priority ? PRIORITY_PREFETCH : PRIORITY_INTERACTIVE;
    rq->result_options.inline_limit = m->inline_limit;
    rq->result_options.no_object = m->flags & FETCH_NO_OBJECT;
    rq->no_cache = m->flags & FETCH_NO_CACHE;
    rq->has_named_solver = m->solver.size > 0;
    rq->takes_generic = m->flags & PLAN_GENERIC;
    enum kiln_code rc = problem_check(&m->problem, err);
    if (!rc)
        rc = plan_target_take(caller->capabilities, m->target, &rq->target, err);
    if (!rc)
        rc = plan_ids_take(&rq->target, m->database_id, &rq->ids, err);
    if (!rc)
        rc = plan_ids_check(&rq->target, &rq->ids, err);
    if (!rc && rq->ids.device[0])
        fleet_records_want(rq->base.engine, rq->ids.device);
    return rc;
}

enum kiln_code handle_plan(struct engine *e, struct caller *caller,
                           const struct frame_header *header, struct bytes body,
                           struct kiln_err *err)
{
    struct reader r = reader_of(body);
    struct message_plan m = message_plan_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_plan, err);
    if (rc)
        return rc;
    struct plan_request *rq = deferred_create(&plan_kind, e, caller, header->request_id, err);
    if (!rq)
        return err->code;
    rc = deferred_wait_or_destroy(&rq->base, read_plan(rq, caller, &m, err));
    if (!rc)
        toolchains_need(&rq->base, &plan_need, body);
    return rc;
}
