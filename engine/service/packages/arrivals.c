/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/arrivals.h"

#include <string.h>

/* Each is a process that downloads and checks. */
#define ARRIVALS_MOST 16
/* Of those, only for administrators: users' imports must not keep packages out. */
#define ARRIVALS_FOR_ADMINS 4
/* A user's, who is no administrator. */
#define ARRIVALS_OF_ONE_USER 2

#define STOPPING "kilnd is stopping: ask again"

static struct arrival *arrival_of_task(struct task *t)
{
    return (struct arrival *)(void *)((char *)t - offsetof(struct arrival, task));
}

static struct arrival *arrival_of_transfer(struct transfer_task *t)
{
    return (struct arrival *)(void *)((char *)t - offsetof(struct arrival, transfer));
}

static void close_file(struct arrival *a, int fd)
{
    struct executor *executor = a->engine->executor;
    if (executor->ops->close_file)
        executor->ops->close_file(executor, a->uid, fd);
    else
        close(fd);
}

static void arrival_free(struct arrival *a)
{
    struct engine *e = a->engine;
    *(a->previous ? &a->previous->next : &e->arrivals) = a->next;
    if (a->next)
        a->next->previous = a->previous;
    e->arrival_count--;
    json_destroy(a->question);
    json_destroy(a->answer);
    free(a->transfer.outcome.manifest);
    free(a);
}

static void clear_work(struct task *task)
{
    struct arrival *a = arrival_of_task(task);
    if (a->state)
        a->kind->state_destroy(a->state);
    if (a->transfer.outcome.path[0])
        unlink(a->transfer.outcome.path);
}

static void clear_done(struct task *task)
{
    struct arrival *a = arrival_of_task(task);
    engine_task_ended(a->engine);
    arrival_free(a);
}

/* Gigabytes take their time to be removed. */
static void arrival_destroy(struct arrival *a)
{
    service_waiter_remove(&a->waiter);
    for (size_t i = 0; i < LIMIT_REQUEST_FILES; i++) {
        if (a->files[i] >= 0)
            close_file(a, a->files[i]);
        a->files[i] = -1;
    }
    if (!a->state && !a->transfer.outcome.path[0]) {
        arrival_free(a);
        return;
    }
    a->task = (struct task){ .work = clear_work, .done = clear_done };
    engine_run(a->engine, LANE_READ, &a->task);
}

void arrival_taken(struct arrival *a) { a->transfer.outcome.path[0] = '\0'; }

void arrival_end(struct arrival *a)
{
    struct engine *e = a->engine;
    struct caller *caller = a->waiter.caller;
    uint64_t id = a->waiter.request_id;
    service_waiter_remove(&a->waiter);
    if (caller && a->rc)
        service_refuse(e, caller, id, &a->err, NULL);
    else if (caller)
        admin_send(e, caller, id, a->answer, 0);
    arrival_destroy(a);
}

/* ---- taking the checked file ---- */

static void take_work(struct task *task)
{
    struct arrival *a = arrival_of_task(task);
    a->more = false;
    a->rc = a->kind->take(a, &a->more, &a->err);
}

static void take_done(struct task *task)
{
    struct arrival *a = arrival_of_task(task);
    struct engine *e = a->engine;
    engine_task_ended(e);
    if (a->kind->taken)
        a->kind->taken(a);
    event_after_write(e, KILN_OK, &a->err); /* a failure is the asker's to hear */
    if (!a->rc && a->more && !e->draining && a->waiter.caller) {
        engine_run(e, LANE_WRITE, &a->task); /* others' writes come in between */
        return;
    }
    if (!a->rc && a->more)
        a->rc = kiln_fail(&a->err, KILN_UNAVAILABLE, STOPPING);
    if (a->kind->finish)
        a->kind->finish(a);
    arrival_end(a);
}

static void take(struct arrival *a)
{
    a->task = (struct task){ .work = take_work, .done = take_done };
    engine_run(a->engine, LANE_WRITE, &a->task);
}

static void check_work(struct task *task)
{
    struct arrival *a = arrival_of_task(task);
    a->rc = a->kind->check(a, &a->err);
}

static void check_done(struct task *task)
{
    struct arrival *a = arrival_of_task(task);
    engine_task_ended(a->engine);
    if (!a->rc && a->engine->draining)
        a->rc = kiln_fail(&a->err, KILN_UNAVAILABLE, STOPPING);
    else if (!a->rc && !a->waiter.caller)
        a->rc = a->err.code = KILN_CANCELLED;
    if (a->rc)
        arrival_end(a);
    else
        take(a);
}

static void check_then_take(struct arrival *a)
{
    if (!a->kind->check) {
        take(a);
        return;
    }
    a->task = (struct task){ .work = check_work, .done = check_done };
    engine_run(a->engine, LANE_READ, &a->task);
}

/* ---- the transfer ---- */

static void on_progress(struct transfer_task *transfer, const struct transfer_progress *p)
{
    struct arrival *a = arrival_of_transfer(transfer);
    if (!a->waiter.caller)
        return;
    KILN_AUTO(json) struct json *j = json_object();
    struct json *progress = json_object();
    json_set_text(progress, "stage", p->stage);
    json_set_u64(progress, "done", p->done);
    json_set_u64(progress, "total", p->total);
    json_set_u64(progress, "attempt", p->attempt);
    json_set_text(progress, "note", p->note);
    json_set(j, "progress", progress);
    admin_send(a->engine, a->waiter.caller, a->waiter.request_id, j, FRAME_MORE);
}

