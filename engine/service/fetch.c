/* SPDX-License-Identifier: MIT */
#include "engine/service/fetch.h"

#include "common/clock.h"
#include "engine/compile/code_object.h"
#include "engine/compile/kernel_key.h"
#include "engine/digest/sha256.h"
#include "engine/service/store_tasks.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum stage { LOOKING, QUEUED, SEALING, DELIVERING }; /* QUEUED: waiting for a compiler, or in one */

struct flight {
    struct compile_order order; /* first member: the queue hands it back */
    struct task task;           /* look-up, then sealing */
    struct flight *next_in_bucket;
    struct engine *engine;
    struct digest place; /* in the table: who asks for the same joins */
    bool in_table;
    struct digest asked; /* the kernel's key */
    enum stage stage;
    bool no_cache;
    struct source *source; /* owned; NULL: nothing to compile it from */
    struct alias *alias;   /* owned; NULL: no name */
    uint64_t generation;   /* of the hot set, when the look-up began */
    bool has_shared_key;
    struct digest shared_key;
    struct fetch_ticket *tickets; /* borrowed list */
    uid_t uid;                    /* who asked first */
    /* Filled on a lane. */
    struct object *object; /* owned reference */
    enum tier tier;
    enum kiln_code found;
    bool damaged, shared_damaged;
    bool is_shared; /* the object is shared_key's */
    bool packaged;  /* the object is a package's, by the name alone */
    struct package_found package;
    struct kiln_err err;
};

static struct flight *flight_of_task(struct task *t)
{
    return (struct flight *)(void *)((char *)t - offsetof(struct flight, task));
}

/* ---- the table of flights ---- */

static struct flight **find(struct engine *e, const struct digest *place)
{
    struct flight **at = &e->flights[digest_hash(place) % FLIGHT_BUCKETS];
    while (*at && !digest_equal(&(*at)->place, place))
        at = &(*at)->next_in_bucket;
    return at;
}

static void leave_table(struct flight *f)
{
    if (f->in_table)
        *find(f->engine, &f->place) = f->next_in_bucket;
    f->in_table = false;
}

/* Nobody may be there. */
static void enter_table(struct flight *f, const struct digest *place)
{
    leave_table(f);
    struct flight **at = find(f->engine, place);
    assert(!*at);
    f->place = *place;
    f->next_in_bucket = NULL;
    f->in_table = true;
    *at = f;
}

static void flight_destroy(struct flight *f)
{
    leave_table(f);
    f->engine->flight_count--;
    compile_outcome_done(&f->order.task.outcome);
    object_unref(f->object);
    source_destroy(f->source);
    alias_destroy(f->alias);
    free(f);
}

static struct flight *flight_create(struct engine *e, const struct digest *asked, uid_t uid)
{
    struct flight *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->engine = e;
    f->asked = *asked;
    f->uid = uid;
    f->err = KILN_ERR_INIT;
    f->order.task.outcome = COMPILE_OUTCOME_INIT;
    e->flight_count++;
    return f;
}

/* Who asks by a name is served by what packages have under it, so only the same question is
 * joined; what must be compiled is compiled once all the same (compile_or_join). */
static struct digest place_of(const struct digest *key, const struct fetch_want *want)
{
    struct sha256 s;
    if (!want->name)
        return *key;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of(key->bytes, DIGEST_SIZE));
    sha256_put_sized(&s, want->name->database_id);
    sha256_put_sized(&s, want->name->name);
    sha256_put_sized(&s, want->name->args);
    sha256_put_sized(&s, want->name->target);
    return sha256_end(&s);
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

/* What somebody imported for himself is not there for others, also where they know its key. */
static bool may_have(const struct object *object, uid_t uid)
{
    return !object || !object->is_private || object->owner == (uint32_t)uid;
}

/* Every ticket gets the result; the flight is gone when this returns. */
static void deliver(struct flight *f, const struct fetch_result *result)
{
    struct engine *e = f->engine;
    leave_table(f); /* who asks from now on starts afresh */
    f->stage = DELIVERING;
    struct fetch_result hidden = { .err = { .code = KILN_NOT_FOUND }, .key = f->asked };
    while (f->tickets) {
        struct fetch_ticket *t = f->tickets;
        const struct fetch_result *r = may_have(result->object, t->uid) ? result : &hidden;
        detach(t);
        count_result(e, r);
        t->ready(t, r);
    }
    flight_destroy(f);
}

static void deliver_failure(struct flight *f, const struct kiln_err *err, const char *log)
{
    struct fetch_result result = { .err = *err, .key = f->asked, .log = log };
    deliver(f, &result);
}

/* What was removed while it was looked up must not come back. */
static void keep_hot(struct flight *f, const struct digest *key)
{
    if (!f->no_cache && f->generation == f->engine->hot_generation)
        hot_set_insert(f->engine->hot, key, f->object);
}

