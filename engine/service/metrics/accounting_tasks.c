/* SPDX-License-Identifier: MIT */
#include "engine/service/metrics/accounting_tasks.h"

#include <stdio.h>

#define WRITE_EVERY_NS 10000000000u
#define ROWS_MAX (ACCOUNTING_USERS_MAX + ACCOUNTING_KINDS_MAX + 1)
/* Number of rows that are added in one loop iteration. Adding a row to a full table takes about 15
 * us, because it may replace another row. */
#define ROWS_A_STEP 32

struct accounting_task {
    struct task task;
    struct engine *engine;
    struct kernel_accounting accounting;
    struct kernel_accounting_row *rows;
    struct object_origin *names;
    size_t count, name_count;
    size_t taken;
    uint64_t since;
    bool written;
    enum kiln_code rc;
    struct kiln_err err;
};

static void task_destroy(struct accounting_task *t)
{
    free(t->rows);
    free(t->names);
    free(t);
}

static struct accounting_task *task_create(struct engine *e)
{
    struct accounting_task *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->engine = e;
    t->err = KILN_ERR_INIT;
    t->rows = calloc(ROWS_MAX, sizeof(*t->rows));
    t->names = calloc(ACCOUNTING_KINDS_MAX, sizeof(*t->names));
    if (t->rows && t->names)
        return t;
    task_destroy(t);
    return NULL;
}

/* Copies a row of the store to the task. Ignores rows beyond the limits; an intact store has no
 * such rows. */
static void keep_row(struct accounting_task *t, const struct kernel_accounting_row *row)
{
    if (t->count == ROWS_MAX || (!row->is_user && t->name_count == ACCOUNTING_KINDS_MAX))
        return;
    struct kernel_accounting_row *kept = &t->rows[t->count++];
    *kept = *row;
    if (row->is_user)
        return;
    struct object_origin *name = &t->names[t->name_count++];
    snprintf(name->target, sizeof(name->target), "%s", row->target);
    snprintf(name->program, sizeof(name->program), "%s", row->program);
    kept->target = name->target;
    kept->program = name->program;
}

static void take_row(void *context, const struct kernel_accounting_row *row)
{
    keep_row(context, row);
}

static void load_work(struct task *task)
{
    struct accounting_task *t = (struct accounting_task *)task;
    const struct kernel_accounting_request request = { .max = ROWS_MAX,
                                                       .each = take_row,
                                                       .context = t };
    t->rc = kernel_store_accounting(t->engine->store, &request, &t->since, &t->err);
}

static void load_ended(struct accounting_task *t)
{
    struct accounting *l = t->engine->metrics.accounting;
    l->is_busy = false;
    l->is_loaded = t->rc == KILN_OK;
    if (l->is_loaded && t->since && t->since < l->since)
        l->since = t->since;
    if (t->rc)
        event_report(t->engine, "store_error", t->err.text);
    task_destroy(t);
}

static void load_done(struct task *task)
{
    struct accounting_task *t = (struct accounting_task *)task;
    engine_task_ended(t->engine);
    for (unsigned i = 0; !t->rc && i < ROWS_A_STEP && t->taken < t->count; i++)
        accounting_take(t->engine->metrics.accounting, &t->rows[t->taken++]);
    if (!t->rc && t->taken < t->count)
        engine_later(t->engine, t->engine->own_uid, &t->task);
    else
        load_ended(t);
}

/* Call it before the first write. Otherwise, that write would replace the stored rows by sums that
 * are too small. */
void accounting_load(struct engine *e)
{
    struct accounting_task *t = task_create(e);
    if (!t)
        return;
    t->task = (struct task){ .work = load_work, .done = load_done };
    e->metrics.accounting->is_busy = true;
    engine_run(e, e->own_uid, WORK_QUEUE_READ, &t->task);
}

static void collect_users(struct accounting *l, struct accounting_task *t)
{
    for (unsigned i = 0; i < l->user_count; i++) {
        struct accounting_user *user = &l->users[i];
        if (user->is_changed || l->rewrites_users)
            keep_row(t, &(struct kernel_accounting_row){
                            .is_user = true, .uid = user->uid, .sums = user->sums });
        user->is_changed = false;
    }
    if (l->others.is_changed || l->rewrites_users)
        keep_row(t, &(struct kernel_accounting_row){
                        .is_user = true, .uid = KERNEL_ACCOUNTING_OTHERS, .sums = l->others.sums });
    l->others.is_changed = false;
}

static void collect_kinds(struct accounting *l, struct accounting_task *t)
{
    for (unsigned i = 0; i < l->kind_count; i++) {
        struct accounting_kind *kind = &l->kinds[i];
        if (kind->is_changed || l->rewrites_kinds)
            keep_row(t, &(struct kernel_accounting_row){ .target = kind->what.target,
                                                         .program = kind->what.program,
                                                         .sums = kind->sums });
        kind->is_changed = false;
    }
}

static void write_work(struct task *task)
{
    struct accounting_task *t = (struct accounting_task *)task;
    t->rc = kernel_store_accounting_put(t->engine->store, &t->accounting, &t->written, &t->err);
}

static void write_done(struct task *task)
{
    struct accounting_task *t = (struct accounting_task *)task;
    struct engine *e = t->engine;
    struct accounting *l = e->metrics.accounting;
    engine_task_ended(e);
    l->is_busy = false;
    if (!t->written) {
        accounting_touch_all(l);
        l->rewrites_users = l->rewrites_kinds = true;
    }
    event_after_write(e, t->rc, &t->err);
    bool again = e->draining && t->written; /* changes since the task began must be written, too */
    task_destroy(t);
    if (again)
        accounting_write(e, /* force= */ true);
}

static void begin_write(struct engine *e, struct accounting_task *t)
{
    struct accounting *l = e->metrics.accounting;
    collect_users(l, t);
    collect_kinds(l, t);
    t->accounting = (struct kernel_accounting){ .rows = t->rows,
                                                .count = t->count,
                                                .since = l->since,
                                                .forget_users = l->rewrites_users,
                                                .forget_kinds = l->rewrites_kinds };
    l->rewrites_users = l->rewrites_kinds = l->has_changed = false;
    l->is_busy = true;
    t->task = (struct task){ .work = write_work, .done = write_done };
    engine_run(e, e->own_uid, WORK_QUEUE_WRITE, &t->task);
}

void accounting_write(struct engine *e, bool force)
{
    struct accounting *l = e->metrics.accounting;
    uint64_t now = clock_monotonic_ns();
    bool due = now - l->written_at_ns > WRITE_EVERY_NS;
    if (l->is_busy || !l->has_changed || !(due || force) ||
        kernel_store_mode(e->store) != KERNEL_STORE_ON)
        return;
    l->written_at_ns = now;
    if (!l->is_loaded) {
        accounting_load(e);
        return;
    }
    struct accounting_task *t = task_create(e);
    if (t)
        begin_write(e, t);
}
