/* SPDX-License-Identifier: MIT */
#include "tests/support/fake_executor.h"

#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "engine/manifest/manifest.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static void take_task(struct executor *executor, enum work_queue work_queue, struct task *task)
{
    struct fake_executor *f = (struct fake_executor *)executor;
    f->tasks_of[work_queue]++;
    list_append(&f->tasks, &task->item.link);
    if (f->works_at_once)
        fake_executor_begin_task(f);
}

static bool cancel_task(struct executor *executor, enum work_queue work_queue, struct task *task)
{
    struct fake_executor *f = (struct fake_executor *)executor;
    bool was_waiting = list_holds(&task->item.link);
    list_remove(&task->item.link);
    f->tasks_cancelled_of[work_queue] += was_waiting;
    return was_waiting;
}

static void take_later(struct executor *executor, struct task *task)
{
    struct fake_executor *f = (struct fake_executor *)executor;
    f->laters++;
    list_append(&f->later, &task->item.link);
}

static void take_compile(struct executor *executor, struct compile_task *task)
{
    struct fake_executor *f = (struct fake_executor *)executor;
    list_append(&f->compiles, &task->link);
    f->compiles_handed_over++;
}

static void stop_compile(struct executor *executor, struct compile_task *task)
{
    struct fake_executor *f = (struct fake_executor *)executor;
    if (!list_holds(&task->link))
        fail_msg("a compile was stopped that is not pending");
    f->stopped = task;
    f->compiles_stopped++;
}

static unsigned count_slots(struct executor *executor)
{
    return ((struct fake_executor *)executor)->slots;
}

static void take_transfer(struct executor *executor, struct transfer_task *task)
{
    struct fake_executor *f = (struct fake_executor *)executor;
    list_append(&f->transfers, &task->link);
    f->transfers_handed_over++;
}

static void cancel_transfer(struct executor *executor, struct transfer_task *task)
{
    struct fake_executor *f = (struct fake_executor *)executor;
    if (!list_holds(&task->link))
        fail_msg("a transfer was cancelled that is not pending");
    kiln_fail(&task->result.err, KILN_CANCELLED, "cancelled");
    f->transfers_cancelled++;
}

static void take_fleet_access(struct executor *executor, struct fleet_access *get)
{
    struct fake_executor *f = (struct fake_executor *)executor;
    list_append(&f->fleet_accesses, &get->link);
    f->fleet_accesses_handed_over++;
}

struct fleet_access *fake_executor_next_fleet_access(struct fake_executor *f)
{
    return LIST_FIRST(&f->fleet_accesses, struct fleet_access, link);
}

void fake_executor_fleet_got(struct fleet_access *get, struct bytes content)
{
    struct kiln_err err = KILN_ERR_INIT;
    must(fs_memfd("fleet", &get->fd, &err), err);
    must(fs_write_all(get->fd, content, &err), err);
    list_remove(&get->link);
    get->end = FLEET_END_DONE;
    get->done(get);
}

void fake_executor_fleet_failed(struct fleet_access *get, enum fleet_end end)
{
    list_remove(&get->link);
    get->end = end;
    get->done(get);
}

void fake_executor_fleet_slow(struct fleet_access *get)
{
    get->is_slow = true;
    if (get->slow)
        get->slow(get);
}

static const struct executor_ops ops = {
    .fleet_access = take_fleet_access,
    .run = take_task,
    .cancel = cancel_task,
    .later = take_later,
    .compile = take_compile,
    .compile_stop = stop_compile,
    .compile_slots = count_slots,
    .transfer = take_transfer,
    .transfer_cancel = cancel_transfer,
};

void fake_executor_init(struct fake_executor *f, unsigned slots)
{
    *f = (struct fake_executor){ .base = { .ops = &ops }, .slots = slots };
    list_init(&f->tasks);
    list_init(&f->later);
    list_init(&f->compiles);
    list_init(&f->transfers);
    list_init(&f->fleet_accesses);
}

static bool end_iteration(struct fake_executor *f)
{
    struct list due = LIST_INIT(due);
    list_append_all(&due, &f->later);
    bool any = !list_is_empty(&due);
    for (struct task *task; (task = LIST_POP(&due, struct task, item.link));)
        task->done(task);
    return any;
}

void fake_executor_begin_task(struct fake_executor *f)
{
    struct task *task = LIST_POP(&f->tasks, struct task, item.link);
    assert_non_null(task);
    assert_null(f->begun);
    task->work(task);
    f->begun = task;
}

bool fake_executor_run_task(struct fake_executor *f)
{
    if (!f->begun && list_is_empty(&f->tasks))
        return end_iteration(f);
    if (!f->begun)
        fake_executor_begin_task(f);
    struct task *task = f->begun;
    f->begun = NULL;
    task->done(task);
    return true;
}

unsigned fake_executor_run_tasks(struct fake_executor *f)
{
    unsigned count = 0;
    while (fake_executor_run_task(f))
        count++;
    return count;
}

