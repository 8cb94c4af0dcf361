/* SPDX-License-Identifier: MIT */
/*
 * Which toolchain builds for a target, found out by asking a compiler process.
 *
 * A request whose toolchain is not known yet is parked: copied, and looked at again from the start
 * once the describe or probe that it waits for has ended.
 */
#include "common/clock.h"
#include "common/fs.h"
#include "engine/service/budget.h"
#include "engine/service/internal.h"

#include <stdio.h>
#include <string.h>

#define DESCRIPTION_MOST (64u << 10)
#define DESCRIBE_AGAIN_NS 10000000000u /* after a failure, not before ten seconds */
/* A package upgraded while we run is noticed within a minute of use.  What the new compiler makes
 * until then is filed under the old identity, which nobody asks for any more afterwards. */
#define DESCRIBE_FRESH_NS 60000000000u

struct parked {
    struct service_waiter waiter; /* first member */
    struct parked *next, *previous;
    uid_t uid; /* charged for the body */
    struct frame_header header;
    size_t body_size;
    uint8_t body[];
};

/* A describe (no target) or a probe under way. */
struct probe {
    struct compile_order order; /* first member */
    struct engine *engine;
    struct probe *next;
    struct toolchain tc; /* a copy: the table may change meanwhile */
    struct target target;
};

/* ---- parked requests ---- */

static void unpark(struct parked *p)
{
    struct engine *e = p->waiter.engine;
    *(p->previous ? &p->previous->next : &e->parked) = p->next;
    if (p->next)
        p->next->previous = p->previous;
    service_waiter_remove(&p->waiter);
}

static void parked_destroy(struct engine *e, struct parked *p)
{
    budget_give(e->budget, p->uid, p->body_size);
    free(p);
}

static void cancel_parked(struct service_waiter *w)
{
    struct parked *p = (struct parked *)w;
    unpark(p);
    parked_destroy(w->engine, p);
}

enum kiln_code toolchains_park(struct engine *e, struct caller *caller,
                               const struct frame_header *header, struct bytes body,
                               struct kiln_err *err)
{
    enum kiln_code rc = budget_take(e->budget, caller->uid, body.size, err);
    if (rc)
        return rc;
    struct parked *p = calloc(1, sizeof(*p) + body.size);
    if (!p) {
        budget_give(e->budget, caller->uid, body.size);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep a request of %zu bytes", body.size);
    }
    p->uid = caller->uid;
    p->header = *header;
    p->body_size = body.size;
    if (body.size)
        memcpy(p->body, body.data, body.size);
    p->next = e->parked;
    if (p->next)
        p->next->previous = p;
    e->parked = p;
    service_waiter_add(&p->waiter, e, caller, header->request_id, cancel_parked);
    return KILN_OK;
}

/* Looks at every parked request again; some may be parked anew. */
static void retry_parked(struct engine *e)
{
    struct parked *list = e->parked;
    e->parked = NULL;
    while (list) {
        struct parked *p = list;
        list = p->next;
        p->next = p->previous = NULL;
        struct caller *caller = p->waiter.caller;
        service_waiter_remove(&p->waiter);
        service_handle_again(e, caller, &p->header, bytes_of(p->body, p->body_size));
        parked_destroy(e, p);
    }
}

/* ---- describe and probe ---- */

static void end_probe(struct probe *p)
{
    struct engine *e = p->engine;
    struct probe **at = &e->probes;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    compile_outcome_done(&p->order.task.outcome);
    free(p);
    retry_parked(e);
}

static enum kiln_code start(struct engine *e, struct probe *p, enum compile_kind kind,
                            void (*done)(struct compile_order *), struct kiln_err *err)
{
    p->engine = e;
    p->order.uid = (uid_t)-1; /* nobody's turn */
    p->order.priority = PRIORITY_INTERACTIVE;
    p->order.done = done;
    p->order.task.job = (struct compile_job){
        .kind = kind,
        .toolchain = bytes_of_text(p->tc.name),
        .target = bytes_of_text(p->target.text),
    };
    enum kiln_code rc = compile_queue_submit(e->queue, &p->order, err);
    if (rc)
        return rc;
    p->next = e->probes;
    e->probes = p;
    return KILN_OK;
}

static enum kiln_code read_description(struct engine *e, const struct compile_outcome *outcome,
                                       struct kiln_err *err)
{
    if (outcome->end != COMPILE_DONE) {
        *err = outcome->err;
        return err->code;
    }
    BUFFER_AUTO struct buffer json;
    buffer_init(&json, DESCRIPTION_MOST);
    enum kiln_code rc = fs_read_fd(outcome->object_fd, DESCRIPTION_MOST, &json, err);
    if (!rc)
        rc = toolchain_table_describe(e->toolchains, buffer_view(&json), err);
    return rc;
}

static void learn_stored(void *context, const struct digest *id, const char *target, bool works,
                         const char *detail)
{
    struct engine *e = context;
    struct kiln_err ignored = KILN_ERR_INIT;
    struct target parsed;
    if (target_parse(bytes_of_text(target), &parsed, &ignored))
        return; /* written by a newer kiln: asked for again when needed */
    for (size_t i = 0; i < toolchain_table_count(e->toolchains); i++) {
        const struct toolchain *tc = toolchain_table_at(e->toolchains, i);
        if (digest_equal(&tc->identity, id))
            toolchain_probe_learn(e->toolchains, tc, &parsed, works ? PROBE_WORKS : PROBE_FAILS,
                                  detail);
    }
}

