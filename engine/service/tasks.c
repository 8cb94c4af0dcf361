/* SPDX-License-Identifier: MIT */
#include "engine/service/internal.h"

#include "common/base/clock.h"

#include <stdlib.h>
#include <unistd.h>

void engine_run(struct engine *e, uid_t uid, enum work_queue work_queue, struct task *task)
{
    task->uid = uid;
    e->tasks_out++;
    e->executor->ops->run(e->executor, work_queue, task);
}

bool engine_cancel(struct engine *e, enum work_queue work_queue, struct task *task)
{
    bool was_waiting = e->executor->ops->cancel(e->executor, work_queue, task);
    e->tasks_out -= was_waiting;
    return was_waiting;
}

void engine_later(struct engine *e, uid_t uid, struct task *task)
{
    task->uid = uid;
    e->tasks_out++;
    e->executor->ops->later(e->executor, task);
}

void engine_task_ended(struct engine *e) { e->tasks_out--; }

struct drop_task {
    struct task task;
    struct engine *engine;
};

static bool drop_some(struct engine *e)
{
    return hot_set_drop_some(e->hot, clock_monotonic_ns() + TASK_SLICE_NS);
}

static void drop_more(struct task *task)
{
    struct engine *e = ((struct drop_task *)task)->engine;
    engine_task_ended(e);
    if (drop_some(e))
        engine_later(e, e->own_uid, task);
    else
        free(task);
}

static void drop_removed(struct engine *e)
{
    if (!drop_some(e))
        return;
    struct drop_task *t = calloc(1, sizeof(*t));
    if (!t) {
        (void)hot_set_drop_some(e->hot, UINT64_MAX);
        return;
    }
    t->task = (struct task){ .done = drop_more };
    t->engine = e;
    engine_later(e, e->own_uid, &t->task);
}

void engine_forget_hot_of(struct engine *e, uid_t uid)
{
    hot_set_remove_of(e->hot, (uint32_t)uid);
    drop_removed(e);
}

void engine_forget_answers(struct engine *e)
{
    hot_set_clear(e->hot);
    drop_removed(e);
    failure_memory_clear(e->failures);
}

void engine_close_file(struct engine *e, uid_t uid, int fd)
{
    struct executor *executor = e->executor;
    if (executor->ops->close_file)
        executor->ops->close_file(executor, uid, fd);
    else
        close(fd);
}
