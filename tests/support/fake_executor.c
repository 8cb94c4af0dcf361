/* SPDX-License-Identifier: MIT */
#include "tests/support/fake_executor.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
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

static void take_transfer(struct executor *executor, struct transfer_task *task)
{
    struct fake_executor *f = (struct fake_executor *)executor;
    task->next = NULL;
    *f->last_transfer = task;
    f->last_transfer = &task->next;
    f->transfers_handed_over++;
}

static void cancel_transfer(struct executor *executor, struct transfer_task *task)
{
    struct fake_executor *f = (struct fake_executor *)executor;
    struct transfer_task **at = &f->transfers;
    while (*at && *at != task)
        at = &(*at)->next;
    if (!*at)
        return; /* over already */
    *at = task->next;
    if (!*at)
        f->last_transfer = at;
    task->next = f->cancelled;
    f->cancelled = task;
}

static const struct executor_ops ops = {
    .run = take_task,
    .compile = take_compile,
    .compile_slots = count_slots,
    .transfer = take_transfer,
    .transfer_cancel = cancel_transfer,
};

void fake_executor_init(struct fake_executor *f, unsigned slots)
{
    *f = (struct fake_executor){ .base = { .ops = &ops }, .slots = slots };
    f->last_task = &f->tasks;
    f->last_compile = &f->compiles;
    f->last_transfer = &f->transfers;
}

static void end_cancelled(struct fake_executor *f)
{
    while (f->cancelled) {
        struct transfer_task *task = f->cancelled;
        f->cancelled = task->next;
        task->outcome = (struct transfer_outcome){ .err = KILN_ERR_INIT };
        kiln_fail(&task->outcome.err, KILN_CANCELLED, "the transfer was cancelled");
        task->done(task);
    }
}

unsigned fake_executor_run_tasks(struct fake_executor *f)
{
    unsigned count = 0;
    end_cancelled(f);
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

struct transfer_task *fake_executor_next_transfer(struct fake_executor *f) { return f->transfers; }

static struct transfer_task *pop_transfer(struct fake_executor *f)
{
    struct transfer_task *task = f->transfers;
    assert_non_null(task);
    f->transfers = task->next;
    if (!f->transfers)
        f->last_transfer = &f->transfers;
    return task;
}

void fake_executor_tell_progress(struct fake_executor *f, const char *stage, uint64_t done,
                                 uint64_t total)
{
    const struct transfer_progress progress = {
        .stage = stage, .done = done, .total = total, .attempt = 1, .note = ""
    };
    assert_non_null(f->transfers);
    if (f->transfers->progress)
        f->transfers->progress(f->transfers, &progress);
}

void fake_executor_transfer(struct fake_executor *f, struct bytes content,
                            const struct transfer_outcome *like)
{
    struct transfer_task *task = pop_transfer(f);
    static unsigned made;
    struct kiln_err err = KILN_ERR_INIT;
    struct transfer_outcome *o = &task->outcome;
    *o = *like;
    o->err = KILN_ERR_INIT;
    if (o->name[0] == '\0')
        snprintf(o->name, sizeof(o->name), "%s", task->job.name ? task->job.name : "gfx90a68.kdb");
    must(fs_make_folders(task->job.staging, &err), err);
    snprintf(o->path, sizeof(o->path), "%s/fake-%u.file", task->job.staging, ++made);
    KILN_AUTO(fd) int fd = open(o->path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    must(fs_write_all(fd, content, &err), err);
    o->size = content.size;
    task->done(task);
}

void fake_executor_fail_transfer(struct fake_executor *f, enum kiln_code code, const char *text)
{
    struct transfer_task *task = pop_transfer(f);
    task->outcome = (struct transfer_outcome){ .err = KILN_ERR_INIT };
    kiln_fail(&task->outcome.err, code, "%s", text);
    task->done(task);
}
