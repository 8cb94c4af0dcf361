/* SPDX-License-Identifier: MIT */
#include "daemon/executor_uv.h"

static struct executor_uv *self_of(struct executor *base)
{
    return LOOP_OWNER_OF(struct executor_uv, base, base);
}

static void run(struct executor *base, enum work_queue work_queue, struct task *task)
{
    work_queues_run(self_of(base)->parts.work_queues, work_queue, task);
}

static void refuse_compiles(struct executor_uv *executor)
{
    struct compile_task *task = executor->refused;
    executor->refused = NULL;
    while (task) {
        struct compile_task *next = task->next; /* done may free it */
        task->result = COMPILE_RESULT_INIT;
        task->result.end = COMPILE_UNAVAILABLE;
        kiln_fail(&task->result.err, KILN_UNAVAILABLE, "%s", executor->parts.no_pool);
        task->done(task);
        task = next;
    }
}

/* What they lead to waits for the next turn. */
static void on_turn(struct loop_timer *timer)
{
    struct executor_uv *executor = LOOP_OWNER_OF(struct executor_uv, turn, timer);
    refuse_compiles(executor);
    struct task *task = executor->later;
    executor->later = NULL;
    executor->last_later = &executor->later;
    while (task) {
        struct task *next = task->next; /* done may free it */
        task->done(task);
        task = next;
    }
}

static void start_turn(struct executor_uv *executor)
{
    if (!executor->later && !executor->refused)
        loop_timer_start(&executor->turn, 0, 0);
}

static void later(struct executor *base, struct task *task)
{
    struct executor_uv *executor = self_of(base);
    start_turn(executor);
    task->next = NULL;
    *executor->last_later = task;
    executor->last_later = &task->next;
}

static void compile(struct executor *base, struct compile_task *task)
{
    struct executor_uv *executor = self_of(base);
    if (executor->parts.pool) {
        pool_compile(executor->parts.pool, task);
        return;
    }
    start_turn(executor);
    task->next = executor->refused;
    executor->refused = task;
}

static unsigned compile_slots(struct executor *base)
{
    const struct pool *pool = self_of(base)->parts.pool;
    if (pool)
        return pool_counts(pool).total;
    return self_of(base)->parts.no_pool[0] ? 1 : 0; /* 0: none are wanted */
}

static void transfer(struct executor *base, struct transfer_task *task)
{
    transfers_start(self_of(base)->parts.transfers, task);
}

static void transfer_cancel(struct executor *base, struct transfer_task *task)
{
    transfers_cancel(self_of(base)->parts.transfers, task);
}

static void close_file(struct executor *base, uid_t uid, int fd)
{
    closer_take(self_of(base)->parts.closer, uid, fd);
}

static const struct executor_ops ops = {
    .run = run,
    .later = later,
    .compile = compile,
    .compile_slots = compile_slots,
    .transfer = transfer,
    .transfer_cancel = transfer_cancel,
    .close_file = close_file,
};

void executor_uv_init(struct executor_uv *executor, const struct executor_uv_parts *parts)
{
    *executor = (struct executor_uv){ .parts = *parts, .ops = ops };
    executor->base.ops = &executor->ops;
    if (!parts->transfers)
        executor->ops.transfer = NULL;
    executor->last_later = &executor->later;
    loop_timer_init(parts->loop, &executor->turn, parts->owner, on_turn);
}

void executor_uv_close(struct executor_uv *executor) { loop_timer_close(&executor->turn); }
