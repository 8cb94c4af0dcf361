/* SPDX-License-Identifier: MIT */
#include "engine/service/deferred.h"

#include "common/base/subordinate_uids.h"
#include "engine/service/budget.h"
#include "engine/service/kernels/toolchain_waits.h"
#include "engine/service/metrics/request_metrics.h"
#include "engine/service/requests/admin.h"

#include <stdlib.h>

void *deferred_create(const struct deferred_kind *kind, struct engine *e, struct caller *caller,
                      uint64_t request_id, struct kiln_err *err)
{
    if (budget_take(e->budget, caller->uid, kind->size, err))
        return NULL;
    struct deferred *d = calloc(1, kind->size);
    if (!d) {
        budget_return(e->budget, caller->uid, kind->size);
        kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
        return NULL;
    }
    d->kind = kind;
    d->engine = e;
    d->caller = caller;
    d->request_id = request_id;
    d->uid = caller->uid;
    d->role = caller->role;
    d->is_admin = caller->role == ROLE_ADMIN;
    d->charged = kind->size;
    return d;
}

enum kiln_code deferred_charge(struct deferred *d, uint64_t bytes, struct kiln_err *err)
{
    enum kiln_code rc = budget_take(d->engine->budget, d->uid, bytes, err);
    if (!rc)
        d->charged += bytes;
    return rc;
}

void deferred_refund(struct deferred *d, uint64_t bytes)
{
    d->charged -= bytes;
    budget_return(d->engine->budget, d->uid, bytes);
}

void deferred_wait(struct deferred *d)
{
    list_prepend(&d->caller->unanswered, &d->link);
    d->caller->in_flight++;
    request_waits(&d->engine->metrics, d);
}

enum kiln_code deferred_wait_or_destroy(struct deferred *d, enum kiln_code rc)
{
    if (rc)
        deferred_destroy(d);
    else
        deferred_wait(d);
    return rc;
}

static enum kiln_code check_group(const struct deferred *d, const struct request_group *group,
                                  struct kiln_err *err)
{
    unsigned all = 0, own = 0;
    unsigned max = group->max - (d->is_admin ? 0 : group->kept_for_admin);
    unsigned max_uid = d->is_admin ? group->max_uid_admin : group->max_uid;
    LIST_EACH (&group->members, struct deferred, member, other) {
        all++;
        own += is_one_user(other->uid, d->uid);
    }
    if (max_uid && own >= max_uid)
        return kiln_fail(err, KILN_BUSY,
                         "%s: user %u has %u unanswered requests, which is the maximum of one "
                         "user: try again when some are done",
                         group->noun, (unsigned)d->uid, own);
    if (group->max && all >= max)
        return kiln_fail(
            err, KILN_BUSY,
            "%s: %u requests are in progress, which is the maximum: try again when some are done",
            group->noun, all);
    return KILN_OK;
}

enum kiln_code deferred_join(struct deferred *d, struct request_group *group, struct kiln_err *err)
{
    enum kiln_code rc = check_group(d, group, err);
    if (rc)
        return rc;
    d->group = group;
    list_append(&group->members, &d->member);
    return KILN_OK;
}

static struct deferred *deferred_of_task(struct task *task)
{
    return LIST_ENTRY(task, struct deferred, task);
}

static void step_work(struct task *task)
{
    struct deferred *d = deferred_of_task(task);
    d->step->work(d);
}

static void start_next(struct request_queue *queue);

/* Charges the step's time to the user, and starts the queue's next request. When the step was
 * popped, the fair queue charged only one unit, because the time was not known yet. */
static void leave_work_queue(struct deferred *d)
{
    struct request_queue *queue = d->queue;
    d->queue = NULL;
    if (!queue)
        return;
    fair_queue_settle(&queue->waiting, d->uid, d->worked_ns);
    queue->running = NULL;
    start_next(queue);
}

static bool withdraw_step(struct deferred *d)
{
    if (!d->is_running || !d->step->work ||
        !engine_cancel(d->engine, d->step->work_queue, &d->task))
        return false;
    d->is_running = false;
    leave_work_queue(d);
    return true;
}

static void free_deferred(struct deferred *d)
{
    if (d->kind->release)
        d->kind->release(d);
    toolchain_wait_destroy(d->toolchains);
    json_destroy(d->question);
    json_destroy(d->answer);
    budget_return(d->engine->budget, d->uid, d->charged);
    free(d);
}

