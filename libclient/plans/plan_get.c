/* SPDX-License-Identifier: MIT */
/* Requests plans in three ways: one plan; one plan for each of many problems; many plans for one
 * problem, one after the other. */
#include "common/miopen/tuning_text.h"
#include "libclient/client.h"
#include "libclient/plans/plan.h"
#include "libclient/plans/plan_window.h"
#include "libclient/plans/problem.h"
#include "libclient/sized.h"

#include <string.h>

/* Maximum number of requests that a batch submits at once.  The multiplexer holds back requests
 * that the daemon does not accept yet. */
#define WINDOW_MAX 512

/* ---- options ---- */

struct plan_request {
    struct bytes target, database_id, driver, toolchain, solver, config;
    uint8_t priority;
    bool without_objects;
    uint8_t record_flags; /* PLAN_HEURISTIC, ..., PLAN_NO_PACKAGES */
    int timeout_ms;
};

static enum kiln_code check_config(const struct plan_request *asked, struct kiln_err *err)
{
    if (asked->config.size > TUNING_WORD_MAX)
        return kiln_fail(err, KILN_INVALID,
                         "kiln_plan_options.config has %zu bytes, at most %u are allowed",
                         asked->config.size, TUNING_WORD_MAX);
    if (asked->config.size > 0 && asked->solver.size == 0)
        return kiln_fail(err, KILN_INVALID,
                         "kiln_plan_options.config belongs to one solver: name it in "
                         "kiln_plan_options.solver");
    return KILN_OK;
}

static enum kiln_code read_options(const struct kiln_plan_options *options,
                                   struct plan_request *ret_request, struct kiln_err *err)
{
    struct kiln_plan_options o;
    if (!options || !sized_is_fine(options->size, SIZED_TO(struct kiln_plan_options, no_objects)))
        return kiln_fail(err, KILN_INVALID,
                         "kiln_plan_options.size is not set: give it sizeof the struct");
    sized_copy(&o, sizeof(o), options, options->size);
    if (!o.target || !o.target[0])
        return kiln_fail(err, KILN_INVALID,
                         "kiln_plan_options.target is not set: use kiln_device_target() of the "
                         "device");
    *ret_request = (struct plan_request){
        .target = bytes_of_text(o.target),
        .database_id = bytes_of_text(o.database_id),
        .driver = bytes_of_text(o.driver),
        .toolchain = bytes_of_text(o.toolchain),
        .solver = bytes_of_text(o.solver),
        .config = bytes_of_text(o.config),
        .priority = o.priority == KILN_PREFETCH ? PRIORITY_PREFETCH : PRIORITY_INTERACTIVE,
        .without_objects = o.no_objects != 0,
        .record_flags =
            (uint8_t)((o.heuristic ? PLAN_HEURISTIC : 0) | (o.nearest ? PLAN_NEAREST : 0) |
                      (o.generic ? PLAN_GENERIC : 0) | (o.no_packages ? PLAN_NO_PACKAGES : 0)),
        .timeout_ms = o.timeout_ms,
    };
    return check_config(ret_request, err);
}

struct identity {
    struct bytes parts[7];
    uint8_t record_flags;
    uint8_t problem[PROBLEM_WIRE_SIZE];
};

static struct answer_identity identify_request(const struct problem *p,
                                               const struct plan_request *asked,
                                               struct identity *storage)
{
    struct buffer wire = { .data = storage->problem,
                           .capacity = sizeof(storage->problem),
                           .limit = sizeof(storage->problem) };
    problem_write(&wire, p);
    storage->parts[0] = buffer_view(&wire);
    storage->parts[1] = asked->target;
    storage->parts[2] = asked->database_id;
    storage->parts[3] = asked->driver;
    storage->parts[4] = asked->toolchain;
    storage->parts[5] = asked->solver;
    storage->record_flags = asked->record_flags;
    storage->parts[6] = bytes_of(&storage->record_flags, 1);
    return (struct answer_identity){ .kind = ANSWER_PLAN, .parts = storage->parts, .count = 7 };
}

