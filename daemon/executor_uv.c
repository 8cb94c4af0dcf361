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

/* Tasks that these tasks add wait for the next iteration. */
static void on_turn(struct loop_timer *timer)
{
    struct executor_uv *executor = LOOP_OWNER_OF(struct executor_uv, turn, timer);
    struct task *task = executor->later;
    executor->later = NULL;
    executor->last_later = &executor->later;
    while (task) {
        struct task *next = task->next; /* done may free it */
        task->done(task);
        task = next;
    }
}

static void later(struct executor *base, struct task *task)
{
    struct executor_uv *executor = self_of(base);
    if (!executor->later)
        loop_timer_start(&executor->turn, 0, 0);
    task->next = NULL;
    *executor->last_later = task;
    executor->last_later = &task->next;
}

static void compile(struct executor *base, struct compile_task *task)
{
    pool_compile(self_of(base)->parts.pool, task);
}

static unsigned compile_slots(struct executor *base)
{
    return pool_counts(self_of(base)->parts.pool).total;
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
    *executor = (struct executor_uv){ .base = { .ops = &ops }, .parts = *parts };
    executor->last_later = &executor->later;
    loop_timer_init(parts->loop, &executor->turn, parts->owner, on_turn);
}

void executor_uv_close(struct executor_uv *executor) { loop_timer_close(&executor->turn); }
