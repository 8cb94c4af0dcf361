/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/build.h"

#include "engine/service/budget.h"

void build_drop_item(struct build_item *item)
{
    item->object = object_unref(item->object);
    free(item->program);
    item->program = NULL;
    buffer_done(&item->name);
    buffer_done(&item->args);
}

struct build *build_create(struct engine *e, uid_t uid)
{
    struct build *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    b->engine = e;
    b->uid = uid;
    b->fetches_most = BUILD_WINDOW;
    b->answer = json_object();
    b->failures = json_array();
    b->err = KILN_ERR_INIT;
    b->next = e->builds;
    e->builds = b;
    return b;
}

static void leave_list(struct build *b)
{
    struct build **at = &b->engine->builds;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
}

void build_destroy(struct build *b)
{
    leave_list(b);
    service_waiter_remove(&b->waiter);
    for (size_t i = 0; i < b->item_count; i++)
        build_drop_item(&b->items[i]);
    free(b->items);
    free(b->order);
    buffer_done(&b->problems);
    free(b->choices);
    package_writer_destroy(b->writer);
    budget_give(b->engine->budget, b->uid, b->charged);
    object_unref(b->file);
    json_destroy(b->question);
    json_destroy(b->answer);
    json_destroy(b->failures);
    free(b);
}

struct build *build_of_task(struct task *task)
{
    return (struct build *)(void *)((char *)task - offsetof(struct build, task));
}

/* ---- its end ---- */

static void abandon_work(struct task *task)
{
    struct build *b = build_of_task(task);
    package_writer_destroy(b->writer);
    b->writer = NULL;
}

static void abandon_done(struct task *task)
{
    struct build *b = build_of_task(task);
    engine_task_ended(b->engine);
    build_destroy(b);
}

static void leave_queue(struct build *b)
{
    struct build **at = &b->engine->build_waiting;
    while (*at && *at != b)
        at = &(*at)->next_waiting;
    if (*at)
        *at = b->next_waiting;
    b->step_waits = false;
}

void build_end(struct build *b)
{
    service_waiter_remove(&b->waiter);
    for (size_t i = b->written; i < b->begun; i++)
        fetch_cancel(b->engine, &b->order[i]->ticket);
    leave_queue(b);
    if (b->step_runs)
        return;
    if (!b->writer) {
        build_destroy(b);
        return;
    }
    b->task = (struct task){ .work = abandon_work, .done = abandon_done }; /* a file to remove */
    engine_run(b->engine, LANE_READ, &b->task);
}

void build_fail(struct build *b, const struct kiln_err *why)
{
    if (b->waiter.caller)
        service_refuse(b->engine, b->waiter.caller, b->waiter.request_id, why, NULL);
    build_end(b);
}

/* ---- steps, which take turns ---- */

static void start_next_step(struct engine *e)
{
    struct build *b = e->build_waiting;
    if (!b || e->build_runs)
        return;
    e->build_runs = true;
    leave_queue(b);
    b->step_runs = true;
    b->step_end =
        b->ready - b->written > BUILD_ROWS_A_STEP ? b->written + BUILD_ROWS_A_STEP : b->ready;
    engine_run(e, LANE_READ, &b->task);
}

void build_ask_for_step(struct build *b, void (*work)(struct task *), void (*done)(struct task *))
{
    struct build **at = &b->engine->build_waiting;
    if (b->step_waits || b->step_runs)
        return;
    b->task = (struct task){ .work = work, .done = done };
    b->next_waiting = NULL;
    b->step_waits = true;
    while (*at)
        at = &(*at)->next_waiting;
    *at = b;
    start_next_step(b->engine);
}

bool build_end_step(struct build *b)
{
    struct engine *e = b->engine;
    engine_task_ended(e);
    b->step_runs = false;
    e->build_runs = false;
    start_next_step(e);
    if (!b->waiter.caller)
        build_end(b);
    else if (b->rc)
        build_fail(b, &b->err);
    else
        return true;
    return false;
}
