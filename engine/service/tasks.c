/* SPDX-License-Identifier: MIT */
#include "engine/service/internal.h"

void engine_run(struct engine *e, enum lane lane, struct task *task)
{
    e->tasks_out++;
    e->executor->ops->run(e->executor, lane, task);
}

void engine_later(struct engine *e, struct task *task)
{
    e->tasks_out++;
    e->executor->ops->later(e->executor, task);
}

void engine_task_ended(struct engine *e) { e->tasks_out--; }

void engine_hot_forgotten(struct engine *e)
{
    e->hot_generation++;
    if (e->host && e->host->forgot)
        e->host->forgot(e->host);
}

void engine_forget_hot_of(struct engine *e, uid_t uid)
{
    hot_set_remove_of(e->hot, (uint32_t)uid);
    engine_hot_forgotten(e);
}

void engine_forget_hot(struct engine *e)
{
    hot_set_clear(e->hot);
    e->hot_packages = package_set_fingerprint(e->packages);
    engine_hot_forgotten(e);
}
