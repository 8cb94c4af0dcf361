/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/uploads.h"

#include "engine/jobs/transfer_limits.h"

#include <string.h>

#define STOPPING "kilnd is stopping: ask again"

static struct upload *upload_of_task(struct task *t)
{
    return (struct upload *)(void *)((char *)t - offsetof(struct upload, task));
}

static struct upload *upload_of_transfer(struct transfer_task *t)
{
    return (struct upload *)(void *)((char *)t - offsetof(struct upload, transfer));
}

static void close_file(struct upload *u, int fd)
{
    struct executor *executor = u->engine->executor;
    if (executor->ops->close_file)
        executor->ops->close_file(executor, u->uid, fd);
    else
        close(fd);
}

static void upload_free(struct upload *u)
{
    struct engine *e = u->engine;
    *(u->previous ? &u->previous->next : &e->uploads) = u->next;
    if (u->next)
        u->next->previous = u->previous;
    e->upload_count--;
    json_destroy(u->question);
    json_destroy(u->answer);
    free(u->transfer.outcome.manifest);
    free(u);
}

static void clear_work(struct task *task)
{
    struct upload *u = upload_of_task(task);
    if (u->state)
        u->kind->state_destroy(u->state);
    if (u->transfer.outcome.path[0])
        unlink(u->transfer.outcome.path);
}

static void clear_done(struct task *task)
{
    struct upload *u = upload_of_task(task);
    engine_task_ended(u->engine);
    upload_free(u);
}

/* Gigabytes take their time to be removed. */
static void upload_destroy(struct upload *u)
{
    service_waiter_remove(&u->waiter);
    for (size_t i = 0; i < LIMIT_REQUEST_FILES; i++) {
        if (u->files[i] >= 0)
            close_file(u, u->files[i]);
        u->files[i] = -1;
    }
    if (!u->state && !u->transfer.outcome.path[0]) {
        upload_free(u);
        return;
    }
    u->task = (struct task){ .work = clear_work, .done = clear_done };
    engine_run(u->engine, LANE_READ, &u->task);
}

void upload_taken(struct upload *u) { u->transfer.outcome.path[0] = '\0'; }

void upload_end(struct upload *u)
{
    struct engine *e = u->engine;
    struct caller *caller = u->waiter.caller;
    uint64_t id = u->waiter.request_id;
    service_waiter_remove(&u->waiter);
    if (caller && u->rc)
        service_refuse(e, caller, id, &u->err, NULL);
    else if (caller)
        admin_send(e, caller, id, u->answer, 0);
    upload_destroy(u);
}

/* ---- taking the checked file ---- */

static void take_work(struct task *task)
{
    struct upload *u = upload_of_task(task);
    u->more = false;
    u->rc = u->kind->take(u, &u->more, &u->err);
}

static void take_done(struct task *task)
{
    struct upload *u = upload_of_task(task);
    struct engine *e = u->engine;
    engine_task_ended(e);
    if (u->kind->taken)
        u->kind->taken(u);
    event_after_write(e, KILN_OK, &u->err); /* a failure is the asker's to hear */
    if (!u->rc && u->more && !e->draining && u->waiter.caller) {
        engine_run(e, LANE_WRITE, &u->task); /* others' writes come in between */
        return;
    }
    if (!u->rc && u->more)
        u->rc = kiln_fail(&u->err, KILN_UNAVAILABLE, STOPPING);
    if (u->kind->finish)
        u->kind->finish(u);
    upload_end(u);
}

static void take(struct upload *u)
{
    u->task = (struct task){ .work = take_work, .done = take_done };
    engine_run(u->engine, LANE_WRITE, &u->task);
}

static void check_work(struct task *task)
{
    struct upload *u = upload_of_task(task);
    u->rc = u->kind->check(u, &u->err);
}

static void check_done(struct task *task)
{
    struct upload *u = upload_of_task(task);
    engine_task_ended(u->engine);
    if (!u->rc && u->engine->draining)
        u->rc = kiln_fail(&u->err, KILN_UNAVAILABLE, STOPPING);
    else if (!u->rc && !u->waiter.caller)
        u->rc = u->err.code = KILN_CANCELLED;
    if (u->rc)
        upload_end(u);
    else
        take(u);
}

static void check_then_take(struct upload *u)
{
    if (!u->kind->check) {
        take(u);
        return;
    }
    u->task = (struct task){ .work = check_work, .done = check_done };
    engine_run(u->engine, LANE_READ, &u->task);
}

/* ---- the transfer ---- */

static void on_progress(struct transfer_task *transfer, const struct transfer_progress *p)
{
    struct upload *u = upload_of_transfer(transfer);
    if (!u->waiter.caller)
        return;
    KILN_AUTO(json) struct json *j = json_object();
    struct json *progress = json_object();
    json_set_text(progress, "stage", p->stage);
    json_set_u64(progress, "done", p->done);
    json_set_u64(progress, "total", p->total);
    json_set_u64(progress, "attempt", p->attempt);
    json_set_text(progress, "note", p->note);
    json_set(j, "progress", progress);
    admin_send(u->engine, u->waiter.caller, u->waiter.request_id, j, FRAME_MORE);
}