/* Returns whether to cache the plan.  A search requests many plans with a forced config.  If these
 * plans were cached, they would evict the plans that the job uses.  (Generic plans are not cached
 * either, because kilnd may have better kernels at the next request.) */
static bool is_cacheable(const struct plan_request *asked)
{
    return !asked->without_objects && asked->config.size == 0;
}

static struct kiln_plan *get_cached(struct kiln_client *client, const struct problem *p,
                                    const struct plan_request *asked)
{
    struct identity storage;
    struct answer_identity identity = identify_request(p, asked, &storage);
    return is_cacheable(asked) ? answer_cache_get(client->cache, &identity) : NULL;
}

static void cache_plan(struct kiln_client *client, const struct plan_request *asked, uint64_t epoch,
                       struct kiln_plan *plan)
{
    struct identity storage;
    const struct plan_content *c = plan->content;
    struct answer_identity identity = identify_request(&c->problem, asked, &storage);
    size_t bytes = sizeof(*c) + c->launch_count * sizeof(c->launches[0]);
    for (uint32_t i = 0; i < c->object_count; i++)
        bytes += (size_t)c->objects[i].size;
    const struct answer answer = { .value = plan_again(plan),
                                   .ops = &plan_value_ops,
                                   .bytes = bytes };
    if (is_cacheable(asked) && c->source != PLAN_SOURCE_GENERIC)
        answer_cache_put_of_epoch(client->cache, epoch, &identity, &answer);
}

void plans_forget(struct kiln_client *client, const struct problem *problem)
{
    uint8_t storage[PROBLEM_WIRE_SIZE];
    struct buffer wire = { .data = storage, .capacity = sizeof(storage), .limit = sizeof(storage) };
    if (problem)
        problem_write(&wire, problem);
    answer_cache_forget(client->cache, ANSWER_PLAN, buffer_view(&wire));
}

static void write_request(struct buffer *frame, const struct kiln_client *client,
                          const struct problem *p, const struct plan_request *asked)
{
    struct message_plan m = {
        .problem = *p,
        .priority = asked->priority,
        .flags = (uint8_t)((asked->without_objects ? FETCH_NO_OBJECT : 0) |
                           (client->no_cache ? FETCH_NO_CACHE : 0) | asked->record_flags),
        .inline_limit = LIMIT_INLINE_OBJECT,
        .target = asked->target,
        .database_id = asked->database_id,
        .driver = asked->driver,
        .toolchain = asked->toolchain,
        .solver = asked->solver,
        .config = asked->config,
    };
    message_plan_write(frame, &m);
}

/* ---- one request ---- */

struct slot {
    struct request request;
    struct buffer frame;
    struct plan_question question;
    size_t index;
    uint64_t epoch;
    struct trace_plan traced;
    bool used;

    struct kiln_plan *plan;
    /* the code in kilnd's answer; if it is not KILN_OK, |failure| has the details */
    enum kiln_code code;
    struct failure failure;
};

static enum kiln_code accept_plan(struct request *request, const struct reply *reply,
                                  struct failure *failure)
{
    struct slot *s = request->context;
    bool damaged;
    s->code = plan_create(reply, &s->question, &s->plan, &damaged, &s->failure);
    if (!damaged && !reply_puts_off(reply, s->code))
        return KILN_OK;
    *failure = s->failure;
    s->failure.log = NULL;
    return s->code;
}

static void begin_note(struct slot *s, const struct kiln_client *client, const struct problem *p,
                       const struct plan_request *asked)
{
    const struct trace_request request = { .target = asked->target,
                                           .database_id = asked->database_id,
                                           .toolchain = asked->toolchain,
                                           .solver = asked->solver,
                                           .is_prefetch = asked->priority == PRIORITY_PREFETCH };
    if (client->trace && is_cacheable(asked))
        trace_plan_begin(client->trace, p, &request, &s->traced);
}

