/* SPDX-License-Identifier: MIT */
/*
 * Which toolchain builds for a target, found out by asking a compiler process.
 *
 * A request whose toolchain is not known yet is parked: copied, and looked at again from the start
 * once the describe, or the last of the probes, that it waits for has ended.  Requests share
 * probes, as they share compiles.
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
#define DOUBT_NS 600000000000u /* ten minutes, as long as a failed compile is remembered */
#define NOT_NOW_NS 1000000000u /* a second, when there was no process to try with */
/* Under way for one user: each costs a process, and whoever asks for another target passes them
 * all.  More than one batch can need; a list of more targets waits, and goes on. */
#define PROBES_OF_ONE_MOST 64u
/* Of one request: describe, then every toolchain of a family.  Where what was found is forgotten
 * again before it is looked at, it could go on for ever. */
#define LOOKS_MOST 8u

/* A parked request waits for a probe. */
struct await {
    struct parked *parked;
    struct probe *probe; /* NULL once it has ended */
    struct await *next, *previous;
};

struct parked {
    struct service_waiter waiter; /* first member */
    struct parked *next;          /* of those to be looked at again */
    uid_t uid;                    /* charged for all of this */
    size_t charged;
    struct frame_header header;
    struct bytes body; /* behind the last of |awaits| */
    unsigned looks;    /* how often it was looked at */
    unsigned await_count, awaits_left;
    struct await awaits[];
};

/* A describe (no target) or a probe under way. */
struct probe {
    struct compile_order order; /* first member */
    struct engine *engine;
    struct probe *next;
    uid_t uid;                   /* who asked for it first, and is counted for it */
    uint64_t asked_by;           /* the last request that did: its number */
    struct await *awaits, *last; /* in the order they came */
    struct task task;            /* a describe's second half: what the store remembers */
    struct memory *memories;     /* owned; filled on a lane */
    struct toolchain tc;         /* a copy: the table may change meanwhile */
    struct target target;
};

static void unlink_probe(struct probe *p)
{
    struct probe **at = &p->engine->probes;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
}

/* ---- parked requests ---- */

/* No process tries for nobody: what nobody waits for any more is dropped, but what a compiler has
 * already goes on, and is remembered. */
static void drop_unless_awaited(struct probe *p)
{
    struct engine *e = p->engine;
    if (p->awaits || !p->target.text[0] || !compile_queue_cancel(e->queue, &p->order))
        return;
    unlink_probe(p);
    free(p);
}

static void await_end(struct await *a)
{
    struct probe *p = a->probe;
    if (!p)
        return;
    *(a->previous ? &a->previous->next : &p->awaits) = a->next;
    *(a->next ? &a->next->previous : &p->last) = a->previous;
    drop_unless_awaited(p);
}

static void await_begin(struct await *a, struct parked *parked, struct probe *p)
{
    *a = (struct await){ .parked = parked, .probe = p, .previous = p->last };
    *(p->last ? &p->last->next : &p->awaits) = a;
    p->last = a;
}

static void parked_destroy(struct engine *e, struct parked *p)
{
    budget_give(e->budget, p->uid, p->charged);
    free(p);
}

static void cancel_parked(struct service_waiter *w)
{
    struct parked *p = (struct parked *)w;
    service_waiter_remove(w);
    for (unsigned i = 0; i < p->await_count; i++)
        await_end(&p->awaits[i]);
    parked_destroy(w->engine, p);
}

void toolchains_unask(struct engine *e)
{
    struct probe *next;
    for (struct probe *p = e->probes; p; p = next) {
        next = p->next;
        if (p->asked_by == e->handled)
            drop_unless_awaited(p);
    }
}

static unsigned count_asked(const struct engine *e)
{
    unsigned count = 0;
    for (const struct probe *p = e->probes; p; p = p->next)
        count += p->asked_by == e->handled;
    return count;
}