static void start_task(struct deferred *d);

static void step_done(struct task *task)
{
    struct deferred *d = deferred_of_task(task);
    engine_task_ended(d->engine);
    d->worked_ns += task->worked_ns;
    if (!d->is_over && d->step->again && d->step->again(d)) {
        start_task(d);
        return;
    }
    d->is_running = false;
    leave_work_queue(d);
    if (d->is_over)
        free_deferred(d);
    else if (d->step->done)
        d->step->done(d);
    else
        deferred_end(d);
}

static void start_task(struct deferred *d)
{
    d->task = (struct task){ .work = step_work, .done = step_done, .is_brief = d->step->is_brief };
    if (d->step->work)
        engine_run(d->engine, d->uid, d->step->work_queue, &d->task);
    else
        engine_later(d->engine, d->uid, &d->task);
}

static void start_step(struct deferred *d)
{
    d->is_running = true;
    d->worked_ns = 0;
    if (d->step->begin)
        d->step->begin(d);
    start_task(d);
}

void deferred_run(struct deferred *d, const struct deferred_step *step)
{
    d->step = step;
    start_step(d);
}

static void start_next(struct request_queue *queue)
{
    if (queue->running)
        return;
    struct fair_item *item = fair_queue_pop(&queue->waiting);
    if (!item)
        return;
    queue->running = LIST_ENTRY(item, struct deferred, slot);
    start_step(queue->running);
}

struct deferred *request_queue_pop(struct request_queue *queue)
{
    struct fair_item *item = fair_queue_pop(&queue->waiting);
    struct deferred *d = item ? LIST_ENTRY(item, struct deferred, slot) : NULL;
    if (d)
        d->queue = NULL;
    return d;
}

enum kiln_code deferred_enqueue(struct deferred *d, struct request_queue *queue,
                                const struct deferred_step *step, struct kiln_err *err)
{
    enum kiln_code rc = fair_queue_push(&queue->waiting, d->uid, &d->slot, err);
    if (rc)
        return rc;
    d->queue = queue;
    d->step = step;
    start_next(queue);
    return KILN_OK;
}

void request_queue_init(struct request_queue *queue, const struct fair_queue_options *options)
{
    fair_queue_init(&queue->waiting, options);
    queue->running = NULL;
}

void request_queue_done(struct request_queue *queue) { fair_queue_done(&queue->waiting); }

void deferred_leave(struct deferred *d)
{
    if (list_holds(&d->link)) {
        list_remove(&d->link);
        d->caller->in_flight--;
        request_waits_no_more(&d->engine->metrics, d);
    }
    d->caller = NULL;
}

void deferred_destroy(struct deferred *d)
{
    deferred_leave(d);
    if (d->queue && !d->is_running)
        fair_queue_remove(&d->queue->waiting, &d->slot);
    list_remove(&d->member);
    if (d->is_running && !withdraw_step(d))
        d->is_over = true;
    else
        free_deferred(d);
}

static bool may_stop(struct deferred *d) { return !d->kind->stop || d->kind->stop(d); }

void deferred_cancel(struct deferred *d)
{
    deferred_leave(d);
    bool may_end = may_stop(d);
    if (may_end && withdraw_step(d))
        may_end = may_stop(d); /* no step runs now, so |stop| may answer differently */
    if (may_end && !d->is_running)
        deferred_destroy(d);
}

void deferred_fail(struct deferred *d, const struct kiln_err *why, const char *log)
{
    struct caller *caller = d->caller;
    if (caller)
        service_refuse(d->engine, caller, d->request_id, why, log);
    deferred_cancel(d);
}

void deferred_answer(struct deferred *d)
{
    struct caller *caller = d->caller;
    deferred_leave(d);
    if (d->rc && !d->err.code)
        d->err.code = d->rc;
    if (caller && d->rc)
        service_refuse(d->engine, caller, d->request_id, &d->err, NULL);
    else if (caller && d->kind->reply)
        d->kind->reply(d, caller);
    else if (caller)
        admin_send(d->engine, caller, d->request_id, d->answer, 0);
}

void deferred_end(struct deferred *d)
{
    deferred_answer(d);
    deferred_destroy(d);
}