static void on_transferred(struct transfer_task *transfer)
{
    struct arrival *a = arrival_of_transfer(transfer);
    a->has_arrived = true;
    a->err = transfer->outcome.err;
    figures_transfer_ended(&a->engine->figures, a->kind->tier, transfer->job.url, a->err.code);
    if (!a->err.code && !a->waiter.caller)
        a->err.code = KILN_CANCELLED; /* it had arrived when the caller left */
    if (a->err.code == KILN_CANCELLED && a->engine->draining)
        kiln_fail(&a->err, KILN_UNAVAILABLE, STOPPING);
    a->rc = a->err.code;
    if (a->rc) {
        arrival_end(a);
        return;
    }
    if (a->kind->pass)
        a->kind->pass(a);
    else
        check_then_take(a);
}

/* The caller left: what is on its way is of no use. */
static void cancel_arrival(struct service_waiter *w)
{
    struct arrival *a = (struct arrival *)w;
    service_waiter_remove(w);
    if (!a->has_arrived)
        a->engine->executor->ops->transfer_cancel(a->engine->executor, &a->transfer);
}

void arrivals_cancel(struct engine *e)
{
    for (struct arrival *a = e->arrivals; a; a = a->next) {
        if (!a->has_arrived)
            e->executor->ops->transfer_cancel(e->executor, &a->transfer);
    }
}

static unsigned count_of_user(const struct engine *e, uid_t uid)
{
    unsigned count = 0;
    for (const struct arrival *a = e->arrivals; a; a = a->next)
        count += a->uid == uid;
    return count;
}

static enum kiln_code check_room(const struct engine *e, const struct caller *caller,
                                 struct kiln_err *err)
{
    bool is_admin = caller->role == ROLE_ADMIN;
    if (!is_admin && count_of_user(e, caller->uid) >= ARRIVALS_OF_ONE_USER)
        return kiln_fail(err, KILN_BUSY,
                         "%d imports of yours (uid %u) are under way, as many as a user may have "
                         "at once: ask again when one has ended",
                         ARRIVALS_OF_ONE_USER, (unsigned)caller->uid);
    if (e->arrival_count >= ARRIVALS_MOST - (is_admin ? 0 : ARRIVALS_FOR_ADMINS))
        return kiln_fail(err, KILN_BUSY,
                         "%u packages and caches are on their way in already: ask again when some "
                         "have ended",
                         e->arrival_count);
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

static void fill_job(struct arrival *a)
{
    const struct json *q = a->question;
    struct engine *e = a->engine;
    a->transfer.job = (struct transfer_job){
        .url = json_get_text(q, "url", NULL),
        .content_fd = a->files[0],
        .manifest_fd = a->kind->unchecked ? -1 : a->files[1],
        .name = json_get_text(q, "name", NULL),
        .sha256 = json_get_text(q, "sha256", NULL),
        .staging = e->staging,
        .trusted_keys = e->trusted_keys,
        .size_limit = a->kind->salvage ? e->import_limit : e->package_limit,
        .require_signature = e->require_signature && !a->kind->salvage,
        .salvage = a->kind->salvage,
        .unchecked = a->kind->unchecked,
    };
    if (a->kind->size_limit && a->kind->size_limit < a->transfer.job.size_limit)
        a->transfer.job.size_limit = a->kind->size_limit;
    a->transfer.uid = a->uid;
    a->transfer.is_admin = a->is_admin;
    a->transfer.outcome.err = KILN_ERR_INIT;
    a->transfer.progress = on_progress;
    a->transfer.done = on_transferred;
}

void arrival_next(struct arrival *a, unsigned index, const char *name)
{
    fill_job(a);
    a->transfer.job.content_fd = a->files[index];
    a->transfer.job.name = name;
    free(a->transfer.outcome.manifest);
    a->transfer.outcome = (struct transfer_outcome){ .err = KILN_ERR_INIT };
    a->has_arrived = false;
    a->engine->executor->ops->transfer(a->engine->executor, &a->transfer);
}

enum kiln_code arrival_begin(struct engine *e, struct caller *caller,
                             const struct frame_header *header, const struct arrival_kind *kind,
                             struct json *question, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *owned = question;
    enum kiln_code rc = check_question(e, caller, json_get_text(question, "url", NULL), err);
    if (rc)
        return rc;
    struct arrival *a = calloc(1, sizeof(*a));
    if (!a)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request");
    a->engine = e;
    a->kind = kind;
    a->question = KILN_TAKE(owned);
    a->answer = json_object();
    a->err = KILN_ERR_INIT;
    a->uid = caller->uid;
    a->is_admin = caller->role == ROLE_ADMIN;
    a->role = caller->role;
    for (unsigned i = 0; i < LIMIT_REQUEST_FILES; i++) {
        a->files[i] = i < caller->file_count ? caller->files[i] : -1;
        caller->files[i] = -1;
    }
    a->next = e->arrivals;
    if (a->next)
        a->next->previous = a;
    e->arrivals = a;
    e->arrival_count++;
    fill_job(a);
    service_waiter_add(&a->waiter, e, caller, header->request_id, cancel_arrival);
    e->executor->ops->transfer(e->executor, &a->transfer);
    return KILN_OK;
}