static void describe_done(struct compile_order *order)
{
    struct probe *p = (struct probe *)order;
    struct engine *e = p->engine;
    struct kiln_err err = KILN_ERR_INIT;
    if (read_description(e, &order->task.outcome, &err)) {
        kiln_while(&err, "asking which toolchains are here");
        event_report(e, "toolchains_unknown", err.text);
        memcpy(e->describe_failure, err.text, sizeof(e->describe_failure));
        e->describe_at_ns = clock_monotonic_ns() + DESCRIBE_AGAIN_NS;
    } else {
        e->described = true;
        e->describe_at_ns = clock_monotonic_ns() + DESCRIBE_FRESH_NS;
        /* A few dozen rows at most: not worth a lane. */
        if (kernel_store_probes(e->store, learn_stored, e, &err))
            event_report(e, "store_error", err.text);
    }
    end_probe(p);
}

void toolchains_describe(struct engine *e)
{
    for (struct probe *p = e->probes; p; p = p->next) {
        if (!p->target.text[0])
            return;
    }
    struct kiln_err err = KILN_ERR_INIT;
    struct probe *p = calloc(1, sizeof(*p));
    if (!p || start(e, p, COMPILE_DESCRIBE, describe_done, &err)) {
        free(p);
        memcpy(e->describe_failure, err.text, sizeof(e->describe_failure));
        e->describe_at_ns = clock_monotonic_ns() + DESCRIBE_AGAIN_NS;
    }
}

/* ---- remembering what a probe found ---- */

struct remember_task {
    struct task task; /* first member */
    struct engine *engine;
    struct digest toolchain_id;
    struct target target;
    bool works;
    char detail[512];
    enum kiln_code rc;
    struct kiln_err err;
};

static void remember_work(struct task *task)
{
    struct remember_task *r = (struct remember_task *)task;
    r->rc = kernel_store_probe_put(r->engine->store, &r->toolchain_id, r->target.text, r->works,
                                   r->detail, &r->err);
}

static void remember_done(struct task *task)
{
    struct remember_task *r = (struct remember_task *)task;
    engine_task_ended(r->engine);
    event_after_write(r->engine, r->rc, &r->err);
    free(r);
}

static void remember(struct engine *e, const struct probe *p, bool works, const char *detail)
{
    struct remember_task *r = calloc(1, sizeof(*r));
    if (!r)
        return; /* probed again after the next start */
    r->task = (struct task){ .work = remember_work, .done = remember_done };
    r->engine = e;
    r->toolchain_id = p->tc.identity;
    r->target = p->target;
    r->works = works;
    r->err = KILN_ERR_INIT;
    memcpy(r->detail, detail, strnlen(detail, sizeof(r->detail) - 1));
    engine_run(e, LANE_WRITE, &r->task);
}

/* The sentence, and what the compiler said first: nobody keeps a probe's whole log. */
static void why_it_failed(const struct compile_outcome *outcome, char detail[512])
{
    const char *log = outcome->log ? outcome->log : "";
    log += strspn(log, " \t\r\n");
    int line = (int)strcspn(log, "\r\n");
    snprintf(detail, 512, line ? "%.240s (%.*s)" : "%.240s", outcome->err.text,
             line < 240 ? line : 240, log);
}

static void probe_done(struct compile_order *order)
{
    struct probe *p = (struct probe *)order;
    struct engine *e = p->engine;
    const struct compile_outcome *outcome = &order->task.outcome;
    bool works = outcome->end == COMPILE_DONE;
    char detail[512] = "";
    if (!works)
        why_it_failed(outcome, detail);
    e->stats.probes++;
    const struct toolchain *tc = toolchain_table_find(e->toolchains, bytes_of_text(p->tc.name));
    if (tc && digest_equal(&tc->identity, &p->tc.identity)) {
        toolchain_probe_learn(e->toolchains, tc, &p->target, works ? PROBE_WORKS : PROBE_FAILS,
                              works ? NULL : detail);
        if (outcome->end != COMPILE_UNAVAILABLE) /* no worker: says nothing about the toolchain */
            remember(e, p, works, detail);
    }
    end_probe(p);
}

void toolchains_probe(struct engine *e, const struct toolchain *tc, const struct target *target)
{
    for (struct probe *p = e->probes; p; p = p->next) {
        if (strcmp(p->tc.name, tc->name) == 0 && strcmp(p->target.text, target->text) == 0)
            return;
    }
    struct kiln_err err = KILN_ERR_INIT;
    struct probe *p = calloc(1, sizeof(*p));
    if (p) {
        p->tc = *tc;
        p->target = *target;
    }
    if (!p || start(e, p, COMPILE_PROBE, probe_done, &err)) {
        free(p);
        toolchain_probe_learn(e->toolchains, tc, target, PROBE_FAILS, err.text);
    }
}

static enum kiln_code describe_first(struct engine *e, struct kiln_err *err)
{
    if (e->describe_at_ns <= clock_monotonic_ns())
        toolchains_describe(e);
    if (!toolchains_settled(e))
        return KILN_BUSY;
    return kiln_fail(err, KILN_UNAVAILABLE, "no toolchain to compile with: %s",
                     e->describe_failure);
}

enum kiln_code toolchains_resolve(struct engine *e, const struct target *target,
                                  struct bytes forced, const struct toolchain **ret_toolchain,
                                  struct kiln_err *err)
{
    if (!e->described)
        return describe_first(e, err);
    if (e->describe_at_ns <= clock_monotonic_ns())
        toolchains_describe(e); /* nobody waits for it: what is known serves meanwhile */
    for (;;) {                  /* a probe that cannot be started counts as failed, so this ends */
        enum kiln_code rc = toolchain_choose(e->toolchains, target, forced, ret_toolchain, err);
        if (rc != KILN_BUSY)
            return rc;
        toolchains_probe(e, *ret_toolchain, target);
        if (!toolchains_settled(e))
            return KILN_BUSY;
    }
}

bool toolchains_settled(const struct engine *e) { return !e->probes; }
