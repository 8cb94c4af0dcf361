/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/store_tasks.h"

#include "common/base/clock.h"
#include "engine/compile/kernel_key.h"
#include "engine/service/budget.h"
#include "engine/service/fleet/fleet_upload.h"

#include <stdio.h>
#include <string.h>

#define RECENCY_EVERY_NS 10000000000u
#define TOUCHES_MAX 4096

struct store_upkeep {
    struct digest touched[TOUCHES_MAX];
    bool is_touched[TOUCHES_MAX];
    unsigned touched_count;
    uint64_t touched_at_ns;
    bool is_touching;
    bool is_tidying;
    struct budget *waiting; /* owned: bytes of compiled objects that wait to be stored */
};

enum kiln_code store_upkeep_create(uint64_t waiting_bytes, uint64_t waiting_bytes_uid,
                                   struct store_upkeep **ret_upkeep, struct kiln_err *err)
{
    struct store_upkeep *upkeep = calloc(1, sizeof(*upkeep));
    if (!upkeep)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot record which kernels are used");
    enum kiln_code rc = budget_create(waiting_bytes, waiting_bytes_uid, &upkeep->waiting, err);
    if (rc) {
        free(upkeep);
        return rc;
    }
    *ret_upkeep = upkeep;
    return KILN_OK;
}

void store_upkeep_destroy(struct store_upkeep *upkeep)
{
    if (upkeep)
        budget_destroy(upkeep->waiting);
    free(upkeep);
}

void store_upkeep_set_limits(struct store_upkeep *upkeep, uint64_t waiting_bytes,
                             uint64_t waiting_bytes_uid)
{
    budget_set_limits(upkeep->waiting, waiting_bytes, waiting_bytes_uid);
}

static void work_on_write(struct task *task)
{
    struct store_write *w = (struct store_write *)task;
    w->rc = w->write(w, &w->err);
}

static void end_write(struct task *task)
{
    struct store_write *w = (struct store_write *)task;
    engine_task_ended(w->engine);
    event_after_write(w->engine, w->rc, &w->err);
    if (w->written)
        w->written(w);
    else
        free(w);
}

void store_write_run(struct engine *e, uid_t uid, struct store_write *w)
{
    w->task = (struct task){ .work = work_on_write, .done = end_write };
    w->engine = e;
    w->err = KILN_ERR_INIT;
    engine_run(e, uid, WORK_QUEUE_WRITE, &w->task);
}

struct put_task {
    struct store_write base;
    struct source *source; /* owned; NULL: |record| is already complete */
    void *texts;           /* owned; the texts of a record without a source */
    uid_t uid;
    struct object *object;
    struct kernel_record record;
    struct kernel_putting putting;
    uint64_t evicted_for_quota;
    bool kept;
};

static enum kiln_code put_kernel(struct store_write *w, struct kiln_err *err)
{
    struct put_task *p = (struct put_task *)w;
    struct kernel_store *store = w->engine->store;
    if (!p->putting.record) {
        if (p->source) {
            p->record.source_id = kernel_source_id(&p->source->job);
            p->record.headers_id = kernel_headers_id(&p->source->job);
        }
        p->putting.record = &p->record;
        p->putting.object = p->object;
    }
    uint64_t before = kernel_store_quota_evictions(store);
    uint64_t kept_before = kernel_store_stored_count(store);
    enum kiln_code rc = kernel_store_put_some(store, &p->putting, err);
    p->evicted_for_quota += kernel_store_quota_evictions(store) - before;
    p->kept = kernel_store_stored_count(store) > kept_before;
    return rc;
}

static void end_put(struct store_write *w)
{
    struct put_task *p = (struct put_task *)w;
    struct stats *stats = &w->engine->stats;
    if (!p->putting.is_over) {
        store_write_run(w->engine, p->uid, w);
        return;
    }
    stats->puts_kept += p->kept;
    stats->puts_lost += !p->kept;
    stats->evictions += p->putting.evicted;
    stats->evictions_quota += p->evicted_for_quota;
    budget_return(w->engine->upkeep->waiting, p->uid, p->object->size);
    if (p->source && p->kept)
        fleet_upload_note_stored(w->engine->fleet_upload);
    object_unref(p->object);
    source_destroy(p->source);
    free(p->texts);
    free(p);
}

static const char *text_of(struct bytes b) { return (const char *)b.data; }