static void deliver_object(struct flight *f, enum tier tier)
{
    struct fetch_result result = { .tier = tier, .key = f->asked, .object = f->object };
    keep_hot(f, &f->asked);
    if (f->is_shared)
        recency_touch(f->engine, &f->shared_key);
    deliver(f, &result);
}

/* A package's row does not say what it was made of: it answers those who ask by the name. */
static void deliver_packaged(struct flight *f)
{
    const struct fetch_result result = { .tier = TIER_PACKAGE,
                                         .key = kernel_name_packaged(&f->alias->name),
                                         .object = f->object };
    keep_hot(f, &result.key);
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
    if (lasting && !f->no_cache)
        failure_memory_add(e->failures, &f->asked, why, log, clock_monotonic_ns());
    event_kernel(e, "compile_failed", &f->asked, &f->source->job, &f->order.task.outcome);
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
    event_kernel(f->engine, "compiled", &f->asked, &f->source->job, &f->order.task.outcome);
    if (!f->no_cache)
        store_later(f->engine, &f->asked, KILN_TAKE(f->source), f->object);
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

static enum kiln_code submit(struct flight *f, struct kiln_err *err)
{
    f->stage = QUEUED;
    f->order.task.job = f->source->job;
    f->order.uid = f->uid;
    f->order.priority = wanted_priority(f);
    f->order.done = compile_done;
    return compile_queue_submit(f->engine->queue, &f->order, err);
}

/* ---- looking it up on disk ---- */

static enum kiln_code parse_targets(struct bytes wanted, struct target *ret_target,
                                    struct target *ret_plain, struct kiln_err *err)
{
    char arch[LIMIT_TARGET_TEXT];
    enum kiln_code rc = target_parse(wanted, ret_target, err);
    if (rc)
        return rc;
    target_arch(ret_target, arch, sizeof(arch));
    return target_parse(bytes_of_text(arch), ret_plain, err);
}

/* A package's name says for which arch it is, and nothing of features: an object for another arch
 * is damage, one for other features a miss. */
static enum kiln_code check_packaged(struct flight *f, struct bytes raw)
{
    struct target target, plain;
    struct bytes wanted = f->alias->name.target;
    struct package_found *p = &f->package;
    struct kiln_err why = KILN_ERR_INIT;
    if (wanted.size == 0)
        return KILN_OK;
    f->packaged = true;
    if (parse_targets(wanted, &target, &plain, &why) || code_object_check(raw, &plain, &why)) {
        memcpy(p->damaged, p->package, sizeof(p->damaged));
        snprintf(p->damage, sizeof(p->damage), "%.255s", why.text);
        return KILN_NOT_FOUND;
    }
    return code_object_suits(raw, &target) ? KILN_OK : KILN_NOT_FOUND;
}

static void look_by_name(struct flight *f, struct buffer *raw)
{
    const struct kernel_name *n = &f->alias->name;
    f->found = package_set_find_named(f->engine->packages, n->database_id, n->name, n->args, raw,
                                      &f->package, &f->err);
    if (!f->found)
        f->found = check_packaged(f, buffer_view(raw));
}

static void look_into_packages(struct flight *f)
{
    struct package_set *packages = f->engine->packages;
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, LIMIT_CODE_OBJECT);
    f->tier = TIER_PACKAGE;
    f->found = package_set_find_key(packages, &f->asked, &raw, &f->package, &f->err);
    if (f->found == KILN_NOT_FOUND && f->alias && !f->package.damaged[0])
        look_by_name(f, &raw);
    if (!f->found)
        f->found =
            object_from_bytes(buffer_view(&raw), f->package.hit.compile_ns, &f->object, &f->err);
}

static void look_work(struct task *task)
{
    struct flight *f = flight_of_task(task);
    struct kernel_store *store = f->engine->store;
    f->tier = TIER_DISK;
    f->found = kernel_store_get(store, &f->asked, &f->object, &f->damaged, &f->err);
    if (f->found == KILN_NOT_FOUND && f->has_shared_key) {
        f->found = kernel_store_get(store, &f->shared_key, &f->object, &f->shared_damaged, &f->err);
        f->is_shared = !f->found;
    }
    if (f->found == KILN_NOT_FOUND)
        look_into_packages(f);
}

static void note_damage(struct flight *f)
{
    struct engine *e = f->engine;
    if (f->damaged)
        quarantine_later(e, &f->asked);
    if (f->shared_damaged)
        quarantine_later(e, &f->shared_key);
    if (f->package.damaged[0])
        quarantine_package(e, &f->package, f->alias ? &f->alias->name : NULL);
}

static void compile_or_join(struct flight *f);

static void look_done(struct task *task)
{
    struct flight *f = flight_of_task(task);
    struct engine *e = f->engine;
    engine_task_ended(e);
    note_damage(f);
    if (!f->found) {
        if (f->packaged)
            deliver_packaged(f);
        else
            deliver_object(f, f->tier);
        return;
    }
    if (f->found != KILN_NOT_FOUND)
        event_report(e, "store_error", f->err.text); /* to the client it is a miss */
    f->err = (struct kiln_err){ .code = KILN_NOT_FOUND };
    if (!f->tickets)
        flight_destroy(f); /* everybody left while we looked */
    else if (f->source)
        compile_or_join(f);
    else
        deliver_failure(f, &f->err, NULL);
}

