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
    struct list tasks;     /* borrowed: one, or several brief ones in their order */
    struct list finished;  /* the same tasks, for the loop's thread, once they are done */
    struct list_link link; /* in the list of free slots, or of done ones */
};

struct queue {
    struct list tasks; /* borrowed: they wait for a free slot */
    unsigned waiting, threads;
    struct list free; /* of struct slot */
};

struct work_queues {
    struct loop *loop;
    uv_async_t wake; /* sent when a slot is done; keeps the loop running while tasks are out */
    unsigned out, started;
    struct queue queues[WORK_QUEUES];
    pthread_mutex_t mutex; /* protects the members below, and each slot's |tasks| */
    struct list done;      /* of struct slot */
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
        while (list_is_empty(&slot->tasks) && !work_queues->ending)
            pthread_cond_wait(&slot->given, &work_queues->mutex);
        if (list_is_empty(&slot->tasks))
            break;
        pthread_mutex_unlock(&work_queues->mutex);
        LIST_EACH (&slot->tasks, struct task, link, task)
            task->work(task);
        pthread_mutex_lock(&work_queues->mutex);
        list_append_all(&slot->finished, &slot->tasks);
        if (list_is_empty(&work_queues->done))
            uv_async_send(&work_queues->wake);
        list_append(&work_queues->done, &slot->link);
    }
    pthread_mutex_unlock(&work_queues->mutex);
    return NULL;
}

/* ---- on the loop's thread ---- */

/* Refills the slot before the done callbacks, so that its thread is busy while they run.  A done
 * callback may free its task. */
static void finish_slot(struct slot *slot)
{
    struct work_queues *work_queues = slot->work_queues;
    struct list finished = LIST_INIT(finished);
    list_append_all(&finished, &slot->finished);
    list_prepend(&work_queues->queues[slot->work_queue].free, &slot->link);
    start_waiting(work_queues, slot->work_queue);
    for (struct task *task; (task = LIST_POP(&finished, struct task, link));) {
        if (--work_queues->out == 0)
            uv_unref((uv_handle_t *)&work_queues->wake);
        task->done(task);
    }
}

static void on_wake(uv_async_t *wake)
{
    struct work_queues *work_queues = wake->data;
    struct list done = LIST_INIT(done);
    pthread_mutex_lock(&work_queues->mutex);
    list_append_all(&done, &work_queues->done);
    pthread_mutex_unlock(&work_queues->mutex);
    for (struct slot *slot; (slot = LIST_POP(&done, struct slot, link));)
        finish_slot(slot);
}

/* Moves the first waiting task to |tasks|.  If more wait than there are threads, brief tasks that
 * follow it go with it. */
static void take_tasks(struct queue *q, struct list *tasks)
{
    const unsigned share = q->waiting / q->threads;
    unsigned taken = 0;
    struct task *task;
    do {
        task = LIST_POP(&q->tasks, struct task, link);
        list_append(tasks, &task->link);
        taken++;
    } while (taken < share && taken < BRIEF_MAX && task->is_brief &&
             LIST_FIRST(&q->tasks, struct task, link)->is_brief);
    q->waiting -= taken;
}

static void start_waiting(struct work_queues *work_queues, enum work_queue work_queue)
{
    struct queue *q = &work_queues->queues[work_queue];
    while (!list_is_empty(&q->tasks) && !list_is_empty(&q->free)) {
        struct slot *slot = LIST_POP(&q->free, struct slot, link);
        pthread_mutex_lock(&work_queues->mutex);
        take_tasks(q, &slot->tasks);
        pthread_cond_signal(&slot->given);
        pthread_mutex_unlock(&work_queues->mutex);
    }
}

/* Work queues that run one task at a time. */
#define ORDERED (WORK_QUEUES - 1)

/* ---- life ---- */

static void add_slot(struct work_queues *work_queues, struct slot *slot, enum work_queue work_queue)
{
    slot->work_queues = work_queues;
    slot->work_queue = work_queue;
    list_init(&slot->tasks);
    list_init(&slot->finished);
    pthread_cond_init(&slot->given, /* attr= */ NULL);
    list_prepend(&work_queues->queues[work_queue].free, &slot->link);
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
    list_init(&work_queues->done);
    for (unsigned i = 0; i < WORK_QUEUES; i++) {
        list_init(&work_queues->queues[i].tasks);
        list_init(&work_queues->queues[i].free);
    }
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
    list_append(&q->tasks, &task->link);
    q->waiting++;
    if (work_queues->out++ == 0)
        uv_ref((uv_handle_t *)&work_queues->wake);
    start_waiting(work_queues, work_queue);
}

unsigned work_queues_out(const struct work_queues *work_queues) { return work_queues->out; }
