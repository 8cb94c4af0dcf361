/* SPDX-License-Identifier: MIT */
#include "engine/embed/direct_executor.h"

#include <assert.h>

static struct direct_executor *self_of(struct executor *base)
{
    return (struct direct_executor *)base;
}

static void run_on_work_queue(struct executor *base, enum work_queue work_queue, struct task *task)
{
    (void)work_queue;
    list_append(&self_of(base)->tasks, &task->item.link);
}

/* Removes a waiting task. Returns false for a task that is about to run: no list contains it any
 * longer. */
static bool cancel_task(struct executor *base, enum work_queue work_queue, struct task *task)
{
    (void)base;
    (void)work_queue;
    bool was_waiting = list_holds(&task->item.link);
    list_remove(&task->item.link);
    return was_waiting;
}

static void run_later(struct executor *base, struct task *task)
{
    list_append(&self_of(base)->later, &task->item.link);
}

static void take_compile(struct executor *base, struct compile_task *task)
{
    struct direct_executor *x = self_of(base);
    assert(!x->compile);
    x->compile = task;
    x->compile_has_begun = false;
}

static unsigned compile_slots(struct executor *base) { return self_of(base)->compiler ? 1 : 0; }

static const struct executor_ops ops = {
    .run = run_on_work_queue,
    .cancel = cancel_task,
    .later = run_later,
    .compile = take_compile,
    .compile_slots = compile_slots,
};

void direct_executor_init(struct direct_executor *x, struct embed_compiler *compiler)
{
    *x = (struct direct_executor){ .base.ops = &ops, .compiler = compiler };
    list_init(&x->tasks);
    list_init(&x->later);
    list_init(&x->due);
    list_init(&x->due_later);
}

static void begin_compile(struct direct_executor *x)
{
    struct compile_task *task = x->compile;
    x->compile_has_begun = true;
    task->result = COMPILE_RESULT_INIT;
    x->compiler->ops->begin(x->compiler, &task->job, &task->result);
}

bool direct_executor_compiles(const struct direct_executor *x)
{
    return x->compile && x->compile_has_begun;
}

void direct_executor_end_compile(struct direct_executor *x)
{
    struct compile_task *task = x->compile;
    x->compile = NULL; /* before the callback, because the callback may start the next compile */
    task->done(task);
}

static bool run_due_task(struct direct_executor *x)
{
    struct task *task = LIST_POP(&x->due, struct task, item.link);
    if (task)
        task->work(task);
    else
        task = LIST_POP(&x->due_later, struct task, item.link);
    if (task)
        task->done(task);
    return task != NULL;
}

bool direct_executor_step(struct direct_executor *x)
{
    if (x->compile && !x->compile_has_begun) {
        begin_compile(x);
        return true;
    }
    if (run_due_task(x))
        return true;
    list_append_all(&x->due, &x->tasks);
    list_append_all(&x->due_later, &x->later);
    return run_due_task(x);
}
