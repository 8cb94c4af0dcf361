/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_open_retry.h"

#include "common/base/clock.h"
#include "engine/service/tuning/tuning_state.h"

#include <stdio.h>
#include <string.h>

#define RETRY_EVERY_NS 10000000000u

struct open_try {
    struct task task;
    struct engine *engine;
    struct tuning_options options;
    struct tuning *databases;
    char notice[512];
    enum kiln_code rc;
    struct kiln_err err;
};

/* Returns whether a later try may succeed, for example because space was freed. */
static bool may_pass(enum kiln_code rc)
{
    return rc == KILN_IO || rc == KILN_FULL || rc == KILN_DENIED || rc == KILN_BUSY ||
           rc == KILN_NOT_FOUND || rc == KILN_UNAVAILABLE || rc == KILN_CORRUPT;
}

static void note_trouble(struct tuning_service *service, const struct kiln_err *why)
{
    snprintf(service->trouble, sizeof(service->trouble), "%s", why->text);
    service->retry_ns = clock_monotonic_ns() + RETRY_EVERY_NS;
}

enum kiln_code tuning_open_first(struct tuning_service *service, struct kiln_err *err)
{
    enum kiln_code rc = tuning_open(&service->options, &service->databases, service->notice, err);
    if (!rc || !may_pass(rc) || !service->options.directory)
        return rc;
    note_trouble(service, err);
    return KILN_OK;
}

static void open_work(struct task *task)
{
    struct open_try *o = (struct open_try *)task;
    o->rc = tuning_open(&o->options, &o->databases, o->notice, &o->err);
}

static void open_done(struct task *task)
{
    struct open_try *o = (struct open_try *)task;
    struct engine *e = o->engine;
    struct tuning_service *service = e->tuning;
    engine_task_ended(e);
    service->is_opening = false;
    if (o->rc) {
        note_trouble(service, &o->err);
    } else {
        service->databases = o->databases;
        tuning_set_limits(service->databases, &service->options);
        tuning_watches_note_all(&service->watches);
        service->trouble[0] = '\0';
        memcpy(service->notice, o->notice, sizeof(o->notice));
        event_note(e, "tuning_available", "the tuning databases could be opened");
        tuning_service_start(e);
    }
    free(o);
}

void tuning_open_retry_tick(struct engine *e)
{
    struct tuning_service *service = e->tuning;
    if (service->databases || service->is_opening || e->draining || !service->options.directory ||
        clock_monotonic_ns() < service->retry_ns)
        return;
    struct open_try *o = calloc(1, sizeof(*o));
    if (!o)
        return;
    o->task = (struct task){ .work = open_work, .done = open_done };
    o->engine = e;
    o->options = service->options;
    o->err = KILN_ERR_INIT;
    service->is_opening = true;
    engine_run(e, e->own_uid, WORK_QUEUE_TUNING, &o->task);
}
