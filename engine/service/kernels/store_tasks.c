/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/store_tasks.h"

#include "common/clock.h"
#include "engine/compile/kernel_key.h"

#include <stdio.h>
#include <string.h>

#define RECENCY_EVERY_NS 10000000000u
#define TOUCHES_MAX 4096 /* kernels whose use is remembered between two writes of recency */

struct store_upkeep {
    struct digest touched[TOUCHES_MAX]; /* used since the last write of recency, by slot */
    bool is_touched[TOUCHES_MAX];
    unsigned touched_count;
    uint64_t touched_at_ns;
    bool is_touching; /* a write of recency is under way */
    bool is_tidying;  /* a cleaning step is under way */
};

enum kiln_code store_upkeep_create(struct store_upkeep **ret_upkeep, struct kiln_err *err)
{
    struct store_upkeep *upkeep = calloc(1, sizeof(*upkeep));
    if (!upkeep)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot record which kernels are used");
    *ret_upkeep = upkeep;
    return KILN_OK;
}

void store_upkeep_destroy(struct store_upkeep *upkeep) { free(upkeep); }

/* ---- compiled kernels ---- */

struct put_task {
    struct task task; /* first member */
    struct engine *engine;
    struct source *source; /* owned */
    struct object *object; /* owned reference */
    struct kernel_record record;
    uint64_t evicted, evicted_for_quota;
    bool kept;
    enum kiln_code rc;
    struct kiln_err err;
};

static void put_work(struct task *task)
{
    struct put_task *p = (struct put_task *)task;
    p->record.source_id = kernel_source_id(&p->source->job);
    p->record.headers_id = kernel_headers_id(&p->source->job);
    uint64_t before = kernel_store_quota_evictions(p->engine->store);
    uint64_t kept_before = kernel_store_stored_count(p->engine->store);
    p->rc = kernel_store_put(p->engine->store, &p->record, p->object, &p->evicted, &p->err);
    p->evicted_for_quota = kernel_store_quota_evictions(p->engine->store) - before;
    p->kept = kernel_store_stored_count(p->engine->store) > kept_before;
}

static void put_done(struct task *task)
{
    struct put_task *p = (struct put_task *)task;
    struct engine *e = p->engine;
    engine_task_ended(e);
    e->stats.puts_kept += p->kept;
    e->stats.puts_lost += !p->kept;
    e->stats.evictions += p->evicted;
    e->stats.evictions_quota += p->evicted_for_quota;
    event_after_write(e, p->rc, &p->err);
    object_unref(p->object);
    source_destroy(p->source);
    free(p);
}

static const char *text_of(struct bytes b) { return (const char *)b.data; }

void store_later(struct engine *e, const struct digest *key, struct source *source,
                 struct object *object)
{
    struct put_task *p = calloc(1, sizeof(*p));
    e->stats.puts++;
    if (!p) { /* the kernel stays hot, and is compiled again later */
        e->stats.puts_lost++;
        source_destroy(source);
        return;
    }
    const struct compile_job *job = &source->job;
    p->task = (struct task){ .work = put_work, .done = put_done };
    p->engine = e;
    p->source = source;
    p->object = object_ref(object);
    p->err = KILN_ERR_INIT;
    p->record = (struct kernel_record){
        .key = *key,
        .object = object->digest,
        .toolchain_id = job->toolchain_id,
        .target = text_of(job->target),
        .toolchain = text_of(job->toolchain),
        .program = text_of(job->program),
        .options = text_of(job->options),
        .version = KILN_VERSION,
        .raw_size = object->size,
        .compile_ns = object->compile_ns,
        .created = clock_wall_s(),
        .last_used = clock_wall_s(),
        .uid = (uint32_t)source->uid,
    };
    engine_run(e, p->source->uid, WORK_QUEUE_WRITE, &p->task);
}

/* ---- damaged kernels ---- */

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

void quarantine_later(struct engine *e, const struct digest *key)
{
    e->stats.quarantined++;
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(key, hex);
    event_report_key(e, "quarantined", key, hex);
    struct quarantine_task *q = calloc(1, sizeof(*q));
    if (!q)
        return; /* the next look-up reports the damage again */
    q->task = (struct task){ .work = quarantine_work, .done = quarantine_done };
    q->engine = e;
    q->key = *key;
    q->err = KILN_ERR_INIT;
    engine_run(e, e->own_uid, WORK_QUEUE_WRITE, &q->task);
}

/* ---- recency ---- */

/* Each key has one slot, so a kernel that is used a thousand times is written once. If two kernels
 * share a slot, one loses its mark, which only affects recency. */
void recency_touch(struct engine *e, const struct digest *key)
{
    struct store_upkeep *u = e->upkeep;
    unsigned slot = (unsigned)(digest_hash(key) % TOUCHES_MAX);
    if (!u->is_touched[slot]) {
        u->is_touched[slot] = true;
        u->touched_count++;
    }
    u->touched[slot] = *key;
}

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
    t->engine->upkeep->is_touching = false;
    event_after_write(t->engine, t->rc, &t->err);
    free(t);
}