static void on_transferred(struct transfer_task *transfer)
{
    struct upload *u = upload_of_transfer(transfer);
    u->has_arrived = true;
    u->err = transfer->outcome.err;
    figures_transfer_ended(&u->engine->figures, u->kind->tier, transfer->job.url, u->err.code);
    if (!u->err.code && !u->waiter.caller)
        u->err.code = KILN_CANCELLED; /* it had arrived when the caller left */
    if (u->err.code == KILN_CANCELLED && u->engine->draining)
        kiln_fail(&u->err, KILN_UNAVAILABLE, STOPPING);
    u->rc = u->err.code;
    if (u->rc) {
        upload_end(u);
        return;
    }
    if (u->kind->pass)
        u->kind->pass(u);
    else
        check_then_take(u);
}

/* The caller left: what is on its way is of no use. */
static void cancel_upload(struct service_waiter *w)
{
    struct upload *u = (struct upload *)w;
    service_waiter_remove(w);
    if (!u->has_arrived)
        u->engine->executor->ops->transfer_cancel(u->engine->executor, &u->transfer);
}

void uploads_cancel(struct engine *e)
{
    for (struct upload *u = e->uploads; u; u = u->next) {
        if (!u->has_arrived)
            e->executor->ops->transfer_cancel(e->executor, &u->transfer);
    }
}

static unsigned count_of_user(const struct engine *e, uid_t uid)
{
    unsigned count = 0;
    for (const struct upload *u = e->uploads; u; u = u->next)
        count += u->uid == uid;
    return count;
}

static enum kiln_code check_room(const struct engine *e, const struct caller *caller,
                                 struct kiln_err *err)
{
    bool is_admin = caller->role == ROLE_ADMIN;
    if (!is_admin && count_of_user(e, caller->uid) >= UPLOADS_MAX_UID)
        return kiln_fail(err, KILN_BUSY,
                         "%u imports of yours (uid %u) are under way, as many as a user may have "
                         "at once: ask again when one has ended",
                         UPLOADS_MAX_UID, (unsigned)caller->uid);
    if (e->upload_count >= UPLOADS_MAX - (is_admin ? 0 : UPLOADS_FOR_ADMINS))
        return kiln_fail(err, KILN_BUSY,
                         "%u packages and caches are on their way in already: ask again when some "
                         "have ended",
                         e->upload_count);
    return KILN_OK;
}

static enum kiln_code check_question(struct engine *e, const struct caller *caller, const char *url,
                                     struct kiln_err *err)
{
    if (!e->executor->ops->transfer)
        return kiln_fail(
            err, KILN_UNSUPPORTED,
            "this process keeps all in memory: packages and caches cannot be brought in");
    if (e->draining)
        return kiln_fail(err, KILN_UNAVAILABLE, STOPPING);
    enum kiln_code rc = check_room(e, caller, err);
    if (rc)
        return rc;
    if (url && caller->file_count > 0)
        return kiln_fail(err, KILN_INVALID, "a URL and a file came: give one of them");
    if (!url && caller->file_count == 0)
        return kiln_fail(err, KILN_INVALID, "neither a URL nor a file came");
    return KILN_OK;
}

static void fill_job(struct upload *u)
{
    const struct json *q = u->question;
    struct engine *e = u->engine;
    u->transfer.job = (struct transfer_job){
        .url = json_get_text(q, "url", NULL),
        .content_fd = u->files[0],
        .manifest_fd = u->kind->unchecked ? -1 : u->files[1],
        .name = json_get_text(q, "name", NULL),
        .sha256 = json_get_text(q, "sha256", NULL),
        .staging = e->staging,
        .trusted_keys = e->trusted_keys,
        .size_limit = u->kind->salvage ? e->import_limit : e->package_limit,
        .require_signature = e->require_signature && !u->kind->salvage,
        .salvage = u->kind->salvage,
        .unchecked = u->kind->unchecked,
    };
    if (u->kind->size_limit && u->kind->size_limit < u->transfer.job.size_limit)
        u->transfer.job.size_limit = u->kind->size_limit;
    u->transfer.uid = u->uid;
    u->transfer.is_admin = u->is_admin;
    u->transfer.outcome.err = KILN_ERR_INIT;
    u->transfer.progress = on_progress;
    u->transfer.done = on_transferred;
}

void upload_next(struct upload *u, unsigned index, const char *name)
{
    fill_job(u);
    u->transfer.job.content_fd = u->files[index];
    u->transfer.job.name = name;
    free(u->transfer.outcome.manifest);
    u->transfer.outcome = (struct transfer_outcome){ .err = KILN_ERR_INIT };
    u->has_arrived = false;
    u->engine->executor->ops->transfer(u->engine->executor, &u->transfer);
}

enum kiln_code upload_begin(struct engine *e, struct caller *caller,
                            const struct frame_header *header, const struct upload_kind *kind,
                            struct json *question, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *owned = question;
    enum kiln_code rc = check_question(e, caller, json_get_text(question, "url", NULL), err);
    if (rc)
        return rc;
    struct upload *u = calloc(1, sizeof(*u));
    if (!u)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request");
    u->engine = e;
    u->kind = kind;
    u->question = KILN_TAKE(owned);
    u->answer = json_object();
    u->err = KILN_ERR_INIT;
    u->uid = caller->uid;
    u->is_admin = caller->role == ROLE_ADMIN;
    u->role = caller->role;
    for (unsigned i = 0; i < LIMIT_REQUEST_FILES; i++) {
        u->files[i] = i < caller->file_count ? caller->files[i] : -1;
        caller->files[i] = -1;
    }
    u->next = e->uploads;
    if (u->next)
        u->next->previous = u;
    e->uploads = u;
    e->upload_count++;
    fill_job(u);
    service_waiter_add(&u->waiter, e, caller, header->request_id, cancel_upload);
    e->executor->ops->transfer(e->executor, &u->transfer);
    return KILN_OK;
}
