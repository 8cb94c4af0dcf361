/* SPDX-License-Identifier: MIT */
/*
 * Does not use libuv's thread pool, which the whole process shares: an environment variable sets
 * the pool's size, and the pool's threads inherit the signal mask of the first thread that uses it.
 */
#include "daemon/loop/work_queues.h"

#include "common/base/clock.h"
#include "daemon/loop/masked_thread.h"
#include "daemon/loop/uv_handle.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The maximum number of brief tasks that a thread runs before it wakes the loop.  Waking the loop
 * takes as long as some of these tasks. */
#define BRIEF_MAX 8
/* What a task costs its user until the real cost is known: about the time of a look-up of a kernel
 * that is not in the store. */
#define TASK_UNIT_NS 20000u
/* Nice value of the work queues' threads, relative to the loop's thread. */
#define NICENESS 5

struct slot {
    struct work_queues *work_queues;
    pthread_t thread;
    enum work_queue work_queue;
    pthread_cond_t given;
    struct list tasks;
    struct list finished;
    struct list_link link;
    uint64_t given_ns; /* when the loop's thread passed |tasks| to the slot */
    bool is_long;
    _Atomic uint64_t began_ns; /* when the current task began; 0: none */
};

struct queue {
    struct fair_queue waiting; /* of struct task, borrowed */
    unsigned threads, long_tasks;
    struct list free;
};

struct work_queues {
    struct loop *loop;
    /* Sent when a slot's tasks are done; keeps the loop running while tasks are in progress. */
    uv_async_t wake;
    unsigned out, started;
    uid_t own_uid; /* kilnd's uid */
    struct queue queues[WORK_QUEUES];
    pthread_mutex_t mutex; /* protects the members below, and |tasks| of each slot */
    struct list done;
    bool ending;
    /* first the slots of WORK_QUEUE_READ, then one slot for each other work queue */
    struct slot slots[];
};

static void start_waiting(struct work_queues *work_queues, enum work_queue work_queue);

static void run_tasks(struct slot *slot)
{
    uint64_t began_ns = clock_monotonic_ns();
    LIST_EACH (&slot->tasks, struct task, item.link, task) {
        atomic_store_explicit(&slot->began_ns, began_ns, memory_order_relaxed);
        task->work(task);
        uint64_t ended_ns = clock_monotonic_ns();
        task->worked_ns = ended_ns - began_ns;
        began_ns = ended_ns;
    }
    atomic_store_explicit(&slot->began_ns, 0, memory_order_relaxed);
}

/* Lets the loop run first on a busy processor, because every request waits for it.  On Linux,
 * nice(2) changes only the calling thread. */
static void give_way_to_loop(void) { (void)!nice(NICENESS); }

static void *run_slot(void *context)
{
    struct slot *slot = context;
    struct work_queues *work_queues = slot->work_queues;
    give_way_to_loop();
    pthread_mutex_lock(&work_queues->mutex);
    for (;;) {
        while (list_is_empty(&slot->tasks) && !work_queues->ending)
            pthread_cond_wait(&slot->given, &work_queues->mutex);
        if (list_is_empty(&slot->tasks))
            break;
        pthread_mutex_unlock(&work_queues->mutex);
        run_tasks(slot);
        pthread_mutex_lock(&work_queues->mutex);
        list_append_all(&slot->finished, &slot->tasks);
        if (list_is_empty(&work_queues->done))
            uv_async_send(&work_queues->wake);
        list_append(&work_queues->done, &slot->link);
    }
    pthread_mutex_unlock(&work_queues->mutex);
    return NULL;
}

static void count_one_less(struct work_queues *work_queues)
{
    if (--work_queues->out == 0)
        uv_unref((uv_handle_t *)&work_queues->wake);
}

/* Charges users for the whole time for which their tasks held the thread, including the wait until
 * the loop gives the thread new tasks.  If only the work were charged, all charges would grow much
 * more slowly than the clock while the loop is busy.  A user who has used 20 ms more than other
 * users would then wait far longer than 20 ms, although threads are idle. */
static void charge_users(struct queue *q, const struct slot *slot, struct list *finished)
{
    uint64_t held_ns = clock_monotonic_ns() - slot->given_ns, worked_ns = 0;
    unsigned count = 0;
    LIST_EACH (finished, struct task, item.link, task) {
        worked_ns += task->worked_ns;
        count++;
    }
    uint64_t idle_ns = held_ns > worked_ns ? (held_ns - worked_ns) / count : 0;
    LIST_EACH (finished, struct task, item.link, task)
        fair_queue_settle(&q->waiting, task->uid, task->worked_ns + idle_ns);
}

