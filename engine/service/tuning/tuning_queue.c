/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_queue.h"

#include "engine/service/tuning/tuning_state.h"

/* Limit of waiting changes of either queue: each is a request whose client waits with a
 * time-out. */
#define WAITING_MAX 1024u
#define WAITING_MAX_UID 64u
/* Short changes that go before a step of a long one. */
#define SHORTS_MAX 32u

static void start_next(struct engine *e);

static struct tuning_change *change_of_item(struct fair_item *item)
{
    return item ? LIST_ENTRY(item, struct tuning_change, item) : NULL;
}

static struct fair_queue *queue_of(struct tuning_queue *queue, const struct tuning_change *change)
{
    return &queue->waiting[change->kind->is_short];
}

/* ---- one change ---- */

static void add_counts(struct tuning_counts *to, const struct tuning_counts *more)
{
    to->records += more->records;
    to->entries += more->entries;
    to->added += more->added;
    to->replaced += more->replaced;
    to->removed += more->removed;
    to->bad += more->bad;
    to->verbatim += more->verbatim;
    to->conflicts += more->conflicts;
    to->held += more->held;
    to->bytes += more->bytes;
    to->before += more->before;
}

static void drop_job(struct tuning_change *change)
{
    if (change->job)
        add_counts(&change->counts, tuning_job_counts(change->job));
    tuning_job_destroy(change->job);
    change->job = NULL;
}

static void end_change(struct tuning_change *change)
{
    struct tuning_queue *queue = &change->request->engine->tuning->queue;
    queue->running = NULL;
    fair_queue_settle(queue_of(queue, change), change->request->uid, change->worked_ns);
    change->kind->ended(change);
}

static void work_step(struct tuning_change *change)
{
    struct tuning *databases = change->request->engine->tuning->databases;
    if (change->stepping) { /* an empty step, so that other work runs in between */
        if (change->taken)
            tuning_job_clear(change->job);
        return;
    }
    if (change->job)
        change->request->rc = tuning_job_work(change->job, &change->events, &change->request->err);
    if (!change->request->rc && change->kind->work)
        change->request->rc = change->kind->work(change, databases, &change->request->err);
}

static void work_on_work_queue(struct task *task)
{
    work_step(LIST_ENTRY(task, struct tuning_change, task));
}

/* False: the change failed to begin its next step. */
static bool begin_step(struct tuning_change *change)
{
    struct engine *e = change->request->engine;
    change->more = change->stepping = change->taken = false;
    change->request->rc = change->kind->begin(change, e->tuning->databases, &change->request->err);
    if (change->request->rc) {
        change->more = false;
        return false;
    }
    engine_run(e, change->request->uid, WORK_QUEUE_TUNING, &change->task);
    return true;
}

static bool send_progress(struct tuning_change *change)
{
    return change->kind->send_progress && change->kind->send_progress(change);
}

static void work_queue_done(struct task *task)
{
    struct tuning_change *change = LIST_ENTRY(task, struct tuning_change, task);
    struct engine *e = change->request->engine;
    struct tuning_queue *queue = &e->tuning->queue;
    engine_task_ended(e);
    change->worked_ns += task->worked_ns;
    bool again = send_progress(change);
    if (!change->request->rc && change->job && !change->taken) {
        change->taken = tuning_job_take(e->tuning->databases, change->job);
        again = true; /* for the rest, or to free what was replaced */
    }
    if (again) {
        change->stepping = true;
        engine_run(e, change->request->uid, WORK_QUEUE_TUNING, &change->task);
        return;
    }
    drop_job(change);
    if (!change->request->rc && change->more && e->draining)
        change->request->rc = kiln_fail(&change->request->err, KILN_UNAVAILABLE, TUNING_STOPPING);
    if (!change->request->rc && change->more) {
        queue->running = NULL;
        queue->paused = change;
    } else {
        end_change(change);
    }
    start_next(e);
}

/* ---- all changes ---- */

void tuning_queue_init(struct tuning_queue *queue)
{
    static const struct fair_queue_options options = { .max = WAITING_MAX,
                                                       .max_uid = WAITING_MAX_UID,
                                                       .noun = "changes of tuning records" };
    *queue = (struct tuning_queue){ .running = NULL };
    for (int i = 0; i < 2; i++)
        fair_queue_init(&queue->waiting[i], &options);
}

void tuning_queue_done(struct tuning_queue *queue)
{
    for (int i = 0; i < 2; i++)
        fair_queue_done(&queue->waiting[i]);
}

static struct tuning_change *pop_waiting(struct tuning_queue *queue, bool is_short)
{
    return change_of_item(fair_queue_pop(&queue->waiting[is_short]));
}

static struct tuning_change *take_long(struct tuning_queue *queue)
{
    struct tuning_change *change = queue->paused;
    queue->paused = NULL;
    if (!change)
        change = pop_waiting(queue, /* is_short= */ false);
    if (change)
        queue->shorts = 0;
    return change;
}

static struct tuning_change *take_next(struct tuning_queue *queue)
{
    struct tuning_change *change = NULL;
    if (queue->shorts >= SHORTS_MAX)
        change = take_long(queue);
    if (!change) {
        change = pop_waiting(queue, /* is_short= */ true);
        queue->shorts += change != NULL;
    }
    return change ? change : take_long(queue);
}

static void start_next(struct engine *e)
{
    struct tuning_queue *queue = &e->tuning->queue;
    while (!queue->running) {
        struct tuning_change *change = take_next(queue);
        if (!change)
            return;
        queue->running = change;
        if (!begin_step(change))
            end_change(change);
    }
}

enum kiln_code tuning_queue_add(struct tuning_change *change, struct kiln_err *err)
{
    struct deferred *request = change->request;
    struct engine *e = request->engine;
    enum kiln_code rc = tuning_ready(e, err);
    if (!rc)
        rc = fair_queue_push(queue_of(&e->tuning->queue, change), request->uid, &change->item, err);
    if (rc)
        return rc;
    change->task = (struct task){ .work = work_on_work_queue, .done = work_queue_done };
    start_next(e);
    return KILN_OK;
}

bool tuning_queue_withdraw(struct tuning_change *change)
{
    return fair_queue_remove(queue_of(&change->request->engine->tuning->queue, change),
                             &change->item);
}

static struct tuning_change *take_any(struct tuning_queue *queue)
{
    struct tuning_change *change = pop_waiting(queue, /* is_short= */ true);
    return change ? change : take_long(queue);
}

void tuning_queue_drain(struct engine *e)
{
    struct tuning_queue *queue = &e->tuning->queue;
    for (struct tuning_change *change; (change = take_any(queue));) {
        change->request->rc = kiln_fail(&change->request->err, KILN_UNAVAILABLE, TUNING_STOPPING);
        change->kind->ended(change);
    }
}

void tuning_queue_tick(struct engine *e)
{
    if (e->tuning->queue.running)
        (void)send_progress(e->tuning->queue.running);
}