static void look(struct flight *f)
{
    f->stage = LOOKING;
    f->generation = f->engine->hot_generation;
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

static bool answer_hot(struct engine *e, const struct digest *key, uid_t uid,
                       struct fetch_result *ret_result)
{
    struct object *object = hot_set_find(e->hot, key);
    if (!object || !may_have(object, uid))
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

/* However it was asked for, a kernel is compiled once. */
static void compile_or_join(struct flight *f)
{
    struct flight *other = *find(f->engine, &f->asked);
    if (!other || other == f) {
        enter_table(f, &f->asked);
        if (submit(f, &f->err))
            deliver_failure(f, &f->err, NULL);
        return;
    }
    if (!other->source && other->stage == LOOKING)
        other->source = KILN_TAKE(f->source);
    while (f->tickets) {
        struct fetch_ticket *t = f->tickets;
        detach(t);
        join_queue(other, t);
    }
    flight_destroy(f);
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

/* Copies what |want| has and the flight lacks. */
static enum kiln_code equip(struct flight *f, const struct fetch_want *want, uid_t uid,
                            struct kiln_err *err)
{
    struct engine *e = f->engine;
    enum kiln_code rc = KILN_OK;
    if (want->job && !f->source)
        rc = source_copy(e, uid, want->job, want->tc, &f->source, err);
    if (!rc && want->name && !f->alias)
        rc = alias_copy(e, uid, want->name, &f->alias, err);
    if (!rc && want->shared_key) {
        f->has_shared_key = true;
        f->shared_key = *want->shared_key;
    }
    return rc;
}

/* Someone is on the way to this kernel already.  Of a look-up that a lane is at only the source may
 * be added: the lane does not read it. */
static enum kiln_code join(struct flight *f, const struct fetch_want *want,
                           struct fetch_ticket *ticket, struct kiln_err *err)
{
    const struct fetch_want source = { .job = want->job, .tc = want->tc };
    if (f->stage == LOOKING) {
        enum kiln_code rc = equip(f, &source, ticket->uid, err);
        if (rc)
            return rc;
    }
    join_queue(f, ticket);
    return KILN_OK;
}

static enum kiln_code begin_flight(struct flight *f, const struct fetch_want *want, uid_t uid,
                                   struct kiln_err *err)
{
    f->no_cache = want->no_cache;
    enum kiln_code rc = equip(f, want, uid, err);
    if (rc)
        return rc;
    if (f->no_cache)
        return submit(f, err); /* never in the table: nobody joins it */
    struct digest place = place_of(&f->asked, want);
    enter_table(f, &place);
    look(f);
    return KILN_OK;
}

static enum kiln_code start(struct engine *e, const struct digest *key,
                            const struct fetch_want *want, struct fetch_ticket *ticket,
                            struct kiln_err *err)
{
    struct flight *f = flight_create(e, key, ticket->uid);
    if (!f)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot look up a kernel");
    attach(f, ticket);
    enum kiln_code rc = begin_flight(f, want, ticket->uid, err);
    if (!rc)
        return KILN_OK;
    detach(ticket);
    flight_destroy(f);
    return rc;
}

static enum kiln_code join_or_start(struct engine *e, const struct digest *key,
                                    const struct fetch_want *want, struct fetch_ticket *ticket,
                                    struct kiln_err *err)
{
    struct digest place = place_of(key, want);
    struct flight *f = want->no_cache ? NULL : *find(e, &place);
    return f ? join(f, want, ticket, err) : start(e, key, want, ticket, err);
}

static bool answer_without_looking(struct engine *e, const struct digest *key,
                                   const struct fetch_want *want, const struct fetch_ticket *ticket,
                                   struct fetch_result *ret_result)
{
    if (want->no_cache)
        return false;
    if (answer_hot(e, key, ticket->uid, ret_result)) {
        if (want->shared_key)
            recency_touch(e, want->shared_key); /* it may be the one that is hot */
        return true;
    }
    if (want->job && want->name && want->name->target.size > 0) {
        struct digest packaged = kernel_name_packaged(want->name);
        if (answer_hot(e, &packaged, ticket->uid, ret_result))
            return true;
    }
    return want->job && answer_remembered(e, key, ret_result);
}

bool fetch_begin(struct engine *e, const struct fetch_want *want, struct fetch_ticket *ticket,
                 struct fetch_result *ret_result)
{
    e->stats.fetches++;
    struct digest key = want->job ? kernel_key(want->job, &want->tc->identity) : want->key;
    if (answer_without_looking(e, &key, want, ticket, ret_result))
        return true;
    struct kiln_err err = KILN_ERR_INIT;
    if (join_or_start(e, &key, want, ticket, &err))
        return answer_failure(e, ret_result, &key, &err);
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