static void end_note(const struct slot *s, struct kiln_client *client)
{
    if (client->trace)
        trace_plan_end(client->trace, &s->traced, s->request.code || s->code ? NULL : s->plan);
}

static void slot_begin(struct slot *s, struct kiln_client *client, const struct problem *p,
                       const struct plan_request *asked, struct waiter *waiter)
{
    *s = (struct slot){ .question = { .problem = *p,
                                      .target = asked->target,
                                      .without_objects = asked->without_objects },
                        .epoch = answer_cache_epoch(client->cache),
                        .used = true,
                        .failure = FAILURE_INIT };
    client_frame_init(&s->frame);
    write_request(&s->frame, client, p, asked);
    s->request = (struct request){ .type = MESSAGE_plan,
                                   .frame = &s->frame,
                                   .waiter = waiter,
                                   .accept = accept_plan,
                                   .context = s };
    begin_note(s, client, p, asked);
}

static void slot_done(struct slot *s)
{
    buffer_done(&s->frame);
    failure_done(&s->failure);
    failure_done(&s->request.failure);
    plan_destroy(s->plan);
    s->plan = NULL;
    trace_plan_done(&s->traced);
    s->used = false;
}

static enum kiln_code get_plan(struct kiln_client *client, const struct problem *p,
                               const struct plan_request *asked, struct kiln_plan **ret_plan,
                               struct failure *failure)
{
    uint64_t deadline_ns;
    enum kiln_code rc = client_enter(client, asked->timeout_ms, &deadline_ns, &failure->err);
    if (rc)
        return rc;
    *ret_plan = get_cached(client, p, asked);
    if (*ret_plan)
        return KILN_OK;
    WAITER_AUTO struct waiter waiter;
    waiter_init(&waiter);
    __attribute__((cleanup(slot_done))) struct slot slot;
    slot_begin(&slot, client, p, asked, &waiter);
    rc = multiplexer_call(client->multiplexer, &slot.request, deadline_ns);
    end_note(&slot, client);
    struct failure *why = rc ? &slot.request.failure : &slot.failure;
    if (!rc)
        rc = slot.code;
    if (rc) {
        *failure = *why;
        why->log = NULL;
        return rc;
    }
    cache_plan(client, asked, slot.epoch, slot.plan);
    *ret_plan = KILN_TAKE(slot.plan);
    return KILN_OK;
}

int kiln_plan_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_plan_options *options, struct kiln_plan **ret_plan,
                  struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    struct kiln_plan *plan = NULL;
    struct plan_request asked;
    struct problem p;
    if (!ret_plan)
        return error_argument(err, "kiln_plan_get needs a pointer for the plan");
    enum kiln_code rc = read_options(options, &asked, &f.err);
    if (!rc)
        rc = problem_from_public(problem, &p, &f.err);
    if (!rc)
        rc = get_plan(client, &p, &asked, &plan, &f);
    if (!rc)
        *ret_plan = plan;
    return failure_return(&f, rc, err);
}

/* ---- many ---- */

struct plan_batch {
    struct kiln_client *client;
    const struct kiln_problem *problems;
    size_t count, next;
    struct plan_request asked;
    kiln_plan_ready *ready;
    void *context;
    bool stopped;
    struct waiter waiter;
    struct slot *slots;
    size_t slot_count, open;
};

static void report_plan(struct plan_batch *b, size_t index, struct kiln_plan *plan,
                        const struct failure *failure, enum kiln_code code)
{
    struct kiln_error error;
    if (code)
        failure_return(failure, code, &error);
    if (b->ready(b->context, index, plan, code ? &error : NULL))
        b->stopped = true;
}

