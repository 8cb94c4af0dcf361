/* SPDX-License-Identifier: MIT */
#include "daemon/executor_uv.h"

static struct executor_uv *self_of(struct executor *base)
{
    return LOOP_OWNER_OF(struct executor_uv, base, base);
}

static void run(struct executor *base, enum lane lane, struct task *task)
{
    lanes_run(self_of(base)->lanes, lane, task);
}

static void compile(struct executor *base, struct compile_task *task)
{
    pool_compile(self_of(base)->pool, task);
}

static unsigned compile_slots(struct executor *base)
{
    return pool_counts(self_of(base)->pool).total;
}

static void transfer(struct executor *base, struct transfer_task *task)
{
    transfers_start(self_of(base)->transfers, task);
}

static void transfer_cancel(struct executor *base, struct transfer_task *task)
{
    transfers_cancel(self_of(base)->transfers, task);
}

static void close_file(struct executor *base, uid_t uid, int fd)
{
    closer_take(self_of(base)->closer, uid, fd);
}

static const struct executor_ops ops = {
    .run = run,
    .compile = compile,
    .compile_slots = compile_slots,
    .transfer = transfer,
    .transfer_cancel = transfer_cancel,
    .close_file = close_file,
};

void executor_uv_init(struct executor_uv *executor, struct lanes *lanes, struct pool *pool,
                      struct transfers *transfers, struct closer *closer)
{
    *executor = (struct executor_uv){
        .base.ops = &ops, .lanes = lanes, .pool = pool, .transfers = transfers, .closer = closer
    };
}
