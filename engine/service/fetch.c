/* SPDX-License-Identifier: MIT */
#include "engine/service/fetch.h"

#include "common/clock.h"
#include "engine/compile/code_object.h"
#include "engine/compile/kernel_key.h"
#include "engine/service/store_tasks.h"

#include <sys/mman.h>

enum stage { LOOKING, QUEUED, SEALING, DELIVERING }; /* QUEUED: waiting for a compiler, or in one */

struct flight {
    struct compile_order order; /* first member: the queue hands it back */
    struct task task;           /* look-up, then sealing */
    struct flight *next_in_bucket;
    struct engine *engine;
    struct digest key;
    enum stage stage;
    struct source *source;        /* owned; NULL when asked by key alone */
    struct fetch_ticket *tickets; /* borrowed list */
    uid_t uid;                    /* who asked first */
    /* Filled on a lane. */
    struct object *object; /* owned reference */
    enum kiln_code found;
    bool damaged;
    struct kiln_err err;
};

static struct flight *flight_of_task(struct task *t)
{
    return (struct flight *)(void *)((char *)t - offsetof(struct flight, task));
}

/* ---- the table of flights ---- */

static struct flight **find(struct engine *e, const struct digest *key)
{
    struct flight **at = &e->flights[digest_hash(key) % FLIGHT_BUCKETS];
    while (*at && !digest_equal(&(*at)->key, key))
        at = &(*at)->next_in_bucket;
    return at;
}

static void flight_destroy(struct flight *f)
{
    struct flight **at = find(f->engine, &f->key);
    if (*at == f) {
        *at = f->next_in_bucket;
        f->engine->flight_count--;
    }
    compile_outcome_done(&f->order.task.outcome);
    object_unref(f->object);
    source_destroy(f->source);
    free(f);
}

static struct flight *flight_create(struct engine *e, const struct digest *key, uid_t uid)
{
    struct flight *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->engine = e;
    f->key = *key;
    f->uid = uid;
    f->err = KILN_ERR_INIT;
    f->order.task.outcome = COMPILE_OUTCOME_INIT;
    *find(e, key) = f;
    e->flight_count++;
    return f;
}

/* ---- tickets ---- */

static void attach(struct flight *f, struct fetch_ticket *t)
{
    t->flight = f;
    t->previous = NULL;
    t->next = f->tickets;
    if (f->tickets)
        f->tickets->previous = t;
    f->tickets = t;
}

static void detach(struct fetch_ticket *t)
{
    struct flight *f = t->flight;
    *(t->previous ? &t->previous->next : &f->tickets) = t->next;
    if (t->next)
        t->next->previous = t->previous;
    t->flight = NULL;
    t->next = t->previous = NULL;
}

static void count_result(struct engine *e, const struct fetch_result *r)
{
    if (r->err.code) {
        e->stats.misses++;
        return;
    }
    switch (r->tier) {
    case TIER_HOT: e->stats.hits_hot++; break;
    case TIER_DISK: e->stats.hits_disk++; break;
    case TIER_PACKAGE: e->stats.hits_package++; break;
    case TIER_REMOTE: e->stats.hits_remote++; break;
    default: e->stats.misses++; return;
    }
    recency_touch(e, &r->key);
}

/* Every ticket gets the result; the flight is gone when this returns. */
static void deliver(struct flight *f, const struct fetch_result *result)
{
    struct engine *e = f->engine;
    struct flight **at = find(e, &f->key);
    *at = f->next_in_bucket; /* who asks from now on starts afresh */
    f->stage = DELIVERING;
    e->flight_count--;
    while (f->tickets) {
        struct fetch_ticket *t = f->tickets;
        detach(t);
        count_result(e, result);
        t->ready(t, result);
    }
    flight_destroy(f);
}

static void deliver_failure(struct flight *f, const struct kiln_err *err, const char *log)
{
    struct fetch_result result = { .err = *err, .key = f->key, .log = log };
    deliver(f, &result);
}

static void deliver_object(struct flight *f, enum tier tier)
{
    struct fetch_result result = { .tier = tier, .key = f->key, .object = f->object };
    hot_set_insert(f->engine->hot, &f->key, f->object);
    deliver(f, &result);
}

/* ---- compiling ---- */