struct compile_task *fake_executor_next_compile(struct fake_executor *f)
{
    return LIST_FIRST(&f->compiles, struct compile_task, link);
}

void fake_executor_end_stopped(struct fake_executor *f)
{
    struct compile_task *task = f->stopped;
    assert_non_null(task);
    f->stopped = NULL;
    list_remove(&task->link);
    task->result = COMPILE_RESULT_INIT;
    task->result.end = COMPILE_UNAVAILABLE;
    kiln_fail(&task->result.err, KILN_UNAVAILABLE, "stopped");
    task->done(task);
}

static struct compile_task *pop_compile(struct fake_executor *f)
{
    struct compile_task *task = LIST_POP(&f->compiles, struct compile_task, link);
    assert_non_null(task);
    return task;
}

void fake_executor_compile(struct fake_executor *f, struct bytes content)
{
    struct compile_task *task = pop_compile(f);
    struct kiln_err err = KILN_ERR_INIT;
    task->result = COMPILE_RESULT_INIT;
    task->result.end = COMPILE_DONE;
    task->result.wall_ns = 5000000;
    must(fs_memfd("object", &task->result.object_fd, &err), err);
    must(fs_write_all(task->result.object_fd, content, &err), err);
    must(fs_seal(task->result.object_fd, &err), err);
    task->done(task);
}

void fake_executor_fail(struct fake_executor *f, enum compile_end end, const char *text,
                        const char *log)
{
    struct compile_task *task = pop_compile(f);
    task->result = COMPILE_RESULT_INIT;
    task->result.end = end;
    task->result.log = log ? strdup(log) : NULL;
    kiln_fail(&task->result.err,
              end == COMPILE_UNAVAILABLE ? KILN_UNAVAILABLE : KILN_COMPILE_FAILED, "%s", text);
    task->done(task);
}

struct transfer_task *fake_executor_next_transfer(struct fake_executor *f)
{
    return LIST_FIRST(&f->transfers, struct transfer_task, link);
}

static struct transfer_task *pop_transfer(struct fake_executor *f)
{
    struct transfer_task *task = fake_executor_next_transfer(f);
    assert_non_null(task);
    list_remove(&task->link);
    return task;
}

void fake_executor_transfer_progress(struct fake_executor *f, const char *stage, uint64_t done,
                                     uint64_t total)
{
    struct transfer_task *task = fake_executor_next_transfer(f);
    assert_non_null(task);
    const struct transfer_progress progress = {
        .stage = stage, .done = done, .total = total, .attempt = 1, .note = ""
    };
    task->progress(task, &progress);
}

/* Names |signer| in the result |o|. Adds a signed manifest if the directory of trusted keys has
 * |signer|'s key. */
static void sign_file(const struct transfer_task *task, const char *signer,
                      struct transfer_result *o, const struct digest *sha256)
{
    char key[512];
    struct buffer manifest;
    struct kiln_err err = KILN_ERR_INIT;
    const struct manifest_entry entry = { .name = o->name, .size = o->size, .sha256 = *sha256 };
    snprintf(key, sizeof(key), "%s/%s.key", task->job.trusted_keys, signer);
    snprintf(o->signer, sizeof(o->signer), "%s", signer);
    snprintf(o->fetched, sizeof(o->fetched), "%s", o->name);
    if (!signer[0] || access(key, R_OK) != 0)
        return;
    buffer_init(&manifest, MANIFEST_MAX);
    const struct manifest_content content = { .entries = &entry, .count = 1 };
    must(manifest_sign(key, &content, &manifest, &err), err);
    o->manifest = manifest.data;
    o->manifest_size = manifest.size;
}

void fake_executor_transfer(struct fake_executor *f, const char *content_path, const char *name,
                            const char *signer)
{
    struct transfer_task *task = pop_transfer(f);
    struct transfer_result *o = &task->result;
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, 64u << 20);
    must(fs_read_file(content_path, content.limit, &content, &err), err);
    *o = (struct transfer_result){ .err = KILN_ERR_INIT, .size = content.size };
    snprintf(o->path, sizeof(o->path), "%s/arrived-%u", task->job.staging,
             f->transfers_handed_over);
    snprintf(o->name, sizeof(o->name), "%s", name);
    snprintf(o->source, sizeof(o->source), "%s", task->job.url ? task->job.url : "");
    must(fs_replace_file(o->path, buffer_view(&content), 0600, &err), err);
    struct digest sha256 = sha256_of(buffer_view(&content));
    digest_to_hex(&sha256, o->sha256);
    sign_file(task, signer, o, &sha256);
    task->done(task);
}

void fake_executor_transfer_fail(struct fake_executor *f, enum kiln_code code, const char *text)
{
    struct transfer_task *task = pop_transfer(f);
    if (!task->result.err.code)
        kiln_fail(&task->result.err, code, "%s", text);
    task->done(task);
}