enum kiln_code toolchains_park(struct engine *e, struct caller *caller,
                               const struct frame_header *header, struct bytes body,
                               struct kiln_err *err)
{
    if (e->looks == LOOKS_MOST)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "which toolchain to use was not found out in %u tries: ask again in a "
                         "moment",
                         LOOKS_MOST);
    unsigned count = count_asked(e);
    size_t head = sizeof(struct parked) + count * sizeof(struct await);
    enum kiln_code rc = budget_take(e->budget, caller->uid, head + body.size, err);
    if (rc)
        return rc;
    struct parked *p = calloc(1, head + body.size);
    if (!p) {
        budget_give(e->budget, caller->uid, head + body.size);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep a request of %zu bytes", body.size);
    }
    p->uid = caller->uid;
    p->charged = head + body.size;
    p->looks = e->looks + 1;
    p->header = *header;
    p->body = bytes_of((uint8_t *)p + head, body.size);
    if (body.size)
        memcpy((uint8_t *)p + head, body.data, body.size);
    for (struct probe *of = e->probes; of; of = of->next) {
        if (of->asked_by == e->handled)
            await_begin(&p->awaits[p->await_count++], p, of);
    }
    p->awaits_left = p->await_count;
    service_waiter_add(&p->waiter, e, caller, header->request_id, cancel_parked);
    return KILN_OK;
}

/* Looks at each again, from the start; some may be parked anew. */
static void handle_again(struct engine *e, struct parked *list)
{
    while (list) {
        struct parked *p = list;
        list = p->next;
        struct caller *caller = p->waiter.caller;
        p->waiter.is_forgotten = true;
        service_waiter_remove(&p->waiter);
        budget_give(e->budget, p->uid, p->charged); /* it may be charged anew */
        e->looks = p->looks;
        service_handle_again(e, caller, &p->header, p->body);
        e->looks = 0;
        free(p);
    }
}

/* ---- describe and probe ---- */

/* Those that waited for nothing else are looked at again, in the order they came. */
static void end_probe(struct probe *p)
{
    struct engine *e = p->engine;
    struct parked *ready = NULL, **last = &ready;
    unlink_probe(p);
    for (struct await *a = p->awaits; a; a = a->next) {
        a->probe = NULL;
        if (--a->parked->awaits_left > 0)
            continue;
        *last = a->parked;
        last = &a->parked->next;
    }
    compile_outcome_done(&p->order.task.outcome);
    free(p);
    handle_again(e, ready);
}