static void finish_slot(struct slot *slot)
{
    struct work_queues *work_queues = slot->work_queues;
    struct queue *q = &work_queues->queues[slot->work_queue];
    struct list finished = LIST_INIT(finished);
    list_append_all(&finished, &slot->finished);
    charge_users(q, slot, &finished);
    q->long_tasks -= slot->is_long;
    list_prepend(&q->free, &slot->link);
    start_waiting(work_queues, slot->work_queue);
    for (struct task *task; (task = LIST_POP(&finished, struct task, item.link));) {
        count_one_less(work_queues);
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

static bool is_brief(void *context, const struct fair_item *item)
{
    (void)context;
    return LIST_ENTRY(item, const struct task, item)->is_brief;
}

/* Returns the filter of tasks that may start now; NULL: every task.  If there are several threads,
 * one of them only runs brief tasks. */
static fair_filter *may_start(const struct queue *q)
{
    return q->threads > 1 && q->long_tasks + 1 >= q->threads ? is_brief : NULL;
}

static bool next_is_brief(const struct queue *q)
{
    const struct fair_item *next = fair_queue_peek_if(&q->waiting, may_start(q), NULL);
    return next && is_brief(NULL, next);
}

/* Takes the first task in fair order.  If more tasks wait than there are threads, also takes brief
 * tasks that follow it.  Returns whether the first task is brief. */
static bool take_tasks(struct queue *q, struct list *tasks)
{
    const unsigned share = q->waiting.count / q->threads;
    unsigned taken = 0;
    struct task *task;
    do {
        task = LIST_ENTRY(fair_queue_pop_if(&q->waiting, may_start(q), NULL), struct task, item);
        list_append(tasks, &task->item.link);
        taken++;
    } while (taken < share && taken < BRIEF_MAX && task->is_brief && next_is_brief(q));
    return task->is_brief;
}

static void start_waiting(struct work_queues *work_queues, enum work_queue work_queue)
{
    struct queue *q = &work_queues->queues[work_queue];
    while (!list_is_empty(&q->free) && fair_queue_peek_if(&q->waiting, may_start(q), NULL)) {
        struct slot *slot = LIST_POP(&q->free, struct slot, link);
        slot->given_ns = clock_monotonic_ns();
        pthread_mutex_lock(&work_queues->mutex);
        slot->is_long = !take_tasks(q, &slot->tasks);
        q->long_tasks += slot->is_long;
        pthread_cond_signal(&slot->given);
        pthread_mutex_unlock(&work_queues->mutex);
    }
}

#define ORDERED (WORK_QUEUES - 1)

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

static bool init_queue(struct queue *q, uid_t own_uid)
{
    const struct fair_queue_options options = { .noun = "tasks", .unit = TASK_UNIT_NS };
    fair_queue_init(&q->waiting, &options);
    list_init(&q->free);
    return fair_queue_reserve(&q->waiting, own_uid);
}

static void free_work_queues(struct work_queues *work_queues)
{
    for (unsigned i = 0; i < WORK_QUEUES; i++)
        fair_queue_done(&work_queues->queues[i].waiting);
    free(work_queues);
}

static struct work_queues *make_work_queues(struct loop *loop, unsigned readers)
{
    struct work_queues *work_queues =
        calloc(1, sizeof(*work_queues) + (readers + ORDERED) * sizeof(struct slot));
    if (!work_queues)
        return NULL;
    work_queues->loop = loop;
    work_queues->own_uid = getuid();
    pthread_mutex_init(&work_queues->mutex, /* attr= */ NULL);
    list_init(&work_queues->done);
    for (unsigned i = 0; i < WORK_QUEUES; i++) {
        if (!init_queue(&work_queues->queues[i], work_queues->own_uid)) {
            free_work_queues(work_queues);
            return NULL;
        }
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
        free_work_queues(work_queues);
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

static void on_closed(uv_handle_t *wake) { free_work_queues(wake->data); }

void work_queues_destroy(struct work_queues *work_queues)
{
    if (!work_queues)
        return;
    end_threads(work_queues);
    uv_close((uv_handle_t *)&work_queues->wake, on_closed);
}

void work_queues_run(struct work_queues *work_queues, enum work_queue work_queue, struct task *task)
{
    task->item.lets_pass = !task->is_brief;
    fair_queue_push_unlimited(&work_queues->queues[work_queue].waiting, task->uid,
                              work_queues->own_uid, &task->item);
    if (work_queues->out++ == 0)
        uv_ref((uv_handle_t *)&work_queues->wake);
    start_waiting(work_queues, work_queue);
}

bool work_queues_cancel(struct work_queues *work_queues, enum work_queue work_queue,
                        struct task *task)
{
    if (!fair_queue_remove(&work_queues->queues[work_queue].waiting, &task->item))
        return false;
    count_one_less(work_queues);
    return true;
}

unsigned work_queues_out(const struct work_queues *work_queues) { return work_queues->out; }

uint64_t work_queues_longest_ns(const struct work_queues *work_queues)
{
    uint64_t now_ns = clock_monotonic_ns(), longest = 0;
    for (unsigned i = 0; i < work_queues->started; i++) {
        uint64_t began_ns =
            atomic_load_explicit(&work_queues->slots[i].began_ns, memory_order_relaxed);
        if (began_ns && now_ns > began_ns && now_ns - began_ns > longest)
            longest = now_ns - began_ns;
    }
    return longest;
}
