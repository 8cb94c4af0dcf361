/* SPDX-License-Identifier: MIT */
/*
 * A check handle of libuv runs the tasks, after the events of an iteration.  While tasks wait, an
 * idle handle keeps the loop from blocking.  A timer with a delay of zero would not work: if
 * another timer's callback starts a timer with no delay, libuv 1.44 runs the new timer before the
 * loop looks for events.
 */
#include "daemon/loop/loop_queue.h"

#include "common/base/clock.h"
#include "daemon/loop/uv_handle.h"

#include <unistd.h>

/* What a task costs its user until the real cost is known: about the time of a request for a kernel
 * that is in memory. */
#define TASK_UNIT_NS 5000u

static void do_nothing(uv_idle_t *uv) { (void)uv; }

/* Returns the time that is charged for a task.  On a busy host, the scheduler often interrupts the
 * task that sends a reply, in order to run the client.  If the user were charged for the
 * interruption, their next tasks would wait until all other users have used as much processor time.
 * So a task that took longer than a slice is charged for processor time only.  For a shorter task,
 * reading the processor time would cost more than it gains. */
static uint64_t cost_of(const struct loop *loop, uint64_t took_ns)
{
    if (took_ns <= LOOP_SLICE_NS)
        return took_ns;
    const uint64_t worked_ns = clock_thread_ns() - loop->slice_ns;
    return worked_ns < took_ns ? worked_ns : took_ns;
}

static uint64_t run_next(struct loop *loop, uint64_t began_ns)
{
    struct task *task = LIST_ENTRY(fair_queue_pop(&loop->waiting), struct task, item);
    const uid_t uid = task->uid;
    task->done(task);
    uint64_t ended_ns = clock_monotonic_ns();
    fair_queue_settle(&loop->waiting, uid, cost_of(loop, ended_ns - began_ns));
    return ended_ns;
}

static void on_check(uv_check_t *uv)
{
    struct loop *loop = uv_handle_get_data((uv_handle_t *)uv);
    unsigned left = loop->waiting.count;
    uint64_t now_ns = left > 0 ? clock_monotonic_ns() : 0;
    if (left > 1)
        loop->slice_ns = clock_thread_ns();
    const uint64_t end_ns = now_ns + LOOP_SLICE_NS;
    for (; left > 0 && loop->waiting.count > 0; left--) {
        now_ns = run_next(loop, now_ns);
        if (now_ns > end_ns)
            break;
    }
    if (loop->waiting.count == 0)
        uv_idle_stop(&loop->queue_idle);
}

void loop_queue_add(struct loop *loop, struct task *task)
{
    if (loop->waiting.count == 0)
        uv_idle_start(&loop->queue_idle, do_nothing);
    fair_queue_push_unlimited(&loop->waiting, task->uid, loop->own_uid, &task->item);
}

bool loop_queue_cancel(struct loop *loop, struct task *task)
{
    return fair_queue_remove(&loop->waiting, &task->item);
}

enum kiln_code loop_queue_open(struct loop *loop, struct kiln_err *err)
{
    const struct fair_queue_options options = { .noun = "tasks", .unit = TASK_UNIT_NS };
    fair_queue_init(&loop->waiting, &options);
    loop->own_uid = getuid();
    if (!fair_queue_reserve(&loop->waiting, loop->own_uid))
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the event loop's queue");
    uv_check_init(&loop->uv, &loop->queue_check);
    uv_idle_init(&loop->uv, &loop->queue_idle);
    uv_handle_set_data((uv_handle_t *)&loop->queue_check, loop);
    /* The handle is always active: starting and stopping it for each task would cost 50
     * instructions. */
    uv_check_start(&loop->queue_check, on_check);
    uv_unref((uv_handle_t *)&loop->queue_check);
    return KILN_OK;
}

void loop_queue_close(struct loop *loop)
{
    uv_close((uv_handle_t *)&loop->queue_check, NULL);
    uv_close((uv_handle_t *)&loop->queue_idle, NULL);
    fair_queue_done(&loop->waiting);
}
