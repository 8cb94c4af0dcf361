/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/uploads.h"

#include "engine/service/packages/packages_state.h"
#include "engine/service/requests/queues.h"

#include <string.h>

#define STOPPING "kilnd is stopping: try again"

static struct upload *upload_of(struct deferred *d) { return (struct upload *)d; }

static struct upload *upload_of_transfer(struct transfer_task *t)
{
    return LIST_ENTRY(t, struct upload, transfer);
}

static struct request_group *uploads_of(const struct engine *e)
{
    return &e->package_service->uploads;
}

static void release_upload(struct deferred *d)
{
    struct upload *u = upload_of(d);
    for (size_t i = 0; i < LIMIT_REQUEST_FILES; i++) {
        if (u->files[i] >= 0)
            engine_close_file(d->engine, d->uid, u->files[i]);
    }
    free(u->transfer.result.manifest);
}

static void clear_work(struct deferred *d)
{
    struct upload *u = upload_of(d);
    if (u->state)
        u->kind->state_destroy(u->state);
    if (u->transfer.result.path[0])
        unlink(u->transfer.result.path);
}

/* Runs on a work queue, because removing gigabytes takes time. */
static const struct deferred_step clear_step = { .work_queue = WORK_QUEUE_READ,
                                                 .work = clear_work,
                                                 .done = deferred_destroy };

void upload_taken(struct upload *u) { u->transfer.result.path[0] = '\0'; }

void upload_end(struct upload *u)
{
    deferred_answer(&u->base);
    if (u->state || u->transfer.result.path[0])
        deferred_run(&u->base, &clear_step);
    else
        deferred_destroy(&u->base);
}

static void take_work(struct deferred *d)
{
    struct upload *u = upload_of(d);
    u->more = false;
    d->rc = u->kind->take(u, &u->more, &d->err);
}

static void start_taking(struct upload *u);

static void finish_upload(struct upload *u)
{
    if (u->kind->finish)
        u->kind->finish(u);
    upload_end(u);
}

static void take_done(struct deferred *d)
{
    struct upload *u = upload_of(d);
    struct engine *e = d->engine;
    struct kiln_err why = KILN_ERR_INIT;
    if (u->kind->taken && u->kind->taken(u, &why) && !d->rc) {
        d->err = why;
        d->rc = why.code;
    }
    event_after_write(e, KILN_OK, &d->err); /* KILN_OK, because the answer reports a failure */
    if (!d->rc && u->more && !e->draining && d->caller) {
        start_taking(u);
        return;
    }
    if (!d->rc && u->more)
        d->rc = kiln_fail(&d->err, KILN_UNAVAILABLE, STOPPING);
    finish_upload(u);
}

static const struct deferred_step take_step = { .work_queue = WORK_QUEUE_WRITE,
                                                .work = take_work,
                                                .done = take_done };

static void prepare_work(struct deferred *d)
{
    struct upload *u = upload_of(d);
    d->rc = u->kind->prepare(u, &d->err);
}

static void prepare_done(struct deferred *d)
{
    if (!d->rc && d->engine->draining)
        d->rc = kiln_fail(&d->err, KILN_UNAVAILABLE, STOPPING);
    else if (!d->rc && !d->caller)
        d->rc = d->err.code = KILN_CANCELLED;
    if (!d->rc) {
        deferred_run(d, &take_step);
        return;
    }
    finish_upload(upload_of(d));
}

static const struct deferred_step prepare_step = { .work_queue = WORK_QUEUE_READ,
                                                   .work = prepare_work,
                                                   .done = prepare_done };

static void start_taking(struct upload *u)
{
    struct deferred *d = &u->base;
    if (!u->kind->in_turn) {
        deferred_run(d, u->kind->prepare ? &prepare_step : &take_step);
        return;
    }
    /* Does not pass d->err, because the step may set d->err if it begins and fails within this
     * call. */
    struct kiln_err err = KILN_ERR_INIT;
    if (deferred_enqueue(d, requests_queue(d->engine->requests, QUEUE_IMPORT_STEPS), &prepare_step,
                         &err) == KILN_OK)
        return;
    d->rc = err.code;
    d->err = err;
    finish_upload(u);
}

void upload_report(struct upload *u, const struct transfer_progress *p)
{
    if (!u->base.caller)
        return;
    KILN_AUTO(json) struct json *j = json_object();
    struct json *progress = json_object();
    json_set_text(progress, "stage", p->stage);
    json_set_u64(progress, "done", p->done);
    json_set_u64(progress, "total", p->total);
    json_set_u64(progress, "attempt", p->attempt);
    json_set_text(progress, "note", p->note);
    json_set(j, "progress", progress);
    admin_send(u->base.engine, u->base.caller, u->base.request_id, j, FRAME_MORE);
}

static void on_progress(struct transfer_task *transfer, const struct transfer_progress *p)
{
    upload_report(upload_of_transfer(transfer), p);
}

