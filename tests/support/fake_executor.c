/* SPDX-License-Identifier: MIT */
#include "tests/support/fake_executor.h"

#include "common/fs.h"
#include "tests/support/test.h"

#include <string.h>

static void take_task(struct executor *executor, enum lane lane, struct task *task)
{
    struct fake_executor *f = (struct fake_executor *)executor;
    (void)lane;
    task->next = NULL;
    *f->last_task = task;
    f->last_task = &task->next;
}

static void take_compile(struct executor *executor, struct compile_task *task)
{
    struct fake_executor *f = (struct fake_executor *)executor;
    task->next = NULL;
    *f->last_compile = task;
    f->last_compile = &task->next;
    f->compiles_handed_over++;
}

static unsigned count_slots(struct executor *executor)
{
    return ((struct fake_executor *)executor)->slots;
}

static const struct executor_ops ops = {
    .run = take_task,
    .compile = take_compile,
    .compile_slots = count_slots,
};

void fake_executor_init(struct fake_executor *f, unsigned slots)
{
    *f = (struct fake_executor){ .base = { .ops = &ops }, .slots = slots };
    f->last_task = &f->tasks;
    f->last_compile = &f->compiles;
}

unsigned fake_executor_run_tasks(struct fake_executor *f)
{
    unsigned count = 0;
    while (f->tasks) {
        struct task *task = f->tasks;
        f->tasks = task->next;
        if (!f->tasks)
            f->last_task = &f->tasks;
        task->work(task);
        task->done(task);
        count++;
    }
    return count;
}

struct compile_task *fake_executor_next_compile(struct fake_executor *f) { return f->compiles; }

static struct compile_task *pop(struct fake_executor *f)
{
    struct compile_task *task = f->compiles;
    assert_non_null(task);
    f->compiles = task->next;
    if (!f->compiles)
        f->last_compile = &f->compiles;
    return task;
}

void fake_executor_compile(struct fake_executor *f, struct bytes content)
{
    struct compile_task *task = pop(f);
    struct kiln_err err = KILN_ERR_INIT;
    task->outcome = COMPILE_OUTCOME_INIT;
    task->outcome.end = COMPILE_DONE;
    task->outcome.object_size = content.size;
    task->outcome.wall_ns = 5000000;
    must(fs_memfd("object", &task->outcome.object_fd, &err), err);
    must(fs_write_all(task->outcome.object_fd, content, &err), err);
    must(fs_seal(task->outcome.object_fd, &err), err);
    task->done(task);
}

void fake_executor_fail(struct fake_executor *f, enum compile_end end, const char *text,
                        const char *log)
{
    struct compile_task *task = pop(f);
    task->outcome = COMPILE_OUTCOME_INIT;
    task->outcome.end = end;
    task->outcome.log = log ? strdup(log) : NULL;
    kiln_fail(&task->outcome.err,
              end == COMPILE_UNAVAILABLE ? KILN_UNAVAILABLE : KILN_COMPILE_FAILED, "%s", text);
    task->done(task);
}
