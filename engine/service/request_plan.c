/* SPDX-License-Identifier: MIT */
/*
 * The request plan: which solver, which kernels, launched how; and the kernels themselves.
 *
 * The solver says what to compile; every program of its solution is fetched like a client's own
 * source, so plans and fetches share the store, single flight and the memory of failures.
 */
#include "common/clock.h"
#include "engine/compile/options.h"
#include "engine/service/outcomes.h"
#include "engine/solver/solver.h"

struct part {                   /* one program of the plan */
    struct fetch_ticket ticket; /* first member */
    struct plan_request *request;
    struct fetch_result result; /* valid once ready; its object is an owned reference */
};

struct plan_request {
    struct service_waiter waiter; /* first member */
    uint64_t plan_ns;
    struct outcome_wish wish;
    enum priority priority;
    struct solution solution;
    struct toolchain toolchain; /* a copy */
    struct target target;
    uint32_t remaining;
    struct part parts[LIMIT_PLAN_KERNELS];
};

static void plan_end(struct plan_request *rq)
{
    for (uint32_t i = 0; i < rq->solution.program_count; i++)
        object_unref(rq->parts[i].result.object);
    service_waiter_remove(&rq->waiter);
    free(rq);
}

static void cancel_plan(struct service_waiter *w)
{
    struct plan_request *rq = (struct plan_request *)w;
    for (uint32_t i = 0; i < rq->solution.program_count; i++)
        fetch_cancel(w->engine, &rq->parts[i].ticket);
    plan_end(rq);
}

/* ---- the answer ---- */

static void write_kernel(struct buffer *out, const struct solution_kernel *k,
                         struct buffer *arguments)
{
    arguments->size = 0;
    for (uint32_t i = 0; i < k->argument_count; i++) {
        struct message_plan_argument a = { .kind = (uint8_t)k->arguments[i].kind,
                                           .value = k->arguments[i].value };
        message_plan_argument_write(arguments, &a);
    }
    struct message_plan_kernel m = {
        .name = bytes_of_text(k->name),
        .object = k->program,
        .grid_x = k->grid[0],
        .grid_y = k->grid[1],
        .grid_z = k->grid[2],
        .group_x = k->group[0],
        .group_y = k->group[1],
        .group_z = k->group[2],
        .argument_count = k->argument_count,
        .arguments = buffer_view(arguments),
    };
    message_plan_kernel_write(out, &m);
    out->failed |= arguments->failed;
}

static void send_plan(struct plan_request *rq)
{
    struct engine *e = rq->waiter.engine;
    struct caller *caller = rq->waiter.caller;
    const struct solution *s = &rq->solution;
    BUFFER_AUTO struct buffer kernels, arguments;
    buffer_init(&kernels, LIMIT_FRAME_BODY);
    buffer_init(&arguments, LIMIT_FRAME_BODY);
    for (uint32_t i = 0; i < s->kernel_count; i++)
        write_kernel(&kernels, &s->kernels[i], &arguments);

    struct outcome_list list;
    outcome_list_begin(&list, e, caller);
    for (uint32_t i = 0; i < s->program_count; i++) {
        rq->wish.index = i;
        outcome_list_add(&list, &rq->wish, &rq->parts[i].result);
    }
    struct message_planned m = {
        .solver = bytes_of_text(s->solver->name),
        .toolchain = bytes_of_text(rq->toolchain.name),
        .workspace_size = s->workspace_size,
        .plan_ns = rq->plan_ns,
        .kernel_count = s->kernel_count,
        .kernels = buffer_view(&kernels),
        .object_count = list.count,
        .objects = outcome_list_records(&list),
    };
    e->body.size = 0;
    e->body.failed = e->records.failed || kernels.failed;
    message_planned_write(&e->body, &m);
    if (e->body.failed) {
        struct kiln_err why = { .code = KILN_NO_MEMORY, .text = "cannot build the answer" };
        service_refuse(e, caller, rq->waiter.request_id, &why, NULL);
        outcome_list_done(&list);
        return;
    }
    struct reply reply = {
        .type = MESSAGE_planned,
        .request_id = rq->waiter.request_id,
        .body = buffer_view(&e->body),
        .objects = list.objects,
        .object_count = list.object_count,
    };
    caller->ops->reply(caller, &reply);
    outcome_list_done(&list);
}