static enum kiln_code check_object(const struct object *object, const struct compile_job *job,
                                   struct kiln_err *err)
{
    struct target target;
    enum kiln_code rc = target_parse(job->target, &target, err);
    if (rc)
        return rc;
    void *map = mmap(NULL, object->size, PROT_READ, MAP_SHARED, object->fd, 0);
    if (map == MAP_FAILED)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot map a code object of %llu bytes",
                         (unsigned long long)object->size);
    rc = code_object_check(bytes_of(map, object->size), &target, err);
    munmap(map, object->size);
    return rc;
}

static void seal_work(struct task *task)
{
    struct flight *f = flight_of_task(task);
    struct compile_outcome *outcome = &f->order.task.outcome;
    int fd = outcome->object_fd;
    outcome->object_fd = -1;
    f->found = object_from_memfd(fd, outcome->wall_ns, &f->object, &f->err);
    if (!f->found)
        f->found = check_object(f->object, &f->source->job, &f->err);
}

static void fail_compile(struct flight *f, const struct kiln_err *why)
{
    struct engine *e = f->engine;
    const char *log = f->order.task.outcome.log;
    bool lasting = why->code == KILN_COMPILE_FAILED || why->code == KILN_INVALID ||
                   why->code == KILN_CORRUPT; /* the others are this host's moment */
    e->stats.compile_errors++;
    if (lasting)
        failure_memory_add(e->failures, &f->key, why, log, clock_monotonic_ns());
    event_kernel(e, "compile_failed", &f->key, &f->source->job, &f->order.task.outcome);
    deliver_failure(f, why, log);
}

static void seal_done(struct task *task)
{
    struct flight *f = flight_of_task(task);
    engine_task_ended(f->engine);
    if (f->found) {
        kiln_while(&f->err, "the compiler's result for '%s'",
                   (const char *)f->source->job.program.data);
        fail_compile(f, &f->err);
        return;
    }
    event_kernel(f->engine, "compiled", &f->key, &f->source->job, &f->order.task.outcome);
    store_later(f->engine, &f->key, KILN_TAKE(f->source), f->object);
    deliver_object(f, TIER_COMPILED);
}

static void compile_done(struct compile_order *order)
{
    struct flight *f = (struct flight *)order;
    struct compile_outcome *outcome = &order->task.outcome;
    if (outcome->end == COMPILE_OUTDATED)
        f->engine->describe_at_ns = 0; /* the next request asks which toolchains are here now */
    if (outcome->end == COMPILE_UNAVAILABLE || outcome->end == COMPILE_OUTDATED) {
        deliver_failure(f, &outcome->err, outcome->log); /* not the kernel's: not remembered */
        return;
    }
    f->engine->stats.compiles++;
    if (outcome->end != COMPILE_DONE) {
        fail_compile(f, &outcome->err);
        return;
    }
    f->stage = SEALING;
    f->task = (struct task){ .work = seal_work, .done = seal_done };
    engine_run(f->engine, LANE_READ, &f->task);
}

static enum priority wanted_priority(const struct flight *f)
{
    for (const struct fetch_ticket *t = f->tickets; t; t = t->next) {
        if (t->priority == PRIORITY_INTERACTIVE)
            return PRIORITY_INTERACTIVE;
    }
    return PRIORITY_PREFETCH;
}

static void start_compile(struct flight *f)
{
    f->stage = QUEUED;
    f->order.task.job = f->source->job;
    f->order.uid = f->uid;
    f->order.priority = wanted_priority(f);
    f->order.done = compile_done;
    if (compile_queue_submit(f->engine->queue, &f->order, &f->err))
        deliver_failure(f, &f->err, NULL);
}

/* ---- looking it up on disk ---- */

static void look_work(struct task *task)
{
    struct flight *f = flight_of_task(task);
    f->found = kernel_store_get(f->engine->store, &f->key, &f->object, &f->damaged, &f->err);
}

static void look_done(struct task *task)
{
    struct flight *f = flight_of_task(task);
    struct engine *e = f->engine;
    engine_task_ended(e);
    if (f->damaged)
        quarantine_later(e, &f->key);
    if (!f->found) {
        deliver_object(f, TIER_DISK);
        return;
    }
    if (f->found != KILN_NOT_FOUND)
        event_report(e, "store_error", f->err.text); /* to the client it is a miss */
    f->err = (struct kiln_err){ .code = KILN_NOT_FOUND };
    if (!f->tickets) {
        flight_destroy(f); /* everybody left while we looked */
    } else if (f->source) {
        start_compile(f);
    } else {
        deliver_failure(f, &f->err, NULL);
    }
}

