/* SPDX-License-Identifier: MIT */
/*
 * Private threads instead of libuv's pool.  That pool belongs to the whole process and is sized by
 * an environment variable, and its threads inherit the signal mask of the first user.
 */
#include "daemon/loop/work_queues.h"

#include "daemon/loop/masked_thread.h"
#include "daemon/loop/uv_handle.h"

#include <stdlib.h>
#include <string.h>

/* A thread runs up to so many brief tasks before it wakes the loop: waking it for each would cost
 * as much as some of the tasks. */
#define BRIEF_MAX 8

struct slot { /* one thread and its current tasks */
    struct work_queues *work_queues;
    pthread_t thread;
    enum work_queue work_queue;
    pthread_cond_t given;  /* signalled when |tasks| or |ending| is set */
    struct task *tasks;    /* borrowed: one, or several brief ones in their order */
    struct task *finished; /* the same tasks, for the loop's thread, once they are done */
    struct slot *next;     /* in the list of free slots, or of done ones */
};

struct queue {
    struct task *first;
    struct task **last;
    unsigned waiting, threads;
    struct slot *free;
};

struct work_queues {
    struct loop *loop;
    uv_async_t wake; /* sent when a slot is done; keeps the loop running while tasks are out */
    unsigned out, started;
    struct queue queues[WORK_QUEUES];
    pthread_mutex_t mutex; /* protects the members below, and each slot's |tasks| */
    struct slot *done, **last_done;
    bool ending;
    struct slot slots[]; /* readers, then one for each ordered work queue */
};

static void start_waiting(struct work_queues *work_queues, enum work_queue work_queue);

/* ---- on a worker thread ---- */

static void *run_slot(void *context)
{
    struct slot *slot = context;
    struct work_queues *work_queues = slot->work_queues;
    pthread_mutex_lock(&work_queues->mutex);
    for (;;) {
        while (!slot->tasks && !work_queues->ending)
            pthread_cond_wait(&slot->given, &work_queues->mutex);
        struct task *tasks = slot->tasks;
        if (!tasks)
            break;
        pthread_mutex_unlock(&work_queues->mutex);
        for (struct task *task = tasks; task; task = task->next)
            task->work(task);
        pthread_mutex_lock(&work_queues->mutex);
        slot->tasks = NULL;
        slot->next = NULL;
        bool is_first = !work_queues->done;
        *work_queues->last_done = slot;
        work_queues->last_done = &slot->next;
        slot->finished = tasks;
        if (is_first)
            uv_async_send(&work_queues->wake);
    }
    pthread_mutex_unlock(&work_queues->mutex);
    return NULL;
}

static void hand_to_thread(struct slot *slot, struct task *tasks)
{
    pthread_mutex_lock(&slot->work_queues->mutex);
    slot->tasks = tasks;
    pthread_cond_signal(&slot->given);
    pthread_mutex_unlock(&slot->work_queues->mutex);
}

/* ---- on the loop's thread ---- */

/* Refills the slot before the done callbacks, so that its thread is busy while they run. */
static void finish_slot(struct slot *slot)
{
    struct work_queues *work_queues = slot->work_queues;
    struct task *task = slot->finished;
    slot->next = work_queues->queues[slot->work_queue].free;
    work_queues->queues[slot->work_queue].free = slot;
    start_waiting(work_queues, slot->work_queue);
    while (task) {
        struct task *next = task->next; /* done may free it */
        if (--work_queues->out == 0)
            uv_unref((uv_handle_t *)&work_queues->wake);
        task->done(task);
        task = next;
    }
}

static void on_wake(uv_async_t *wake)
{
    struct work_queues *work_queues = wake->data;
    pthread_mutex_lock(&work_queues->mutex);
    struct slot *slot = work_queues->done;
    work_queues->done = NULL;
    work_queues->last_done = &work_queues->done;
    pthread_mutex_unlock(&work_queues->mutex);
    while (slot) {
        struct slot *next = slot->next;
        finish_slot(slot);
        slot = next;
    }
}

/* Takes the first waiting task.  Takes brief tasks after it too, if more wait than there are
 * threads for them. */
static struct task *take_tasks(struct queue *q)
{
    struct task *first = q->first, *last = first;
    unsigned share = q->waiting / q->threads, taken = 1;
    for (; taken < share && taken < BRIEF_MAX && last->is_brief && last->next->is_brief; taken++)
        last = last->next;
    q->waiting -= taken;
    q->first = last->next;
    if (!q->first)
        q->last = &q->first;
    last->next = NULL;
    return first;
}

