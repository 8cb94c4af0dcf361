/* SPDX-License-Identifier: MIT */
#include "engine/service/internal.h"

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

void engine_forget_hot_of(struct engine *e, uid_t uid) { hot_set_remove_of(e->hot, (uint32_t)uid); }

void engine_forget_answers(struct engine *e)
{
    hot_set_clear(e->hot);
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