static void look(struct flight *f)
{
    f->stage = LOOKING;
    f->task = (struct task){ .work = look_work, .done = look_done };
    engine_run(f->engine, LANE_READ, &f->task);
}

/* ---- the way in ---- */

static bool answer_failure(struct engine *e, struct fetch_result *ret_result,
                           const struct digest *key, const struct kiln_err *err)
{
    *ret_result = (struct fetch_result){ .err = *err, .key = *key };
    count_result(e, ret_result);
    return true;
}

static bool answer_hot(struct engine *e, const struct digest *key, struct fetch_result *ret_result)
{
    struct object *object = hot_set_find(e->hot, key);
    if (!object)
        return false;
    *ret_result = (struct fetch_result){ .tier = TIER_HOT, .key = *key, .object = object };
    count_result(e, ret_result);
    return true;
}

/* Another user waits for it now as well: it comes in the better of the two turns. */
static void join_queue(struct flight *f, struct fetch_ticket *ticket)
{
    struct engine *e = f->engine;
    e->stats.coalesced++;
    attach(f, ticket);
    if (f->stage != QUEUED)
        return;
    if (ticket->priority == PRIORITY_INTERACTIVE)
        compile_queue_promote(e->queue, &f->order);
    compile_queue_share(e->queue, &f->order, ticket->uid);
}

bool fetch_by_key(struct engine *e, const struct digest *key, struct fetch_ticket *ticket,
                  struct fetch_result *ret_result)
{
    e->stats.fetches++;
    if (answer_hot(e, key, ret_result))
        return true;
    struct flight *f = *find(e, key);
    if (f) {
        join_queue(f, ticket);
        return false;
    }
    f = flight_create(e, key, ticket->uid);
    if (!f) {
        struct kiln_err err = { .code = KILN_NO_MEMORY, .text = "cannot look up a kernel" };
        return answer_failure(e, ret_result, key, &err);
    }
    attach(f, ticket);
    look(f);
    return false;
}

static bool answer_remembered(struct engine *e, const struct digest *key,
                              struct fetch_result *ret_result)
{
    struct failure failure;
    if (!failure_memory_find(e->failures, key, clock_monotonic_ns(), &failure))
        return false;
    *ret_result = (struct fetch_result){ .err = failure.err, .key = *key, .log = failure.log };
    e->stats.remembered_failures++;
    count_result(e, ret_result);
    return true;
}

/* Someone is on the way to this kernel already. */
static enum kiln_code join(struct flight *f, const struct compile_job *job,
                           const struct toolchain *tc, struct fetch_ticket *ticket,
                           struct kiln_err *err)
{
    struct engine *e = f->engine;
    if (!f->source && f->stage == LOOKING) {
        enum kiln_code rc = source_copy(e, ticket->uid, job, tc, &f->source, err);
        if (rc)
            return rc;
    }
    join_queue(f, ticket);
    return KILN_OK;
}

static enum kiln_code start(struct engine *e, const struct digest *key,
                            const struct compile_job *job, const struct toolchain *tc,
                            struct fetch_ticket *ticket, struct kiln_err *err)
{
    struct source *source = NULL;
    enum kiln_code rc = source_copy(e, ticket->uid, job, tc, &source, err);
    if (rc)
        return rc;
    struct flight *f = flight_create(e, key, ticket->uid);
    if (!f) {
        source_destroy(source);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot look up a kernel");
    }
    f->source = source;
    attach(f, ticket);
    look(f);
    return KILN_OK;
}

bool fetch_with_source(struct engine *e, const struct compile_job *job, const struct toolchain *tc,
                       struct fetch_ticket *ticket, struct fetch_result *ret_result)
{
    e->stats.fetches++;
    struct digest key = kernel_key(job, &tc->identity);
    if (answer_hot(e, &key, ret_result) || answer_remembered(e, &key, ret_result))
        return true;
    struct kiln_err err = KILN_ERR_INIT;
    struct flight *f = *find(e, &key);
    enum kiln_code rc = f ? join(f, job, tc, ticket, &err) : start(e, &key, job, tc, ticket, &err);
    return rc ? answer_failure(e, ret_result, &key, &err) : false;
}

void fetch_cancel(struct engine *e, struct fetch_ticket *ticket)
{
    struct flight *f = ticket->flight;
    if (!f)
        return;
    detach(ticket);
    e->stats.cancelled++;
    if (f->tickets || f->stage != QUEUED)
        return;
    if (compile_queue_cancel(e->queue, &f->order))
        flight_destroy(f);
}
