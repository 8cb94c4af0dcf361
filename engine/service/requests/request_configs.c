/* SPDX-License-Identifier: MIT */
/* The request configs: a range of a solver's candidates, those that are valid. */
#include "engine/service/requests/plan_choose.h"
#include "engine/service/requests/solver_turns.h"
#include "engine/solver/candidates.h"

/* Points that one answer looks at: 0.5 to 2.4 ms on a lane, as measured, and 430 kB at most. */
#define POINTS_MOST 4096u

struct configs_request {
    struct service_waiter waiter; /* first member */
    struct solver_turn turn;
    struct engine *engine;
    struct problem problem;
    struct target target;
    const struct solver *solver;
    uint32_t first, end; /* candidates first .. end - 1 */
    uint32_t next;       /* as far as was looked */
    uint32_t count;      /* of records */
    struct buffer records;
};

static void configs_destroy(struct configs_request *rq)
{
    service_waiter_remove(&rq->waiter);
    buffer_done(&rq->records);
    free(rq);
}

static struct configs_request *request_of(struct task *task)
{
    return (struct configs_request *)(void *)((char *)task -
                                              offsetof(struct configs_request, turn.task));
}

static void cancel_configs(struct service_waiter *w)
{
    struct configs_request *rq = (struct configs_request *)w;
    service_waiter_remove(w);
    if (solver_turn_withdraw(&rq->turn))
        configs_destroy(rq);
} /* else freed in done */

static void put_candidate(struct configs_request *rq, uint32_t index,
                          const struct perf_config *config)
{
    char text[PERF_CONFIG_TEXT_MOST];
    perf_config_write(config, text);
    const struct message_candidate m = { .index = index, .config = bytes_of_text(text) };
    message_candidate_write(&rq->records, &m);
    rq->count++;
}

static void configs_work(struct task *task)
{
    struct configs_request *rq = request_of(task);
    const struct perf_space space = solver_space(rq->solver, &rq->problem, &rq->target);
    const struct candidate_order order = candidate_order_of(rq->solver->name, &space);
    uint32_t end = rq->end - rq->first > POINTS_MOST ? rq->first + POINTS_MOST : rq->end;
    for (rq->next = rq->first; rq->next < end; rq->next++) {
        struct perf_config config;
        perf_space_at(&space, candidate_point(&order, rq->next), &config);
        if (rq->solver->config_is_valid(&rq->problem, &rq->target, &config))
            put_candidate(rq, rq->next, &config);
    }
}

static void send_candidates(struct configs_request *rq)
{
    struct engine *e = rq->engine;
    struct caller *caller = rq->waiter.caller;
    const struct message_candidates m = { .next = rq->next,
                                          .count = rq->count,
                                          .configs = buffer_view(&rq->records) };
    e->body.size = 0;
    e->body.failed = rq->records.failed;
    message_candidates_write(&e->body, &m);
    if (e->body.failed) {
        const struct kiln_err why = { .code = KILN_NO_MEMORY, .text = "cannot build the answer" };
        service_refuse(e, caller, rq->waiter.request_id, &why, NULL);
        return;
    }
    const struct reply reply = { .type = MESSAGE_candidates,
                                 .request_id = rq->waiter.request_id,
                                 .body = buffer_view(&e->body) };
    caller->ops->reply(caller, &reply);
}

static void configs_done(struct task *task)
{
    struct configs_request *rq = request_of(task);
    solver_turn_ended(&rq->turn);
    if (rq->waiter.caller)
        send_candidates(rq);
    configs_destroy(rq);
}

static enum kiln_code check_range(const struct message_configs *m, struct configs_request *rq,
                                  struct kiln_err *err)
{
    const struct perf_space space = solver_space(rq->solver, &rq->problem, &rq->target);
    uint32_t candidates = perf_space_size(&space);
    if (candidates == 0)
        return kiln_fail(err, KILN_INVALID, "%s has nothing to tune for this problem",
                         rq->solver->name);
    if (m->count == 0 || m->first >= candidates || m->count > candidates - m->first)
        return kiln_fail(err, KILN_INVALID,
                         "%u candidates from %u on: %s has 0 to %u for this problem, and at least "
                         "one must be asked for",
                         (unsigned)m->count, (unsigned)m->first, rq->solver->name,
                         (unsigned)candidates - 1);
    rq->first = m->first;
    rq->end = m->first + m->count;
    return KILN_OK;
}

static enum kiln_code check_configs(const struct caller *caller, const struct message_configs *m,
                                    struct configs_request *rq, struct kiln_err *err)
{
    enum kiln_code rc = problem_check(&m->problem, err);
    rq->problem = m->problem;
    if (!rc)
        rc = plan_target_take(caller->capabilities, m->target, &rq->target, err);
    if (!rc)
        rc = solver_take(&rq->problem, &rq->target, m->solver, &rq->solver, err);
    return rc ? rc : check_range(m, rq, err);
}

enum kiln_code handle_configs(struct engine *e, struct caller *caller,
                              const struct frame_header *header, struct bytes body,
                              struct kiln_err *err)
{
    struct reader r = reader_of(body);
    const struct message_configs m = message_configs_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_configs, err);
    if (rc)
        return rc;
    KILN_AUTO(mem) struct configs_request *rq = calloc(1, sizeof(*rq));
    if (!rq)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request");
    rc = check_configs(caller, &m, rq, err);
    if (rc)
        return rc;
    buffer_init(&rq->records, LIMIT_FRAME_BODY);
    rq->engine = e;
    rq->turn.task = (struct task){ .work = configs_work, .done = configs_done };
    rc = solver_turn_add(e, caller->uid, &rq->turn, err);
    if (rc)
        return rc;
    struct service_waiter *waiter = &KILN_TAKE(rq)->waiter;
    service_waiter_add(waiter, e, caller, header->request_id, cancel_configs);
    return KILN_OK;
}