static enum kiln_code start(struct engine *e, struct probe *p, enum compile_kind kind,
                            void (*done)(struct compile_order *), struct kiln_err *err)
{
    p->engine = e;
    p->order.priority = PRIORITY_INTERACTIVE;
    p->order.done = done;
    p->order.task.job = (struct compile_job){
        .kind = kind,
        .origin = kind == COMPILE_PROBE ? COMPILE_OF_CLIENT : COMPILE_OF_KILN, /* its target */
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

/* What an earlier probe found, as the store remembers it. */
struct memory {
    struct memory *next;
    struct digest toolchain_id;
    struct target target;
    bool works;
    char detail[512];
};

static void remember_row(void *context, const struct digest *id, const char *target, bool works,
                         const char *detail)
{
    struct probe *p = context;
    struct kiln_err ignored = KILN_ERR_INIT;
    struct memory *m = calloc(1, sizeof(*m));
    if (!m || target_parse(bytes_of_text(target), &m->target, &ignored)) {
        free(m); /* written by a newer kiln, or no memory: probed again when needed */
        return;
    }
    m->toolchain_id = *id;
    m->works = works;
    snprintf(m->detail, sizeof(m->detail), "%s", detail);
    m->next = p->memories;
    p->memories = m;
}

static struct probe *probe_of_task(struct task *t)
{
    return (struct probe *)(void *)((char *)t - offsetof(struct probe, task));
}

static void memories_work(struct task *task)
{
    struct probe *p = probe_of_task(task);
    struct kiln_err ignored = KILN_ERR_INIT; /* what cannot be read is probed again */
    if (kernel_store_probes(p->engine->store, remember_row, p, &ignored))
        return;
}

static void learn(struct engine *e, const struct memory *m)
{
    for (size_t i = 0; i < toolchain_table_count(e->toolchains); i++) {
        const struct toolchain *tc = toolchain_table_at(e->toolchains, i);
        if (digest_equal(&tc->identity, &m->toolchain_id))
            toolchain_probe_learn(e->toolchains, tc, &m->target,
                                  m->works ? PROBE_WORKS : PROBE_FAILS, m->detail);
    }
}

/* Once, until there is one. */
static void say_whether_any(struct engine *e)
{
    bool none = toolchain_table_count(e->toolchains) == 0;
    if (none && !e->said_no_toolchain)
        event_report(e, "toolchains_none",
                     "no compiler is here: kernels come from the cache and from packages alone; "
                     "install one, and 'kilnctl doctor' shows whether it is found");
    e->said_no_toolchain = none;
}

static void memories_done(struct task *task)
{
    struct probe *p = probe_of_task(task);
    struct engine *e = p->engine;
    engine_task_ended(e);
    while (p->memories) {
        struct memory *m = p->memories;
        p->memories = m->next;
        learn(e, m);
        free(m);
    }
    say_whether_any(e);
    e->described = true;
    e->describe_at_ns = clock_monotonic_ns() + DESCRIBE_FRESH_NS;
    end_probe(p);
}

static void describe_done(struct compile_order *order)
{
    struct probe *p = (struct probe *)order;
    struct engine *e = p->engine;
    struct kiln_err err = KILN_ERR_INIT;
    if (read_description(e, &order->task.outcome, &err) == KILN_OK) {
        p->task = (struct task){ .work = memories_work, .done = memories_done };
        engine_run(e, LANE_READ, &p->task);
        return;
    }
    kiln_while(&err, "asking which toolchains are here");
    event_report(e, "toolchains_unknown", err.text);
    memcpy(e->describe_failure, err.text, sizeof(e->describe_failure));
    e->describe_at_ns = clock_monotonic_ns() + DESCRIBE_AGAIN_NS;
    end_probe(p);
}

static bool compilers_are_off(struct engine *e)
{
    if (e->executor->ops->compile_slots(e->executor) > 0)
        return false;
    snprintf(e->describe_failure, sizeof(e->describe_failure), "%s",
             e->data ? "no compiler is used (KILN_EMBED_COMPILE is not on)"
                     : "compilers are switched off (the setting 'workers' is 0)");
    e->describe_at_ns = UINT64_MAX;
    return true;
}

void toolchains_describe(struct engine *e)
{
    if (compilers_are_off(e))
        return;
    for (struct probe *p = e->probes; p; p = p->next) {
        if (!p->target.text[0])
            return;
    }
    struct kiln_err err = KILN_ERR_INIT;
    struct probe *p = calloc(1, sizeof(*p));
    if (p)
        p->order.uid = (uid_t)-1; /* nobody's turn */
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

static void forget_doubt(struct engine *e, struct doubt *d)
{
    const struct toolchain *tc = toolchain_table_find(e->toolchains, bytes_of_text(d->toolchain));
    if (tc && toolchain_probe_state(e->toolchains, tc, &d->target) != PROBE_WORKS)
        toolchain_probe_learn(e->toolchains, tc, &d->target, PROBE_UNKNOWN, NULL);
    d->until_ns = 0;
}

/* A crash, a time-out or a lack of memory or workers may be the moment's: it is not written down,
 * and tried again after a while; or sooner, where made-up targets give cause for more doubts than
 * there are places, but never held on to. */
static void doubt(struct engine *e, const struct probe *p, enum compile_end end)
{
    uint64_t life = end == COMPILE_UNAVAILABLE ? NOT_NOW_NS : DOUBT_NS;
    struct doubt *d = &e->doubts[e->doubt_next++ % DOUBTS_MOST];
    if (d->until_ns)
        forget_doubt(e, d);
    *d = (struct doubt){ .target = p->target, .until_ns = clock_monotonic_ns() + life };
    memcpy(d->toolchain, p->tc.name, sizeof(d->toolchain));
}

void toolchains_forget_doubts(struct engine *e)
{
    uint64_t now = clock_monotonic_ns();
    if (e->looks > 0)
        return; /* what a request waited for counts for it, however long it waited for the rest */
    for (size_t i = 0; i < DOUBTS_MOST; i++) {
        struct doubt *d = &e->doubts[i];
        if (d->until_ns && d->until_ns <= now)
            forget_doubt(e, d);
    }
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

static enum probe_state state_after(enum compile_end end)
{
    return end == COMPILE_DONE          ? PROBE_WORKS
           : end == COMPILE_UNAVAILABLE ? PROBE_NOT_NOW
                                        : PROBE_FAILS;
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
        toolchain_probe_learn(e->toolchains, tc, &p->target, state_after(outcome->end),
                              works ? NULL : detail);
        if (works || outcome->end == COMPILE_REFUSED)
            remember(e, p, works, detail);
        else
            doubt(e, p, outcome->end);
    }
    end_probe(p);
}

enum kiln_code toolchains_probe(struct engine *e, uid_t uid, const struct toolchain *tc,
                                const struct target *target, struct kiln_err *err)
{
    unsigned own = 0;
    for (struct probe *p = e->probes; p; p = p->next) {
        own += p->uid == uid && p->target.text[0];
        if (strcmp(p->tc.name, tc->name) != 0 || strcmp(p->target.text, target->text) != 0)
            continue;
        p->asked_by = e->handled;
        compile_queue_share(e->queue, &p->order, uid); /* in the better of the two turns */
        return KILN_OK;
    }
    if (own >= PROBES_OF_ONE_MOST)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "%u tries of targets that are new here are under way for user %u, the "
                         "most that may be: ask for %s again when they have ended",
                         own, (unsigned)uid, target->text);
    struct probe *p = calloc(1, sizeof(*p));
    if (!p)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot try %s for %s", tc->name, target->text);
    p->tc = *tc;
    p->target = *target;
    p->uid = p->order.uid = uid;
    if (start(e, p, COMPILE_PROBE, probe_done, err)) {
        free(p);
        kiln_while(err, "trying %s for %s", tc->name, target->text);
        err->code = KILN_UNAVAILABLE; /* KILN_BUSY would mean that an answer is under way */
        return err->code;
    }
    p->asked_by = e->handled;
    return KILN_OK;
}

static enum kiln_code describe_first(struct engine *e, struct kiln_err *err)
{
    if (e->describe_at_ns <= clock_monotonic_ns())
        toolchains_describe(e);
    for (struct probe *p = e->probes; p; p = p->next)
        p->asked_by = e->handled; /* the describe: until it has ended there is no other */
    if (!toolchains_settled(e))
        return KILN_BUSY;
    return kiln_fail(err, KILN_UNAVAILABLE, "no toolchain to compile with: %s",
                     e->describe_failure);
}

enum kiln_code toolchains_resolve(struct engine *e, uid_t uid, const struct target *target,
                                  struct bytes forced, const struct toolchain **ret_toolchain,
                                  struct kiln_err *err)
{
    if (!e->described)
        return describe_first(e, err);
    if (e->describe_at_ns <= clock_monotonic_ns())
        toolchains_describe(e); /* nobody waits for it: what is known serves meanwhile */
    toolchains_forget_doubts(e);
    enum kiln_code rc = toolchain_choose(e->toolchains, target, forced, ret_toolchain, err);
    if (rc != KILN_BUSY)
        return rc;
    rc = toolchains_probe(e, uid, *ret_toolchain, target, err);
    return rc ? rc : KILN_BUSY;
}

bool toolchains_tried(const struct engine *e, const struct toolchain *tc, struct bytes target)
{
    struct target t;
    struct kiln_err ignored = KILN_ERR_INIT; /* who cannot read it has not tried it */
    return target_parse(target, &t, &ignored) == KILN_OK &&
           toolchain_probe_state(e->toolchains, tc, &t) == PROBE_WORKS;
}

bool toolchains_settled(const struct engine *e) { return !e->probes; }
