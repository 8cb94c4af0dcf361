/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/inflight_lookup.h"

#include "engine/service/kernels/inflight_compile.h"
#include "engine/service/kernels/inflight_deliver.h"
#include "engine/service/kernels/store_tasks.h"

/* Copies the report to |f|. If memory runs out, drops the report; the next look-up finds the same
 * damage again. */
static void keep_report(struct inflight *f, const struct lookup_report *report)
{
    free(f->report);
    f->report = malloc(sizeof(*f->report));
    if (f->report)
        *f->report = *report;
}

static void lookup_work(struct task *task)
{
    struct inflight *f = inflight_of_task(task);
    struct lookup_report report = { .trouble = KILN_ERR_INIT };
    f->lookup.report = &report;
    kernel_lookup(&f->lookup);
    f->lookup.report = NULL;
    if (lookup_report_is_needed(&report))
        keep_report(f, &report);
    f->object = f->lookup.object;
    f->lookup.object = NULL;
    f->found = f->lookup.found;
    f->tier = f->lookup.tier;
}

static void report_lookup(struct inflight *f)
{
    struct engine *e = f->engine;
    if (f->lookup.damaged)
        quarantine_later(e, &f->asked);
    if (f->lookup.shared_damaged)
        quarantine_later(e, &f->lookup.shared_key);
    const struct lookup_report *r = f->report;
    if (r && r->by_key.damaged[0])
        quarantine_package(e, &r->by_key, f->name_key ? &f->name_key->name : NULL);
    if (r && r->by_name.damaged[0])
        quarantine_package(e, &r->by_name, &f->name_key->name);
    if (r && r->trouble.code)
        /* reported here, because the client only gets a miss */
        event_report(e, "store_error", r->trouble.text);
}

/* Returns whether the kernel's owner has joined a look-up that another user started by key. */
static bool is_its_owners(const struct inflight *f)
{
    if (!f->found || !f->lookup.reader.hidden)
        return false;
    LIST_EACH (&f->tickets, struct fetch_ticket, waiting, t)
        if (t->uid == f->lookup.reader.owner)
            return true;
    return false;
}

static void lookup_done(struct task *task)
{
    struct inflight *f = inflight_of_task(task);
    struct engine *e = f->engine;
    engine_task_ended(e);
    report_lookup(f);
    if (is_its_owners(f)) {
        f->lookup.reader = (struct kernel_reader){ .uid = f->lookup.reader.owner };
        inflight_look_up(f);
        return;
    }
    if (!f->found) {
        if (f->lookup.packaged)
            inflight_deliver_packaged(f);
        else
            inflight_deliver_object(f, f->tier);
        return;
    }
    const struct kiln_err miss = { .code = KILN_NOT_FOUND };
    if (list_is_empty(&f->tickets))
        inflight_destroy(f);
    else if (f->source)
        inflight_compile_or_join(f);
    else
        inflight_deliver_failure(f, &miss, NULL);
}

void inflight_look_up(struct inflight *f)
{
    f->stage = LOOKING;
    f->generation = hot_set_generation(f->engine->hot);
    f->lookup.store = f->engine->store;
    f->lookup.packages = f->engine->packages;
    f->lookup.uid = f->uid;
    f->lookup.asked = f->asked;
    f->lookup.name = f->name_key ? &f->name_key->name : NULL;
    f->task = (struct task){ .work = lookup_work, .done = lookup_done, .is_brief = true };
    engine_run(f->engine, f->uid, WORK_QUEUE_READ, &f->task);
}
