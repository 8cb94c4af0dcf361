/* SPDX-License-Identifier: MIT */
/*
 * Threads of our own, not libuv's pool: that one is the whole process's, sized by a variable of its
 * environment, and its threads have the signals and the descriptors of whoever used it first.
 */
#include "daemon/loop/lanes.h"

#include "daemon/loop/quiet_thread.h"
#include "daemon/loop/uv_handle.h"

#include <stdlib.h>
#include <string.h>

/* Brief tasks that one thread does before the loop hears of them: waking it for each would cost as
 * much as some of them. */
#define BRIEF_MOST 8

struct slot { /* one thread's worth of work */
    struct lanes *lanes;
    pthread_t thread;
    enum lane lane;
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

struct lanes {
    struct loop *loop;
    uv_async_t news; /* some slot is done; holds the loop while anything is out */
    unsigned out, started;
    struct queue queues[LANES];
    pthread_mutex_t mutex; /* of what follows, and of each slot's |tasks| until they are done */
    struct slot *done, **last_done;
    bool ending;
    struct slot slots[]; /* readers, then one of each lane that keeps an order */
};

static void start_waiting(struct lanes *lanes, enum lane lane);

/* ---- a thread ---- */

static void *run_slot(void *context)
{
    struct slot *slot = context;
    struct lanes *lanes = slot->lanes;
    pthread_mutex_lock(&lanes->mutex);
    for (;;) {
        while (!slot->tasks && !lanes->ending)
            pthread_cond_wait(&slot->given, &lanes->mutex);
        struct task *tasks = slot->tasks;
        if (!tasks)
            break;
        pthread_mutex_unlock(&lanes->mutex);
        for (struct task *task = tasks; task; task = task->next)
            task->work(task);
        pthread_mutex_lock(&lanes->mutex);
        slot->tasks = NULL;
        slot->next = NULL;
        bool is_first = !lanes->done;
        *lanes->last_done = slot;
        lanes->last_done = &slot->next;
        slot->finished = tasks;
        if (is_first)
            uv_async_send(&lanes->news);
    }
    pthread_mutex_unlock(&lanes->mutex);
    return NULL;
}

static void give(struct slot *slot, struct task *tasks)
{
    pthread_mutex_lock(&slot->lanes->mutex);
    slot->tasks = tasks;
    pthread_cond_signal(&slot->given);
    pthread_mutex_unlock(&slot->lanes->mutex);
}

/* ---- the loop's side ---- */

/* The slot is refilled before done runs: done may queue more, and the lane stays busy. */
static void finish(struct slot *slot)
{
    struct lanes *lanes = slot->lanes;
    struct task *task = slot->finished;
    slot->next = lanes->queues[slot->lane].free;
    lanes->queues[slot->lane].free = slot;
    start_waiting(lanes, slot->lane);
    while (task) {
        struct task *next = task->next; /* done may free it */
        if (--lanes->out == 0)
            uv_unref((uv_handle_t *)&lanes->news);
        task->done(task);
        task = next;
    }
}

static void on_news(uv_async_t *news)
{
    struct lanes *lanes = news->data;
    pthread_mutex_lock(&lanes->mutex);
    struct slot *slot = lanes->done;
    lanes->done = NULL;
    lanes->last_done = &lanes->done;
    pthread_mutex_unlock(&lanes->mutex);
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
    for (; taken < share && taken < BRIEF_MOST && last->is_brief && last->next->is_brief; taken++)
        last = last->next;
    q->waiting -= taken;
    q->first = last->next;
    if (!q->first)
        q->last = &q->first;
    last->next = NULL;
    return first;
}

static void start_waiting(struct lanes *lanes, enum lane lane)
{
    struct queue *q = &lanes->queues[lane];
    while (q->first && q->free) {
        struct slot *slot = q->free;
        q->free = slot->next;
        give(slot, take(q));
    }
}

/* Lanes that run one task at a time. */
#define ORDERED (LANES - 1)

/* ---- life ---- */

static void add_slot(struct lanes *lanes, struct slot *slot, enum lane lane)
{
    slot->lanes = lanes;
    slot->lane = lane;
    slot->next = lanes->queues[lane].free;
    pthread_cond_init(&slot->given, /* attr= */ NULL);
    lanes->queues[lane].free = slot;
    lanes->queues[lane].threads++;
}

static enum kiln_code start_threads(struct lanes *lanes, unsigned count, struct kiln_err *err)
{
    for (; lanes->started < count; lanes->started++) {
        struct slot *slot = &lanes->slots[lanes->started];
        int errnum = quiet_thread_start(&slot->thread, run_slot, slot);
        if (errnum)
            return kiln_fail(err, KILN_IO, "cannot start the threads for blocking work: %s",
                             strerror(errnum));
    }
    return KILN_OK;
}

static void end_threads(struct lanes *lanes)
{
    pthread_mutex_lock(&lanes->mutex);
    lanes->ending = true;
    for (unsigned i = 0; i < lanes->started; i++)
        pthread_cond_signal(&lanes->slots[i].given);
    pthread_mutex_unlock(&lanes->mutex);
    for (unsigned i = 0; i < lanes->started; i++)
        pthread_join(lanes->slots[i].thread, /* ret_value= */ NULL);
}

static struct lanes *make_lanes(struct loop *loop, unsigned readers)
{
    struct lanes *lanes = calloc(1, sizeof(*lanes) + (readers + ORDERED) * sizeof(struct slot));
    if (!lanes)
        return NULL;
    lanes->loop = loop;
    pthread_mutex_init(&lanes->mutex, /* attr= */ NULL);
    lanes->last_done = &lanes->done;
    for (unsigned i = 0; i < LANES; i++)
        lanes->queues[i].last = &lanes->queues[i].first;
    for (unsigned i = 0; i < readers; i++)
        add_slot(lanes, &lanes->slots[i], LANE_READ);
    add_slot(lanes, &lanes->slots[readers], LANE_WRITE);
    add_slot(lanes, &lanes->slots[readers + 1], LANE_TUNING);
    return lanes;
}

enum kiln_code lanes_create(struct loop *loop, unsigned readers, struct lanes **ret_lanes,
                            struct kiln_err *err)
{
    struct lanes *lanes = make_lanes(loop, readers);
    if (!lanes)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the lanes for blocking work");
    int status = uv_async_init(&loop->uv, &lanes->news, on_news);
    if (status) {
        free(lanes);
        return loop_fail(err, status, "cannot make the lanes for blocking work");
    }
    lanes->news.data = lanes;
    uv_unref((uv_handle_t *)&lanes->news);
    enum kiln_code rc = start_threads(lanes, readers + ORDERED, err);
    if (rc) {
        lanes_destroy(lanes);
        return rc;
    }
    *ret_lanes = lanes;
    return KILN_OK;
}

static void on_closed(uv_handle_t *news) { free(news->data); }

void lanes_destroy(struct lanes *lanes)
{
    if (!lanes)
        return;
    end_threads(lanes);
    uv_close((uv_handle_t *)&lanes->news, on_closed);
}

void lanes_run(struct lanes *lanes, enum lane lane, struct task *task)
{
    struct queue *q = &lanes->queues[lane];
    task->next = NULL;
    *q->last = task;
    q->last = &task->next;
    q->waiting++;
    if (lanes->out++ == 0)
        uv_ref((uv_handle_t *)&lanes->news);
    start_waiting(lanes, lane);
}

unsigned lanes_out(const struct lanes *lanes) { return lanes->out; }