static void on_transferred(struct transfer_task *transfer)
{
    struct upload *u = upload_of_transfer(transfer);
    u->has_arrived = true;
    u->base.err = transfer->result.err;
    metrics_transfer_ended(&u->base.engine->metrics, u->kind->tier, transfer->job.url,
                           u->base.err.code);
    if (!u->base.err.code && !u->base.caller)
        u->base.err.code = KILN_CANCELLED; /* the transfer succeeded, but the caller has left */
    if (u->base.err.code == KILN_CANCELLED && u->base.engine->draining)
        kiln_fail(&u->base.err, KILN_UNAVAILABLE, STOPPING);
    u->base.rc = u->base.err.code;
    if (u->base.rc) {
        upload_end(u);
        return;
    }
    if (u->kind->pass)
        u->kind->pass(u);
    else
        start_taking(u);
}

static void cancel_transfer(struct upload *u)
{
    struct executor *executor = u->base.engine->executor;
    if (!u->has_arrived)
        executor->ops->transfer_cancel(executor, &u->transfer);
}

/* Cancels the transfer. The upload ends by itself when its transfer or its step ends. */
static bool stop_upload(struct deferred *d)
{
    cancel_transfer(upload_of(d));
    return false;
}

static const struct deferred_kind deferred_upload = { .size = sizeof(struct upload),
                                                      .stop = stop_upload,
                                                      .release = release_upload };

void uploads_cancel(struct engine *e)
{
    LIST_EACH (&uploads_of(e)->members, struct upload, base.member, u)
        cancel_transfer(u);
}

bool uploads_idle(const struct engine *e) { return list_is_empty(&uploads_of(e)->members); }

static enum kiln_code check_question(struct engine *e, const struct caller *caller, const char *url,
                                     struct kiln_err *err)
{
    if (!e->executor->ops->transfer)
        return kiln_fail(
            err, KILN_UNSUPPORTED,
            "this program keeps everything in memory: it cannot import packages or caches");
    if (e->draining)
        return kiln_fail(err, KILN_UNAVAILABLE, STOPPING);
    if (url && caller->file_count > 0)
        return kiln_fail(err, KILN_INVALID,
                         "the request has both a URL and a file: give one of them");
    if (!url && caller->file_count == 0)
        return kiln_fail(err, KILN_INVALID,
                         "the request has neither a URL nor a file: give one of them");
    return KILN_OK;
}

static uint64_t smaller_limit(uint64_t limit, uint64_t kind_limit)
{
    return kind_limit && kind_limit < limit ? kind_limit : limit;
}

uint64_t upload_limit_of_user(const struct engine *e, uint64_t kind_limit)
{
    return smaller_limit(e->package_service->import_limit, kind_limit);
}

static void fill_job(struct upload *u)
{
    const struct json *q = u->base.question;
    const struct package_service *service = u->base.engine->package_service;
    u->transfer.job = (struct transfer_job){
        .url = json_get_text(q, "url", NULL),
        .content_fd = u->files[0],
        .manifest_fd = u->kind->unchecked ? -1 : u->files[1],
        .name = json_get_text(q, "name", NULL),
        .sha256 = json_get_text(q, "sha256", NULL),
        .staging = service->staging,
        .trusted_keys = service->trusted_keys,
        .size_limit = smaller_limit(
            u->kind->of_user ? service->import_limit : service->package_limit, u->kind->size_limit),
        .require_signature = service->require_signature && !u->kind->of_user,
        .of_user = u->kind->of_user,
        .unchecked = u->kind->unchecked,
    };
    u->transfer.uid = u->base.uid;
    u->transfer.result.err = KILN_ERR_INIT;
    u->transfer.progress = on_progress;
    u->transfer.done = on_transferred;
}

void upload_next(struct upload *u, unsigned index, const char *name)
{
    fill_job(u);
    u->transfer.job.content_fd = u->files[index];
    u->transfer.job.name = name;
    free(u->transfer.result.manifest);
    u->transfer.result = (struct transfer_result){ .err = KILN_ERR_INIT };
    u->has_arrived = false;
    u->base.engine->executor->ops->transfer(u->base.engine->executor, &u->transfer);
}

enum kiln_code upload_begin(struct engine *e, const struct request *request,
                            const struct upload_kind *kind, struct json *question,
                            struct kiln_err *err)
{
    struct caller *caller = request->caller;
    KILN_AUTO(json) struct json *owned = question;
    enum kiln_code rc = check_question(e, caller, json_get_text(question, "url", NULL), err);
    if (rc)
        return rc;
    struct upload *u =
        deferred_create(&deferred_upload, e, caller, request->header->request_id, err);
    if (!u)
        return err->code;
    u->kind = kind;
    u->base.question = KILN_TAKE(owned);
    u->base.answer = json_object();
    for (unsigned i = 0; i < LIMIT_REQUEST_FILES; i++)
        u->files[i] = -1;
    rc = deferred_join(&u->base, uploads_of(e), err);
    if (rc) {
        deferred_destroy(&u->base);
        return rc;
    }
    for (unsigned i = 0; i < caller->file_count; i++) {
        u->files[i] = caller->files[i];
        caller->files[i] = -1;
    }
    fill_job(u);
    deferred_wait(&u->base);
    e->executor->ops->transfer(e->executor, &u->transfer);
    return KILN_OK;
}