/* The other programs, if any, are of no use now. */
static void fail_plan(struct plan_request *rq, const struct kiln_err *why, const char *log)
{
    struct engine *e = rq->waiter.engine;
    struct caller *caller = rq->waiter.caller;
    uint64_t id = rq->waiter.request_id;
    struct kiln_err err = *why;
    kiln_while(&err, "solver %s for %s", rq->solution.solver->name, rq->target.text);
    service_refuse(e, caller, id, &err, log);
    cancel_plan(&rq->waiter);
}

/* Keeps the result; true when the request has ended. */
static bool take_result(struct part *part, const struct fetch_result *result)
{
    struct plan_request *rq = part->request;
    if (result->err.code) {
        fail_plan(rq, &result->err, result->log);
        return true;
    }
    part->result = *result;
    part->result.log = NULL;
    object_ref(part->result.object);
    if (--rq->remaining > 0)
        return false;
    send_plan(rq);
    plan_end(rq);
    return true;
}

static void part_ready(struct fetch_ticket *ticket, const struct fetch_result *result)
{
    take_result((struct part *)ticket, result);
}

/* ---- the question ---- */

static void write_headers(struct buffer *out, const struct solution_program *program)
{
    for (uint32_t i = 0; i < program->header_count; i++) {
        struct message_header h = { .name = bytes_of_text(program->header_names[i]),
                                    .text = program->header_texts[i] };
        message_header_write(out, &h);
    }
}

static enum kiln_code begin_part(struct plan_request *rq, uint32_t index, bool *ret_ended,
                                 struct kiln_err *err)
{
    struct engine *e = rq->waiter.engine;
    const struct solution_program *program = &rq->solution.programs[index];
    struct part *part = &rq->parts[index];
    BUFFER_AUTO struct buffer options, headers;
    buffer_init(&options, 2 * LIMIT_OPTIONS_TEXT);
    buffer_init(&headers, LIMIT_FRAME_BODY);
    enum kiln_code rc = options_canonicalise(bytes_of_text(program->options), &options, err);
    if (rc)
        return rc;
    write_headers(&headers, program);
    if (headers.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot gather the headers of '%s'", program->name);
    struct compile_job job = {
        .kind = COMPILE_KERNEL,
        .toolchain = bytes_of_text(rq->toolchain.name),
        .target = bytes_of_text(rq->target.text),
        .program = bytes_of_text(program->name),
        .options = buffer_view(&options),
        .source = program->source,
        .header_count = program->header_count,
        .headers = buffer_view(&headers),
    };
    part->request = rq;
    part->ticket.uid = rq->waiter.caller->uid;
    part->ticket.priority = rq->priority;
    part->ticket.ready = part_ready;
    struct fetch_result result;
    if (fetch_with_source(e, &job, &rq->toolchain, &part->ticket, &result))
        *ret_ended = take_result(part, &result);
    return KILN_OK;
}

static enum kiln_code check_plan(struct engine *e, uid_t uid, const struct message_plan *m,
                                 struct plan_request *rq, struct kiln_err *err)
{
    const struct toolchain *tc = NULL;
    enum kiln_code rc = problem_check(&m->problem, err);
    if (!rc)
        rc = target_parse(m->target, &rq->target, err);
    if (!rc)
        rc = solver_solve(&m->problem, &rq->target, m->solver, &rq->solution, err);
    if (!rc)
        rc = toolchains_resolve(e, uid, &rq->target, m->toolchain, &tc, err);
    if (!rc)
        rq->toolchain = *tc;
    return rc;
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

enum kiln_code handle_plan(struct engine *e, struct caller *caller,
                           const struct frame_header *header, struct bytes body,
                           struct kiln_err *err)
{
    uint64_t began = clock_monotonic_ns();
    struct reader r = reader_of(body);
    struct message_plan m = message_plan_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_plan, err);
    if (rc)
        return rc;
    KILN_AUTO(mem) struct plan_request *rq = calloc(1, sizeof(*rq));
    if (!rq)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep a plan");
    rc = check_plan(e, caller->uid, &m, rq, err);
    if (rc == KILN_BUSY)
        return toolchains_park(e, caller, header, body, err);
    if (rc)
        return rc;
    rq->priority = m.priority ? PRIORITY_PREFETCH : PRIORITY_INTERACTIVE;
    rq->wish.inline_limit = m.inline_limit;
    rq->wish.no_object = m.flags & FETCH_NO_OBJECT;
    rq->plan_ns = clock_monotonic_ns() - began;
    service_waiter_add(&rq->waiter, e, caller, header->request_id, cancel_plan);
    begin_parts(KILN_TAKE(rq));
    return KILN_OK;
}
