/* SPDX-License-Identifier: MIT */
#include "engine/service/internal.h"
#include "engine/service/requests/plan_choose.h"
#include "engine/solver/candidates.h"

/* Maximum number of candidates that one request checks. Checking them takes 0.5 to 2.4 ms
 * (measured), and the answer has at most 430 kB. */
#define POINTS_MAX 4096u

struct configs_request {
    struct deferred base;
    struct problem problem;
    struct target target;
    const struct solver *solver;
    uint32_t first, end;
    uint32_t next;
    uint32_t count;
    struct buffer records;
};

static void release_configs(struct deferred *d)
{
    buffer_done(&((struct configs_request *)d)->records);
}

static void put_candidate(struct configs_request *rq, uint32_t index,
                          const struct perf_config *config)
{
    char text[PERF_CONFIG_TEXT_MAX];
    perf_config_write(config, text);
    const struct message_candidate m = { .index = index, .config = bytes_of_text(text) };
    message_candidate_write(&rq->records, &m);
    rq->count++;
}

static void list_configs(struct deferred *d)
{
    struct configs_request *rq = (struct configs_request *)d;
    const struct perf_space space = solver_space(rq->solver, &rq->problem, &rq->target);
    const struct candidate_order order = candidate_order_of(rq->solver->name, &space);
    uint32_t end = rq->end - rq->first > POINTS_MAX ? rq->first + POINTS_MAX : rq->end;
    for (rq->next = rq->first; rq->next < end; rq->next++) {
        struct perf_config config;
        perf_space_at(&space, candidate_point(&order, rq->next), &config);
        if (rq->solver->config_is_valid(&rq->problem, &rq->target, &config))
            put_candidate(rq, rq->next, &config);
    }
}

static void send_candidates(struct deferred *d, struct caller *caller)
{
    const struct configs_request *rq = (const struct configs_request *)d;
    struct engine *e = d->engine;
    const struct message_candidates m = { .next = rq->next,
                                          .count = rq->count,
                                          .configs = buffer_view(&rq->records) };
    e->body.size = 0;
    e->body.failed = rq->records.failed;
    message_candidates_write(&e->body, &m);
    service_reply_body(e, caller, MESSAGE_candidates, d->request_id);
}

static const struct deferred_kind configs_kind = { .size = sizeof(struct configs_request),
                                                   .reply = send_candidates,
                                                   .release = release_configs };
static const struct deferred_step list_step = { .work_queue = WORK_QUEUE_READ,
                                                .work = list_configs };

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
                         "cannot list %u candidates from number %u on: %s has numbers 0 to %u for "
                         "this problem, and a request names at least one",
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
    struct configs_request *rq = deferred_create(&configs_kind, e, caller, header->request_id, err);
    if (!rq)
        return err->code;
    buffer_init(&rq->records, LIMIT_FRAME_BODY);
    rc = check_configs(caller, &m, rq, err);
    if (!rc)
        rc = deferred_enqueue(&rq->base, requests_queue(e->requests, QUEUE_SOLVER_QUESTIONS),
                              &list_step, err);
    return deferred_wait_or_destroy(&rq->base, rc);
}
