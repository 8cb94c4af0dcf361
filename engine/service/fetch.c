/* SPDX-License-Identifier: MIT */
#include "engine/service/fetch.h"

#include "common/clock.h"
#include "engine/compile/code_object.h"
#include "engine/compile/kernel_key.h"

#include <string.h>
#include <sys/mman.h>

#define RECENCY_EVERY_NS 10000000000u

enum stage { LOOKING, QUEUED, RUNNING, SEALING };

/* What a kernel is made of, copied; every text is terminated as well. */
struct source {
    struct compile_job job; /* its views point into storage */
    struct digest toolchain_id;
    char storage[];
};

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
    free(f->source);
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

/* One slot a key: a kernel used a thousand times is written once.  Two kernels on one slot cost
 * one of them its mark, which is only recency. */
static void touch(struct engine *e, const struct digest *key)
{
    unsigned slot = (unsigned)(digest_hash(key) % TOUCHES_MOST);
    if (!e->is_touched[slot]) {
        e->is_touched[slot] = true;
        e->touched_count++;
    }
    e->touched[slot] = *key;
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
    touch(e, &r->key);
}

/* Every ticket gets the result; the flight is gone when this returns. */
static void deliver(struct flight *f, const struct fetch_result *result)
{
    struct engine *e = f->engine;
    struct flight **at = find(e, &f->key);
    *at = f->next_in_bucket; /* who asks from now on starts afresh */
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

/* ---- writing what was compiled to the store ---- */

struct put_task {
    struct task task; /* first member */
    struct engine *engine;
    struct source *source; /* owned */
    struct object *object; /* owned reference */
    struct kernel_record record;
    uint64_t evicted;
    enum kiln_code rc;
    struct kiln_err err;
};

static void put_work(struct task *task)
{
    struct put_task *p = (struct put_task *)task;
    p->rc = kernel_store_put(p->engine->store, &p->record, p->object, &p->evicted, &p->err);
}

static void put_done(struct task *task)
{
    struct put_task *p = (struct put_task *)task;
    struct engine *e = p->engine;
    engine_task_ended(e);
    e->stats.evictions += p->evicted;
    event_after_write(e, p->rc, &p->err);
    object_unref(p->object);
    free(p->source);
    free(p);
}

static const char *text_of(struct bytes b) { return (const char *)b.data; }

/* Takes the flight's source: it is needed no more. */
static void store_later(struct flight *f)
{
    struct put_task *p = calloc(1, sizeof(*p));
    if (!p)
        return; /* it stays hot, and is compiled again another day */
    const struct compile_job *job = &f->source->job;
    p->task = (struct task){ .work = put_work, .done = put_done };
    p->engine = f->engine;
    p->object = object_ref(f->object);
    p->err = KILN_ERR_INIT;
    p->record = (struct kernel_record){
        .key = f->key,
        .object = f->object->digest,
        .toolchain_id = f->source->toolchain_id,
        .target = text_of(job->target),
        .toolchain = text_of(job->toolchain),
        .program = text_of(job->program),
        .options = text_of(job->options),
        .raw_size = f->object->size,
        .compile_ns = f->object->compile_ns,
        .created = clock_wall_s(),
        .last_used = clock_wall_s(),
        .uid = (uint32_t)f->uid,
    };
    p->source = KILN_TAKE(f->source);
    engine_run(f->engine, LANE_WRITE, &p->task);
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
    e->stats.compile_errors++;
    failure_memory_add(e->failures, &f->key, why, log, clock_monotonic_ns());
    event_kernel(e, "compile_failed", &f->key, &f->source->job, &f->order.task.outcome);
    deliver_failure(f, why, log);
}

static void seal_done(struct task *task)
{
    struct flight *f = flight_of_task(task);
    engine_task_ended(f->engine);
    if (f->found) {
        kiln_while(&f->err, "the compiler's result for '%s'", text_of(f->source->job.program));
        fail_compile(f, &f->err);
        return;
    }
    event_kernel(f->engine, "compiled", &f->key, &f->source->job, &f->order.task.outcome);
    store_later(f);
    deliver_object(f, TIER_COMPILED);
}

static void compile_done(struct compile_order *order)
{
    struct flight *f = (struct flight *)order;
    struct compile_outcome *outcome = &order->task.outcome;
    if (outcome->end == COMPILE_UNAVAILABLE) { /* says nothing about the kernel: not remembered */
        deliver_failure(f, &outcome->err, outcome->log);
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

struct quarantine_task {
    struct task task; /* first member */
    struct engine *engine;
    struct digest key;
    enum kiln_code rc;
    struct kiln_err err;
};

static void quarantine_work(struct task *task)
{
    struct quarantine_task *q = (struct quarantine_task *)task;
    q->rc = kernel_store_quarantine(q->engine->store, &q->key, &q->err);
}

static void quarantine_done(struct task *task)
{
    struct quarantine_task *q = (struct quarantine_task *)task;
    engine_task_ended(q->engine);
    event_after_write(q->engine, q->rc, &q->err);
    free(q);
}

static void quarantine(struct engine *e, const struct digest *key)
{
    e->stats.quarantined++;
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(key, hex);
    event_report(e, "quarantined", hex);
    struct quarantine_task *q = calloc(1, sizeof(*q));
    if (!q)
        return; /* the next look-up asks again */
    q->task = (struct task){ .work = quarantine_work, .done = quarantine_done };
    q->engine = e;
    q->key = *key;
    q->err = KILN_ERR_INIT;
    engine_run(e, LANE_WRITE, &q->task);
}

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
        quarantine(e, &f->key);
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

static struct bytes copy_text(char **at, struct bytes text)
{
    char *start = *at;
    if (text.size)
        memcpy(start, text.data, text.size);
    start[text.size] = '\0';
    *at += text.size + 1;
    return bytes_of(start, text.size);
}

static struct source *copy_source(const struct compile_job *job, const struct toolchain *tc)
{
    size_t size = job->toolchain.size + job->target.size + job->program.size + job->options.size +
                  job->source.size + job->headers.size + 6;
    struct source *s = malloc(sizeof(*s) + size);
    if (!s)
        return NULL;
    char *at = s->storage;
    s->job = (struct compile_job){
        .kind = COMPILE_KERNEL,
        .toolchain = copy_text(&at, job->toolchain),
        .target = copy_text(&at, job->target),
        .program = copy_text(&at, job->program),
        .options = copy_text(&at, job->options),
        .source = copy_text(&at, job->source),
        .header_count = job->header_count,
        .headers = copy_text(&at, job->headers),
    };
    s->toolchain_id = tc->identity;
    return s;
}

static bool answer_failure(struct engine *e, struct fetch_result *ret_result,
                           const struct digest *key, enum kiln_code code, const char *text)
{
    *ret_result = (struct fetch_result){ .err = { .code = code }, .key = *key };
    kiln_fail(&ret_result->err, code, "%s", text);
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

bool fetch_by_key(struct engine *e, const struct digest *key, struct fetch_ticket *ticket,
                  struct fetch_result *ret_result)
{
    e->stats.fetches++;
    if (answer_hot(e, key, ret_result))
        return true;
    struct flight *f = *find(e, key);
    if (f) {
        e->stats.coalesced++;
        attach(f, ticket);
        return false;
    }
    f = flight_create(e, key, ticket->uid);
    if (!f)
        return answer_failure(e, ret_result, key, KILN_NO_MEMORY, "cannot look up a kernel");
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
static bool join(struct engine *e, struct flight *f, const struct compile_job *job,
                 const struct toolchain *tc, struct fetch_ticket *ticket)
{
    if (!f->source && f->stage == LOOKING)
        f->source = copy_source(job, tc);
    if (!f->source)
        return false;
    e->stats.coalesced++;
    attach(f, ticket);
    if (f->stage == QUEUED && ticket->priority == PRIORITY_INTERACTIVE)
        compile_queue_promote(e->queue, &f->order);
    return true;
}

static bool start(struct engine *e, const struct digest *key, const struct compile_job *job,
                  const struct toolchain *tc, struct fetch_ticket *ticket)
{
    struct source *source = copy_source(job, tc);
    struct flight *f = source ? flight_create(e, key, ticket->uid) : NULL;
    if (!f) {
        free(source);
        return false;
    }
    f->source = source;
    attach(f, ticket);
    look(f);
    return true;
}

bool fetch_with_source(struct engine *e, const struct compile_job *job, const struct toolchain *tc,
                       struct fetch_ticket *ticket, struct fetch_result *ret_result)
{
    e->stats.fetches++;
    struct digest key = kernel_key(job, &tc->identity);
    if (answer_hot(e, &key, ret_result) || answer_remembered(e, &key, ret_result))
        return true;
    struct flight *f = *find(e, &key);
    bool taken = f ? join(e, f, job, tc, ticket) : start(e, &key, job, tc, ticket);
    if (!taken)
        return answer_failure(e, ret_result, &key, KILN_NO_MEMORY, "cannot keep a source");
    return false;
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

/* ---- recency ---- */

struct touch_task {
    struct task task; /* first member */
    struct engine *engine;
    size_t count;
    uint64_t now;
    struct kiln_err err;
    enum kiln_code rc;
    struct digest keys[];
};

static void touch_work(struct task *task)
{
    struct touch_task *t = (struct touch_task *)task;
    t->rc = kernel_store_touch(t->engine->store, t->keys, t->count, t->now, &t->err);
}

static void touch_done(struct task *task)
{
    struct touch_task *t = (struct touch_task *)task;
    engine_task_ended(t->engine);
    t->engine->touching = false;
    event_after_write(t->engine, t->rc, &t->err);
    free(t);
}

void fetch_write_recency(struct engine *e, bool force)
{
    uint64_t now = clock_monotonic_ns();
    bool due = now - e->touched_at_ns > RECENCY_EVERY_NS;
    if (e->touching || e->touched_count == 0 || !(due || force))
        return;
    struct touch_task *t = malloc(sizeof(*t) + e->touched_count * sizeof(t->keys[0]));
    if (!t)
        return;
    t->task = (struct task){ .work = touch_work, .done = touch_done };
    t->engine = e;
    t->count = 0;
    t->now = clock_wall_s();
    t->err = KILN_ERR_INIT;
    for (unsigned slot = 0; slot < TOUCHES_MOST; slot++) {
        if (e->is_touched[slot])
            t->keys[t->count++] = e->touched[slot];
        e->is_touched[slot] = false;
    }
    e->touched_count = 0;
    e->touched_at_ns = now;
    e->touching = true;
    engine_run(e, LANE_WRITE, &t->task);
}
