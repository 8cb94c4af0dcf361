/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/inflight_look.h"

#include "engine/service/kernels/inflight_compile.h"
#include "engine/service/kernels/inflight_deliver.h"
#include "engine/service/kernels/store_tasks.h"

static void look_work(struct task *task)
{
    struct inflight *f = inflight_of_task(task);
    kernel_lookup(&f->look);
    f->object = f->look.object;
    f->look.object = NULL;
    f->found = f->look.found;
    f->tier = f->look.tier;
}

static void report(struct inflight *f)
{
    struct engine *e = f->engine;
    if (f->look.damaged)
        quarantine_later(e, &f->asked);
    if (f->look.shared_damaged)
        quarantine_later(e, &f->look.shared_key);
    if (f->look.by_key.damaged[0])
        quarantine_package(e, &f->look.by_key, f->name_key ? &f->name_key->name : NULL);
    if (f->look.by_name.damaged[0])
        quarantine_package(e, &f->look.by_name, &f->name_key->name);
    if (f->look.trouble.code)
        event_report(e, "store_error", f->look.trouble.text); /* the client sees a miss */
}

/* True if the object's owner has joined a look-up that another user started by key. */
static bool is_its_owners(const struct inflight *f)
{
    const struct fetch_ticket *t = f->found && f->look.reader.hidden ? f->tickets : NULL;
    while (t && t->uid != f->look.reader.owner)
        t = t->next;
    return t;
}

static void look_done(struct task *task)
{
    struct inflight *f = inflight_of_task(task);
    struct engine *e = f->engine;
    engine_task_ended(e);
    report(f);
    if (is_its_owners(f)) {
        f->look.reader = (struct kernel_reader){ .uid = f->look.reader.owner };
        inflight_look(f);
        return;
    }
    if (!f->found) {
        if (f->look.packaged)
            inflight_deliver_packaged(f);
        else
            inflight_deliver_object(f, f->tier);
        return;
    }
    f->err = (struct kiln_err){ .code = KILN_NOT_FOUND };
    if (!f->tickets)
        inflight_destroy(f); /* everybody left while we looked */
    else if (f->source)
        inflight_compile_or_join(f);
    else
        inflight_deliver_failure(f, &f->err, NULL);
}

void inflight_look(struct inflight *f)
{
    f->stage = LOOKING;
    f->generation = hot_set_generation(f->engine->hot);
    f->look.store = f->engine->store;
    f->look.packages = f->engine->packages;
    f->look.uid = f->uid;
    f->look.asked = f->asked;
    f->look.name = f->name_key ? &f->name_key->name : NULL;
    f->task = (struct task){ .work = look_work, .done = look_done, .is_brief = true };
    engine_run(f->engine, WORK_QUEUE_READ, &f->task);
}
