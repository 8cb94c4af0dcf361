/* SPDX-License-Identifier: MIT */
#include "daemon/executor_uv.h"

static struct executor_uv *self_of(struct executor *base)
{
    return LOOP_OWNER_OF(struct executor_uv, base, base);
}

static void run_task(struct executor *base, enum work_queue work_queue, struct task *task)
{
    work_queues_run(self_of(base)->parts.work_queues, work_queue, task);
}

static bool cancel_task(struct executor *base, enum work_queue work_queue, struct task *task)
{
    return work_queues_cancel(self_of(base)->parts.work_queues, work_queue, task);
}

static void defer_task(struct executor *base, struct task *task)
{
    loop_queue_add(self_of(base)->parts.loop, task);
}

static void start_compile(struct executor *base, struct compile_task *task)
{
    pool_compile(self_of(base)->parts.pool, task);
}

static void stop_compile(struct executor *base, struct compile_task *task)
{
    pool_stop_compile(self_of(base)->parts.pool, task);
}

static unsigned count_compile_slots(struct executor *base)
{
    return pool_counts(self_of(base)->parts.pool).total;
}

static void start_transfer(struct executor *base, struct transfer_task *task)
{
    transfers_start(self_of(base)->parts.transfers, task);
}

static void cancel_transfer(struct executor *base, struct transfer_task *task)
{
    transfers_cancel(self_of(base)->parts.transfers, task);
}

static void access_fleet_file(struct executor *base, struct fleet_access *get)
{
    fleet_process_access(self_of(base)->parts.fleet, get);
}

static void close_file(struct executor *base, uid_t uid, int fd)
{
    closer_take(self_of(base)->parts.closer, uid, fd);
}

static const struct executor_ops ops = {
    .run = run_task,
    .cancel = cancel_task,
    .later = defer_task,
    .compile = start_compile,
    .compile_stop = stop_compile,
    .compile_slots = count_compile_slots,
    .transfer = start_transfer,
    .transfer_cancel = cancel_transfer,
    .fleet_access = access_fleet_file,
    .close_file = close_file,
};

void executor_uv_init(struct executor_uv *executor, const struct executor_uv_parts *parts)
{
    *executor = (struct executor_uv){ .base = { .ops = &ops }, .parts = *parts };
}