void recency_write(struct engine *e, bool force)
{
    struct store_upkeep *u = e->upkeep;
    uint64_t now = clock_monotonic_ns();
    bool due = now - u->touched_at_ns > RECENCY_EVERY_NS;
    if (u->is_touching || u->touched_count == 0 || !(due || force))
        return;
    struct touch_task *t = malloc(sizeof(*t) + u->touched_count * sizeof(t->keys[0]));
    if (!t)
        return;
    t->task = (struct task){ .work = touch_work, .done = touch_done };
    t->engine = e;
    t->count = 0;
    t->now = clock_wall_s();
    t->err = KILN_ERR_INIT;
    for (unsigned slot = 0; slot < TOUCHES_MAX; slot++) {
        if (u->is_touched[slot])
            t->keys[t->count++] = u->touched[slot];
        u->is_touched[slot] = false;
    }
    u->touched_count = 0;
    u->touched_at_ns = now;
    u->is_touching = true;
    engine_run(e, e->own_uid, WORK_QUEUE_WRITE, &t->task);
}

/* ---- damaged rows of packages ---- */

struct packaged_task {
    struct task task; /* first member */
    struct engine *engine;
    struct package_found found; /* damaged, damage, damaged_row */
    enum kiln_code rc;
    struct kiln_err err;
};

static void packaged_work(struct task *task)
{
    struct packaged_task *p = (struct packaged_task *)task;
    const struct kernel_damage damage = { .package = p->found.damaged,
                                          .row = p->found.damaged_row,
                                          .reason = p->found.damage };
    p->rc = kernel_store_quarantine_packaged(p->engine->store, &damage, &p->err);
}

static void packaged_done(struct task *task)
{
    struct packaged_task *p = (struct packaged_task *)task;
    engine_task_ended(p->engine);
    event_after_write(p->engine, p->rc, &p->err);
    free(p);
}

static void keep_for_inspection(struct engine *e, const struct package_found *found)
{
    struct packaged_task *p = calloc(1, sizeof(*p));
    if (!p)
        return; /* the operator has the report already */
    p->task = (struct task){ .work = packaged_work, .done = packaged_done };
    p->engine = e;
    p->found = *found;
    p->err = KILN_ERR_INIT;
    engine_run(e, e->own_uid, WORK_QUEUE_WRITE, &p->task);
}

void quarantine_package(struct engine *e, const struct package_found *found,
                        const struct kernel_name *name)
{
    char text[512];
    struct package_found copy = *found;
    bool unknown_to_package = !copy.damaged_row[0] && name;
    if (unknown_to_package) {
        package_set_shun(e->packages, copy.damaged, &(struct kern_name){ name->name, name->args });
        snprintf(copy.damaged_row, sizeof(copy.damaged_row), "%.*s",
                 (int)(name->name.size < PACKAGE_ROW_TEXT ? name->name.size : PACKAGE_ROW_TEXT - 1),
                 (const char *)name->name.data);
    }
    e->stats.quarantined++;
    snprintf(text, sizeof(text), "package '%.100s', kernel '%.100s': %.200s", copy.damaged,
             copy.damaged_row, copy.damage);
    event_report(e, "quarantined", text);
    keep_for_inspection(e, &copy);
}

/* ---- cleaning ---- */

struct tidy_task {
    struct task task; /* first member */
    struct engine *engine;
    bool more;
    enum kiln_code rc;
    struct kiln_err err;
};

static void tidy_work(struct task *task)
{
    struct tidy_task *t = (struct tidy_task *)task;
    t->rc = kernel_store_tidy(t->engine->store, &t->more, &t->err);
}

static void tidy_done(struct task *task)
{
    struct tidy_task *t = (struct tidy_task *)task;
    struct engine *e = t->engine;
    engine_task_ended(e);
    event_after_write(e, t->rc, &t->err);
    if (t->more && !t->rc && !e->draining) {
        t->more = false;
        engine_run(e, e->own_uid, WORK_QUEUE_WRITE,
                   &t->task); /* after the writes that were queued meanwhile */
        return;
    }
    e->upkeep->is_tidying = false;
    free(t);
}

void store_tidy(struct engine *e)
{
    if (e->upkeep->is_tidying || e->draining)
        return;
    struct tidy_task *t = calloc(1, sizeof(*t));
    if (!t)
        return;
    t->task = (struct task){ .work = tidy_work, .done = tidy_done };
    t->engine = e;
    t->err = KILN_ERR_INIT;
    e->upkeep->is_tidying = true;
    engine_run(e, e->own_uid, WORK_QUEUE_WRITE, &t->task);
}
