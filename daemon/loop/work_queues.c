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

/* Brief tasks that one thread does before the loop hears of them: waking it for each would cost as
 * much as some of them. */
#define BRIEF_MAX 8

struct slot { /* one thread's worth of work */
    struct work_queues *work_queues;
    pthread_t thread;
    enum work_queue work_queue;
    pthread_cond_t given;  /* with the mutex: |tasks|, or |ending| */
    struct task *tasks;    /* borrowed: one, or several brief ones in their order */
    struct task *finished; /* the same, once done: the loop's */
    struct slot *next;     /* in the list of free ones, or of those that are done */
};

struct queue {
    struct task *first;
    struct task **last;
    unsigned waiting, threads;
    struct slot *free;
};

struct work_queues {
    struct loop *loop;
    uv_async_t news; /* some slot is done; holds the loop while anything is out */
    unsigned out, started;
    struct queue queues[WORK_QUEUES];
    pthread_mutex_t mutex; /* of what follows, and of each slot's |tasks| until they are done */
    struct slot *done, **last_done;
    bool ending;
    struct slot slots[]; /* readers, then one for each ordered work queue */
};

static void start_waiting(struct work_queues *work_queues, enum work_queue work_queue);

/* ---- a thread ---- */

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
            uv_async_send(&work_queues->news);
    }
    pthread_mutex_unlock(&work_queues->mutex);
    return NULL;
}

static void give(struct slot *slot, struct task *tasks)
{
    pthread_mutex_lock(&slot->work_queues->mutex);
    slot->tasks = tasks;
    pthread_cond_signal(&slot->given);
    pthread_mutex_unlock(&slot->work_queues->mutex);
}

/* ---- the loop's side ---- */

/* The slot is refilled before done runs: done may queue more, and the lane stays busy. */
static void finish(struct slot *slot)
{
    struct work_queues *work_queues = slot->work_queues;
    struct task *task = slot->finished;
    slot->next = work_queues->queues[slot->work_queue].free;
    work_queues->queues[slot->work_queue].free = slot;
    start_waiting(work_queues, slot->work_queue);
    while (task) {
        struct task *next = task->next; /* done may free it */
        if (--work_queues->out == 0)
            uv_unref((uv_handle_t *)&work_queues->news);
        task->done(task);
        task = next;
    }
}

static void on_news(uv_async_t *news)
{
    struct work_queues *work_queues = news->data;
    pthread_mutex_lock(&work_queues->mutex);
    struct slot *slot = work_queues->done;
    work_queues->done = NULL;
    work_queues->last_done = &work_queues->done;
    pthread_mutex_unlock(&work_queues->mutex);
    while (slot) {
        struct slot *next = slot->next;
        finish(slot);
        slot = next;
    }
}

/* The first that waits; behind it brief ones, where there are more than threads to do them. */
static struct task *take(struct queue *q)
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
        give(slot, take(q));
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
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the lanes for blocking work");
    int status = uv_async_init(&loop->uv, &work_queues->news, on_news);
    if (status) {
        free(work_queues);
        return loop_fail(err, status, "cannot make the lanes for blocking work");
    }
    work_queues->news.data = work_queues;
    uv_unref((uv_handle_t *)&work_queues->news);
    enum kiln_code rc = start_threads(work_queues, readers + ORDERED, err);
    if (rc) {
        work_queues_destroy(work_queues);
        return rc;
    }
    *ret_work_queues = work_queues;
    return KILN_OK;
}

static void on_closed(uv_handle_t *news) { free(news->data); }

void work_queues_destroy(struct work_queues *work_queues)
{
    if (!work_queues)
        return;
    end_threads(work_queues);
    uv_close((uv_handle_t *)&work_queues->news, on_closed);
}

void work_queues_run(struct work_queues *work_queues, enum work_queue work_queue, struct task *task)
{
    struct queue *q = &work_queues->queues[work_queue];
    task->next = NULL;
    *q->last = task;
    q->last = &task->next;
    q->waiting++;
    if (work_queues->out++ == 0)
        uv_ref((uv_handle_t *)&work_queues->news);
    start_waiting(work_queues, work_queue);
}

unsigned work_queues_out(const struct work_queues *work_queues) { return work_queues->out; }
