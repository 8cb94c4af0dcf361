/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/build.h"

#include "engine/service/requests/admin.h"

void build_drop_item(struct build_item *item)
{
    item->object = object_unref(item->object);
    free(item->program);
    item->program = NULL;
    buffer_done(&item->name);
    buffer_done(&item->args);
}

static void remove_file(struct deferred *d)
{
    struct build *b = build_of(d);
    package_writer_destroy(b->package.writer);
    b->package.writer = NULL;
}

static const struct deferred_step remove_file_step = { .work_queue = WORK_QUEUE_READ,
                                                       .work = remove_file };

static bool stop_build(struct deferred *d)
{
    struct build *b = build_of(d);
    for (size_t i = b->package.written; i < b->fetches.begun; i++)
        fetch_cancel(d->engine, &b->order[i]->ticket);
    if (d->is_running || !b->package.writer)
        return true;
    fair_queue_remove(&requests_queue(d->engine->requests, QUEUE_BUILD_STEPS)->waiting, &d->slot);
    d->queue = NULL;
    deferred_run(d, &remove_file_step);
    return false;
}

static void release_build(struct deferred *d)
{
    struct build *b = build_of(d);
    for (size_t i = 0; i < b->item_count; i++)
        build_drop_item(&b->items[i]);
    free(b->items);
    free(b->order);
    buffer_done(&b->problems);
    buffer_done(&b->records.text[0]);
    buffer_done(&b->records.text[1]);
    free(b->choices);
    package_writer_destroy(b->package.writer);
    export_space_release(&b->package.space);
    object_unref(b->package.file);
    json_destroy(b->failures);
}

static void send_package(struct deferred *d, struct caller *caller)
{
    admin_send_files(d, caller, &build_of(d)->package.file, 1);
}

static const struct deferred_kind build_kind = { .size = sizeof(struct build),
                                                 .reply = send_package,
                                                 .stop = stop_build,
                                                 .release = release_build };

struct build *build_create(struct engine *e, struct caller *caller, uint64_t request_id,
                           struct kiln_err *err)
{
    struct build *b = deferred_create(&build_kind, e, caller, request_id, err);
    if (!b)
        return NULL;
    list_init(&b->fetches.again);
    b->fetches.max = BUILD_WINDOW;
    b->base.answer = json_object();
    b->failures = json_array();
    return b;
}

void build_enqueue(struct build *b, const struct deferred_step *step)
{
    struct deferred *d = &b->base;
    if (d->is_running || deferred_is_waiting(d))
        return;
    enum kiln_code rc =
        deferred_enqueue(d, requests_queue(d->engine->requests, QUEUE_BUILD_STEPS), step, &d->err);
    if (rc)
        deferred_fail(d, &d->err, NULL);
}

bool build_step_ended(struct build *b)
{
    struct deferred *d = &b->base;
    if (!d->caller)
        deferred_cancel(d);
    else if (d->rc)
        deferred_fail(d, &d->err, NULL);
    else
        return true;
    return false;
}