static enum kiln_code begin_next(struct plan_batch *b, struct slot *s, struct kiln_err *err)
{
    size_t index = b->next++;
    struct problem p;
    struct failure f = FAILURE_INIT;
    enum kiln_code rc =
        problem_from_public(sized_at(b->problems, b->problems->size, index), &p, &f.err);
    __attribute__((cleanup(plan_auto))) struct kiln_plan *plan =
        rc ? NULL : get_cached(b->client, &p, &b->asked);
    if (rc || plan) {
        report_plan(b, index, plan, &f, rc);
        return KILN_OK;
    }
    slot_begin(s, b->client, &p, &b->asked, &b->waiter);
    s->index = index;
    b->open++;
    return multiplexer_submit(b->client->multiplexer, &s->request, err);
}

static enum kiln_code begin_some(struct plan_batch *b, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < b->slot_count && !rc; i++)
        while (!rc && !b->slots[i].used && b->next < b->count && !b->stopped)
            rc = begin_next(b, &b->slots[i], err);
    return rc;
}

static void report_slot(struct plan_batch *b, struct slot *s)
{
    enum kiln_code rc = s->request.code;
    end_note(s, b->client);
    const struct failure *why = rc ? &s->request.failure : &s->failure;
    if (!rc)
        rc = s->code;
    if (!rc)
        cache_plan(b->client, &b->asked, s->epoch, s->plan);
    report_plan(b, s->index, rc ? NULL : s->plan, why, rc);
}

static void report_ended(struct plan_batch *b)
{
    for (size_t i = 0; i < b->slot_count && !b->stopped; i++) {
        struct slot *s = &b->slots[i];
        if (!s->used || !s->request.ended)
            continue;
        report_slot(b, s);
        slot_done(s);
        b->open--;
    }
}

static enum kiln_code run_batch(struct plan_batch *b, uint64_t deadline_ns, struct kiln_err *err)
{
    enum kiln_code rc = begin_some(b, err);
    while (!rc && b->open && !b->stopped) {
        rc = multiplexer_wait_or_stop(b->client->multiplexer, &b->waiter, deadline_ns, err);
        report_ended(b);
        if (!rc)
            rc = begin_some(b, err);
    }
    if (!rc && b->stopped)
        rc = kiln_fail(err, KILN_CANCELLED,
                       "the callback stopped the batch after %zu of %zu problems",
                       b->next - b->open, b->count);
    return rc;
}

static void plan_batch_done(struct plan_batch *b)
{
    for (size_t i = 0; b->slots && i < b->slot_count; i++) {
        if (!b->slots[i].used)
            continue;
        multiplexer_abandon(b->client->multiplexer, &b->slots[i].request);
        slot_done(&b->slots[i]);
    }
    free(b->slots);
    waiter_done(&b->waiter);
}

static const char *batch_complaint(const struct kiln_plan_batch *batch)
{
    if (!batch || !sized_is_fine(batch->size, SIZED_TO(struct kiln_plan_batch, context)))
        return "kiln_plan_batch.size is not set: give it sizeof the struct";
    if (!batch->ready || (batch->count && !batch->problems))
        return "kiln_plan_batch needs problems and a callback";
    if (batch->count && batch->problems->size > SIZED_MAX)
        return "kiln_problem.size is not set: give it sizeof the struct";
    return NULL;
}

int kiln_plan_batch(struct kiln_client *client, const struct kiln_plan_batch *batch,
                    struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    uint64_t deadline_ns;
    const char *complaint = batch_complaint(batch);
    if (complaint)
        return error_argument(err, "%s", complaint);
    __attribute__((cleanup(plan_batch_done))) struct plan_batch b = { .client = client,
                                                                      .problems = batch->problems,
                                                                      .count = batch->count,
                                                                      .ready = batch->ready,
                                                                      .context = batch->context };
    waiter_init(&b.waiter);
    enum kiln_code rc = read_options(batch->options, &b.asked, &f.err);
    if (!rc)
        rc = client_enter(client, b.asked.timeout_ms, &deadline_ns, &f.err);
    if (rc)
        return failure_return(&f, rc, err);
    b.slot_count = b.count < WINDOW_MAX ? b.count : WINDOW_MAX;
    b.slots = calloc(b.slot_count + 1, sizeof(*b.slots));
    if (!b.slots)
        rc = kiln_fail(&f.err, KILN_NO_MEMORY, "no memory for %zu plans", b.count);
    if (!rc)
        rc = run_batch(&b, deadline_ns, &f.err);
    return failure_return(&f, rc, err);
}