static struct put_task *create_put(struct engine *e, const struct digest *key, uid_t uid,
                                   struct object *object)
{
    const uint64_t size = object->size;
    struct kiln_err err = KILN_ERR_INIT;
    if (budget_take(e->upkeep->waiting, uid, size, &err)) {
        char text[160];
        snprintf(text, sizeof(text),
                 "compiled kernels of user %u that wait to be stored take too much memory, so that "
                 "a kernel of %llu bytes is not stored",
                 (unsigned)uid, (unsigned long long)size);
        event_report_key(e, "store_error", key, text);
        return NULL;
    }
    struct put_task *p = calloc(1, sizeof(*p));
    if (!p) {
        budget_return(e->upkeep->waiting, uid, size);
        return NULL;
    }
    p->base.write = put_kernel;
    p->base.written = end_put;
    p->uid = uid;
    p->object = object_ref(object);
    return p;
}

void store_record_later(struct engine *e, const struct kernel_record *record, void *texts,
                        struct object *object)
{
    struct put_task *p = create_put(e, &record->key, (uid_t)record->uid, object);
    e->stats.puts++;
    if (!p) {
        e->stats.puts_lost++;
        free(texts);
        return;
    }
    p->record = *record;
    p->texts = texts;
    store_write_run(e, p->uid, &p->base);
}

void store_later(struct engine *e, const struct digest *key, struct source *source,
                 struct object *object)
{
    struct put_task *p = create_put(e, key, source->uid, object);
    e->stats.puts++;
    if (!p) { /* the kernel stays only in the hot set, and is compiled again after its eviction */
        e->stats.puts_lost++;
        source_destroy(source);
        return;
    }
    const struct compile_job *job = &source->job;
    p->source = source;
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
        .kind = object->kind,
    };
    store_write_run(e, source->uid, &p->base);
}

struct quarantine_task {
    struct store_write base;
    struct digest key;
};

static enum kiln_code quarantine_kernel(struct store_write *w, struct kiln_err *err)
{
    return kernel_store_quarantine(w->engine->store, &((struct quarantine_task *)w)->key, err);
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
    q->base.write = quarantine_kernel;
    q->key = *key;
    store_write_run(e, e->own_uid, &q->base);
}

/* Marks the kernel as used. Several uses before the next recency_write cause only one write. If two
 * kernels have the same slot, the mark of the first one is lost, so the first one counts as less
 * recently used than it is. */
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
    struct store_write base;
    size_t count;
    uint64_t now;
    struct digest keys[];
};

static enum kiln_code touch_kernels(struct store_write *w, struct kiln_err *err)
{
    const struct touch_task *t = (const struct touch_task *)w;
    return kernel_store_touch(w->engine->store, t->keys, t->count, t->now, err);
}

static void end_touch(struct store_write *w)
{
    w->engine->upkeep->is_touching = false;
    free(w);
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
    *t = (struct touch_task){ .base = { .write = touch_kernels, .written = end_touch },
                              .now = clock_wall_s() };
    for (unsigned slot = 0; slot < TOUCHES_MAX; slot++) {
        if (u->is_touched[slot])
            t->keys[t->count++] = u->touched[slot];
        u->is_touched[slot] = false;
    }
    u->touched_count = 0;
    u->touched_at_ns = now;
    u->is_touching = true;
    store_write_run(e, e->own_uid, &t->base);
}

struct packaged_task {
    struct store_write base;
    struct package_found found;
};

static enum kiln_code quarantine_row(struct store_write *w, struct kiln_err *err)
{
    const struct package_found *found = &((struct packaged_task *)w)->found;
    const struct kernel_damage damage = { .package = found->damaged,
                                          .row = found->damaged_row,
                                          .reason = found->damage };
    return kernel_store_quarantine_packaged(w->engine->store, &damage, err);
}

static void keep_for_inspection(struct engine *e, const struct package_found *found)
{
    struct packaged_task *p = calloc(1, sizeof(*p));
    if (!p)
        return;
    p->base.write = quarantine_row;
    p->found = *found;
    store_write_run(e, e->own_uid, &p->base);
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

struct tidy_task {
    struct store_write base;
    bool more;
};

static enum kiln_code tidy_once(struct store_write *w, struct kiln_err *err)
{
    return kernel_store_tidy(w->engine->store, &((struct tidy_task *)w)->more, err);
}

static void end_tidy(struct store_write *w)
{
    struct tidy_task *t = (struct tidy_task *)w;
    struct engine *e = w->engine;
    if (t->more && !w->rc && !e->draining) {
        t->more = false;
        store_write_run(e, e->own_uid, w);
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
    t->base.write = tidy_once;
    t->base.written = end_tidy;
    e->upkeep->is_tidying = true;
    store_write_run(e, e->own_uid, &t->base);
}
