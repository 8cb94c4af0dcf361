/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/flight_look.h"

#include "engine/service/kernels/flight_compile.h"
#include "engine/service/kernels/flight_deliver.h"
#include "engine/service/kernels/store_tasks.h"

static void look_work(struct task *task)
{
    struct flight *f = flight_of_task(task);
    kernel_look(&f->look);
    f->object = f->look.object;
    f->look.object = NULL;
    f->found = f->look.found;
    f->tier = f->look.tier;
}

static void report(struct flight *f)
{
    struct engine *e = f->engine;
    if (f->look.damaged)
        quarantine_later(e, &f->asked);
    if (f->look.shared_damaged)
        quarantine_later(e, &f->look.shared_key);
    if (f->look.by_key.damaged[0])
        quarantine_package(e, &f->look.by_key, f->alias ? &f->alias->name : NULL);
    if (f->look.by_name.damaged[0])
        quarantine_package(e, &f->look.by_name, &f->alias->name);
    if (f->look.trouble.code)
        event_report(e, "store_error", f->look.trouble.text); /* to the client it is a miss */
}

/* Whose it is has joined a flight that somebody else began with the key. */
static bool is_its_owners(const struct flight *f)
{
    const struct fetch_ticket *t = f->found && f->look.reader.hidden ? f->tickets : NULL;
    while (t && t->uid != f->look.reader.owner)
        t = t->next;
    return t;
}

static void look_done(struct task *task)
{
    struct flight *f = flight_of_task(task);
    struct engine *e = f->engine;
    engine_task_ended(e);
    report(f);
    if (is_its_owners(f)) {
        f->look.reader = (struct kernel_reader){ .uid = f->look.reader.owner };
        flight_look(f);
        return;
    }
    if (!f->found) {
        if (f->look.packaged)
            flight_deliver_packaged(f);
        else
            flight_deliver_object(f, f->tier);
        return;
    }
    f->err = (struct kiln_err){ .code = KILN_NOT_FOUND };
    if (!f->tickets)
        flight_destroy(f); /* everybody left while we looked */
    else if (f->source)
        flight_compile_or_join(f);
    else
        flight_deliver_failure(f, &f->err, NULL);
}

void flight_look(struct flight *f)
{
    f->stage = LOOKING;
    f->generation = hot_set_generation(f->engine->hot);
    f->look.store = f->engine->store;
    f->look.packages = f->engine->packages;
    f->look.uid = f->uid;
    f->look.asked = f->asked;
    f->look.name = f->alias ? &f->alias->name : NULL;
    f->task = (struct task){ .work = look_work, .done = look_done, .is_brief = true };
    engine_run(f->engine, LANE_READ, &f->task);
}
