/* SPDX-License-Identifier: MIT */
#include "daemon/loop/lanes.h"

#include "daemon/loop/uv_handle.h"

#include <stdio.h>
#include <stdlib.h>

/* Brief tasks that one thread does before the loop hears of them: waking it for each would cost as
 * much as some of them. */
#define BRIEF_MOST 8

struct slot { /* one thread's worth of work */
    uv_work_t work;
    struct lanes *lanes;
    enum lane lane;
    struct task *tasks; /* borrowed: one, or several brief ones in their order */
    struct slot *next;  /* in the list of free ones */
};

struct queue {
    struct task *first;
    struct task **last;
    unsigned waiting, threads;
    struct slot *free;
};

struct lanes {
    struct loop *loop;
    unsigned out;
    struct queue queues[LANES];
    struct slot slots[]; /* readers, then one of each lane that keeps an order */
};

static void start_waiting(struct lanes *lanes, enum lane lane);

static void on_work(uv_work_t *work)
{
    const struct slot *slot = work->data;
    for (struct task *task = slot->tasks; task; task = task->next)
        task->work(task);
}

/* The slot is refilled before done runs: done may queue more, and the lane stays busy. */
static void on_done(uv_work_t *work, int status)
{
    (void)status; /* work that started is never cancelled here */
    struct slot *slot = work->data;
    struct lanes *lanes = slot->lanes;
    struct task *task = slot->tasks;
    slot->next = lanes->queues[slot->lane].free;
    lanes->queues[slot->lane].free = slot;
    start_waiting(lanes, slot->lane);
    while (task) {
        struct task *next = task->next; /* done may free it */
        lanes->out--;
        task->done(task);
        task = next;
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
        slot->tasks = take(q);
        slot->work.data = slot;
        uv_queue_work(&lanes->loop->uv, &slot->work, on_work, on_done);
    }
}

/* Lanes that run one task at a time. */
#define ORDERED (LANES - 1)

/* libuv reads its pool's size once, at the first work; writers must not wait for readers. */
static void size_pool(unsigned readers)
{
    char size[16];
    snprintf(size, sizeof(size), "%u", readers + ORDERED);
    setenv("UV_THREADPOOL_SIZE", size, 0);
}

static void add_slot(struct lanes *lanes, struct slot *slot, enum lane lane)
{
    slot->lanes = lanes;
    slot->lane = lane;
    slot->next = lanes->queues[lane].free;
    lanes->queues[lane].free = slot;
    lanes->queues[lane].threads++;
}

enum kiln_code lanes_create(struct loop *loop, unsigned readers, struct lanes **ret_lanes,
                            struct kiln_err *err)
{
    struct lanes *lanes = calloc(1, sizeof(*lanes) + (readers + ORDERED) * sizeof(struct slot));
    if (!lanes)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the lanes for blocking work");
    size_pool(readers);
    lanes->loop = loop;
    for (unsigned i = 0; i < LANES; i++)
        lanes->queues[i].last = &lanes->queues[i].first;
    for (unsigned i = 0; i < readers; i++)
        add_slot(lanes, &lanes->slots[i], LANE_READ);
    add_slot(lanes, &lanes->slots[readers], LANE_WRITE);
    add_slot(lanes, &lanes->slots[readers + 1], LANE_TUNING);
    *ret_lanes = lanes;
    return KILN_OK;
}

void lanes_destroy(struct lanes *lanes) { free(lanes); }

void lanes_run(struct lanes *lanes, enum lane lane, struct task *task)
{
    struct queue *q = &lanes->queues[lane];
    task->next = NULL;
    *q->last = task;
    q->last = &task->next;
    q->waiting++;
    lanes->out++;
    start_waiting(lanes, lane);
}

unsigned lanes_out(const struct lanes *lanes) { return lanes->out; }