/* ---- windows ---- */

struct plan_window {
    struct kiln_client *client;
    struct problem problem;
    struct waiter waiter;
    /* requests in flight: |limit| is the maximum, |open| the current number */
    unsigned limit, open;
    struct slot slots[];
};

enum kiln_code plan_window_create(struct kiln_client *client, const struct problem *problem,
                                  unsigned limit, struct plan_window **ret_window,
                                  struct kiln_err *err)
{
    struct plan_window *w = calloc(1, sizeof(*w) + limit * sizeof(w->slots[0]));
    if (!w)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %u plans", limit);
    w->client = client;
    w->problem = *problem;
    w->limit = limit;
    waiter_init(&w->waiter);
    *ret_window = w;
    return KILN_OK;
}

void plan_window_clear(struct plan_window *window)
{
    for (unsigned i = 0; i < window->limit; i++) {
        struct slot *s = &window->slots[i];
        if (!s->used)
            continue;
        multiplexer_abandon(window->client->multiplexer, &s->request);
        slot_done(s);
    }
    window->open = 0;
}

void plan_window_destroy(struct plan_window *window)
{
    if (!window)
        return;
    plan_window_clear(window);
    waiter_done(&window->waiter);
    free(window);
}

bool plan_window_is_full(const struct plan_window *window) { return window->open == window->limit; }

enum kiln_code plan_window_ask(struct plan_window *window, const struct kiln_plan_options *options,
                               size_t tag, struct kiln_err *err)
{
    struct plan_request asked;
    struct slot *s = window->slots;
    enum kiln_code rc = read_options(options, &asked, err);
    if (rc)
        return rc;
    while (s->used)
        s++;
    slot_begin(s, window->client, &window->problem, &asked, &window->waiter);
    s->index = tag;
    window->open++;
    return multiplexer_submit(window->client->multiplexer, &s->request, err);
}

static struct slot *ended_slot(struct plan_window *window)
{
    for (unsigned i = 0; i < window->limit; i++) {
        if (window->slots[i].used && window->slots[i].request.ended)
            return &window->slots[i];
    }
    return NULL;
}

/* Like report_slot(), but does not cache the plan, which is for one of many configs to try. */
static void return_slot(struct slot *s, struct planned *ret_planned, struct failure *failure)
{
    enum kiln_code rc = s->request.code ? s->request.code : s->code;
    struct failure *why = s->request.code ? &s->request.failure : &s->failure;
    *ret_planned = (struct planned){ .tag = s->index, .code = rc };
    if (rc) {
        failure_done(failure);
        *failure = *why;
        why->log = NULL;
    } else {
        ret_planned->plan = KILN_TAKE(s->plan);
    }
    slot_done(s);
}

enum kiln_code plan_window_next(struct plan_window *window, uint64_t deadline_ns,
                                struct planned *ret_planned, struct failure *failure)
{
    if (window->open == 0)
        return KILN_NOT_FOUND;
    struct slot *s = ended_slot(window);
    while (!s) {
        enum kiln_code rc = multiplexer_wait(window->client->multiplexer, &window->waiter,
                                             deadline_ns, &failure->err);
        s = ended_slot(window);
        if (rc && !s)
            return rc;
    }
    end_note(s, window->client);
    return_slot(s, ret_planned, failure);
    window->open--;
    return KILN_OK;
}