static void start_waiting(struct work_queues *work_queues, enum work_queue work_queue)
{
    struct queue *q = &work_queues->queues[work_queue];
    while (q->first && q->free) {
        struct slot *slot = q->free;
        q->free = slot->next;
        hand_to_thread(slot, take_tasks(q));
    }
}

/* Work queues that run one task at a time. */
#define ORDERED (WORK_QUEUES - 1)

/* ---- life ---- */

static void add_slot(struct work_queues *work_queues, struct slot *slot, enum work_queue work_queue)
{
    slot->work_queues = work_queues;
    slot->work_queue = work_queue;
    slot->next = work_queues->queues[work_queue].free;
    pthread_cond_init(&slot->given, /* attr= */ NULL);
    work_queues->queues[work_queue].free = slot;
    work_queues->queues[work_queue].threads++;
}

static enum kiln_code start_threads(struct work_queues *work_queues, unsigned count,
                                    struct kiln_err *err)
{
    for (; work_queues->started < count; work_queues->started++) {
        struct slot *slot = &work_queues->slots[work_queues->started];
        int errnum = masked_thread_start(&slot->thread, run_slot, slot);
        if (errnum)
            return kiln_fail(err, KILN_IO, "cannot start the threads for blocking work: %s",
                             strerror(errnum));
    }
    return KILN_OK;
}

static void end_threads(struct work_queues *work_queues)
{
    pthread_mutex_lock(&work_queues->mutex);
    work_queues->ending = true;
    for (unsigned i = 0; i < work_queues->started; i++)
        pthread_cond_signal(&work_queues->slots[i].given);
    pthread_mutex_unlock(&work_queues->mutex);
    for (unsigned i = 0; i < work_queues->started; i++)
        pthread_join(work_queues->slots[i].thread, /* ret_value= */ NULL);
}

static struct work_queues *make_work_queues(struct loop *loop, unsigned readers)
{
    struct work_queues *work_queues =
        calloc(1, sizeof(*work_queues) + (readers + ORDERED) * sizeof(struct slot));
    if (!work_queues)
        return NULL;
    work_queues->loop = loop;
    pthread_mutex_init(&work_queues->mutex, /* attr= */ NULL);
    work_queues->last_done = &work_queues->done;
    for (unsigned i = 0; i < WORK_QUEUES; i++)
        work_queues->queues[i].last = &work_queues->queues[i].first;
    for (unsigned i = 0; i < readers; i++)
        add_slot(work_queues, &work_queues->slots[i], WORK_QUEUE_READ);
    add_slot(work_queues, &work_queues->slots[readers], WORK_QUEUE_WRITE);
    add_slot(work_queues, &work_queues->slots[readers + 1], WORK_QUEUE_TUNING);
    return work_queues;
}

enum kiln_code work_queues_create(struct loop *loop, unsigned readers,
                                  struct work_queues **ret_work_queues, struct kiln_err *err)
{
    struct work_queues *work_queues = make_work_queues(loop, readers);
    if (!work_queues)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the work queues");
    int status = uv_async_init(&loop->uv, &work_queues->wake, on_wake);
    if (status) {
        free(work_queues);
        return loop_fail(err, status, "cannot make the work queues");
    }
    work_queues->wake.data = work_queues;
    uv_unref((uv_handle_t *)&work_queues->wake);
    enum kiln_code rc = start_threads(work_queues, readers + ORDERED, err);
    if (rc) {
        work_queues_destroy(work_queues);
        return rc;
    }
    *ret_work_queues = work_queues;
    return KILN_OK;
}

static void on_closed(uv_handle_t *wake) { free(wake->data); }

void work_queues_destroy(struct work_queues *work_queues)
{
    if (!work_queues)
        return;
    end_threads(work_queues);
    uv_close((uv_handle_t *)&work_queues->wake, on_closed);
}

void work_queues_run(struct work_queues *work_queues, enum work_queue work_queue, struct task *task)
{
    struct queue *q = &work_queues->queues[work_queue];
    task->next = NULL;
    *q->last = task;
    q->last = &task->next;
    q->waiting++;
    if (work_queues->out++ == 0)
        uv_ref((uv_handle_t *)&work_queues->wake);
    start_waiting(work_queues, work_queue);
}

unsigned work_queues_out(const struct work_queues *work_queues) { return work_queues->out; }
