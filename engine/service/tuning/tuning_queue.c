/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_queue.h"

#include "engine/service/tuning/tuning_state.h"

/* Limit of waiting changes of either queue: each is a request whose client waits with a
 * time-out. */
#define WAITING_MAX 1024u
#define WAITING_MAX_UID 64u
/* Short changes that wait go before a step of a long one for at least so long, and for as long as
 * the last such step took. */
#define SHORTS_NS 20000000u

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

/* Charges the step to the user. */
static void settle_step(struct tuning_queue *queue, struct tuning_change *change)
{
    fair_queue_settle(queue_of(queue, change), change->request->uid, change->worked_ns);
    if (change->kind->is_short) /* as the fair queue charges it */
        queue->shorts_ns +=
            change->worked_ns > FAIR_QUEUE_UNIT ? change->worked_ns : FAIR_QUEUE_UNIT;
    else
        queue->long_ns = change->worked_ns;
    change->worked_ns = 0;
    queue->running = NULL;
}

static void leave_queue(struct tuning_change *change)
{
    struct tuning_queue *queue = &change->request->engine->tuning->queue;
    fair_queue_release(queue_of(queue, change), change->request->uid);
}

static void end_change(struct tuning_change *change)
{
    drop_job(change);
    settle_step(&change->request->engine->tuning->queue, change);
    leave_queue(change);
    change->kind->ended(change);
}

static void work_step(struct tuning_change *change)
{
    struct tuning *databases = change->request->engine->tuning->databases;
    if (change->stepping) { /* an empty step, so that other work runs in between */
        if (change->taken)
            tuning_job_clear(change->job);
        if (change->gives_up)
            tuning_job_give_up(change->job);
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

static void run_task(struct tuning_change *change)
{
    engine_run(change->request->engine, change->request->uid, WORK_QUEUE_TUNING, &change->task);
}

static enum kiln_code begin(struct tuning_change *change)
{
    struct deferred *d = change->request;
    if (!change->job)
        return change->kind->begin(change, d->engine->tuning->databases, &d->err);
    return d->caller ? KILN_OK : (d->err.code = KILN_CANCELLED); /* it left between two steps */
}

/* False: the change failed to begin its next step, and has ended. */
static bool begin_step(struct tuning_change *change)
{
    change->has_begun = true;
    change->more = change->stepping = change->taken = false;
    change->request->rc = begin(change);
    if (change->request->rc)
        change->more = false;
    change->stepping = change->gives_up = change->request->rc && change->job;
    if (!change->request->rc || change->gives_up) {
        run_task(change);
        return true;
    }
    end_change(change);
    return false;
}

static bool send_progress(struct tuning_change *change)
{
    return change->kind->send_progress && change->kind->send_progress(change);
}

/* The engine's part of a step. True: it takes another empty step. */
static bool follow_up(struct tuning_change *change)
{
    struct deferred *d = change->request;
    bool again = send_progress(change);
    if (!d->rc && change->job && !change->taken) {
        change->taken = tuning_job_take(d->engine->tuning->databases, change->job);
        again = true; /* for the rest, or to free what was replaced */
    }
    if (d->rc && change->job && !change->kind->is_short && !change->gives_up)
        again = change->gives_up = true; /* a file's records take time to free */
    return again;
}

/* It waits for its next step before the other changes of its user. */
static void wait_for_next_step(struct tuning_change *change)
{
    struct tuning_queue *queue = &change->request->engine->tuning->queue;
    settle_step(queue, change);
    fair_queue_put_back(queue_of(queue, change), change->request->uid, &change->item);
}

static void work_queue_done(struct task *task)
{
    struct tuning_change *change = LIST_ENTRY(task, struct tuning_change, task);
    struct deferred *d = change->request;
    struct engine *e = d->engine;
    engine_task_ended(e);
    change->worked_ns += task->worked_ns;
    if (follow_up(change)) {
        change->stepping = true;
        run_task(change);
        return;
    }
    bool job_has_more = !d->rc && change->job && tuning_job_has_more(change->job);
    if (!job_has_more)
        drop_job(change);
    change->more |= job_has_more;
    if (!d->rc && change->more && e->draining)
        d->rc = kiln_fail(&d->err, KILN_UNAVAILABLE, TUNING_STOPPING);
    if (!d->rc && change->more)
        wait_for_next_step(change);
    else
        end_change(change);
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
    struct tuning_change *change = pop_waiting(queue, /* is_short= */ false);
    if (change)
        queue->shorts_ns = 0;
    return change;
}

static struct tuning_change *take_next(struct tuning_queue *queue)
{
    struct tuning_change *change = NULL;
    if (queue->shorts_ns >= SHORTS_NS && queue->shorts_ns >= queue->long_ns)
        change = take_long(queue);
    if (!change)
        change = pop_waiting(queue, /* is_short= */ true);
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
        (void)begin_step(change);
    }
}

static enum kiln_code wait_in_queue(struct fair_queue *queue, struct tuning_change *change,
                                    struct kiln_err *err)
{
    const uid_t uid = change->request->uid;
    if (!fair_queue_reserve(queue, uid))
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
    enum kiln_code rc = fair_queue_push(queue, uid, &change->item, err);
    if (rc)
        fair_queue_release(queue, uid);
    return rc;
}

enum kiln_code tuning_queue_add(struct tuning_change *change, struct kiln_err *err)
{
    struct engine *e = change->request->engine;
    enum kiln_code rc = tuning_ready(e, err);
    if (!rc)
        rc = wait_in_queue(queue_of(&e->tuning->queue, change), change, err);
    if (rc)
        return rc;
    change->task = (struct task){ .work = work_on_work_queue, .done = work_queue_done };
    start_next(e);
    return KILN_OK;
}

bool tuning_queue_withdraw(struct tuning_change *change)
{
    struct fair_queue *queue = queue_of(&change->request->engine->tuning->queue, change);
    if (change->has_begun || !fair_queue_remove(queue, &change->item))
        return false;
    leave_queue(change);
    return true;
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
        drop_job(change);
        leave_queue(change);
        change->kind->ended(change);
    }
}

void tuning_queue_tick(struct engine *e)
{
    if (e->tuning->queue.running)
        (void)send_progress(e->tuning->queue.running);
}
