/* SPDX-License-Identifier: MIT */
#include "daemon/workers/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list {
    struct transfer_task *first, **last;
};

struct transfers {
    char *program; /* owned */
    struct transfer_process_options options;
    unsigned at_once;
    struct transfer_process *processes;
    unsigned running, out;
    struct list waiting, ended; /* ended: their done callbacks are due */
    struct loop_owner owner;
    struct loop_timer settle; /* does on the next turn what must not be done within a call */
    bool stopping, closing;
    void (*closed)(void *context);
    void *context;
};

static void append(struct list *list, struct transfer_task *task)
{
    task->next = NULL;
    *list->last = task;
    list->last = &task->next;
}

static struct transfer_task *take_first(struct list *list)
{
    struct transfer_task *task = list->first;
    list->first = task->next;
    if (!list->first)
        list->last = &list->first;
    return task;
}

static bool take_out(struct list *list, struct transfer_task *task)
{
    struct transfer_task **at = &list->first;
    while (*at && *at != task)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = task->next;
    if (!*at)
        list->last = at;
    return true;
}

KILN_PRINTF(4, 5)
static void end_without_process(struct transfers *t, struct transfer_task *task,
                                enum kiln_code code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    task->outcome = (struct transfer_outcome){ .err.code = code };
    vsnprintf(task->outcome.err.text, sizeof(task->outcome.err.text), fmt, args);
    va_end(args);
    append(&t->ended, task);
}

static void start_one(struct transfers *t, struct transfer_task *task)
{
    struct transfer_process *p = NULL;
    if (t->stopping)
        end_without_process(t, task, KILN_UNAVAILABLE, "kilnd is shutting down");
    else if (!(p = transfer_process_start(&t->options, t, task)))
        end_without_process(t, task, KILN_NO_MEMORY, "cannot start kiln-transfer");
    if (!p)
        return;
    p->next = t->processes;
    t->processes = p;
    t->running++;
}

static void on_settle(struct loop_timer *timer)
{
    struct transfers *t = LOOP_OWNER_OF(struct transfers, settle, timer);
    while (t->waiting.first && (t->running < t->at_once || t->stopping))
        start_one(t, take_first(&t->waiting));
    while (t->ended.first) {
        struct transfer_task *task = take_first(&t->ended);
        t->out--;
        task->done(task);
    }
    if (t->closing && t->out == 0 && t->running == 0)
        loop_timer_close(&t->settle);
    else if (t->ended.first || (t->waiting.first && t->running < t->at_once))
        loop_timer_start(&t->settle, 0, 0); /* the callbacks brought more */
}

static void on_ended(struct transfer_process *p)
{
    struct transfers *t = p->context;
    struct transfer_process **at = &t->processes;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    t->running--;
    append(&t->ended, p->task);
    loop_timer_start(&t->settle, 0, 0);
}

static void on_closed(struct loop_owner *owner)
{
    struct transfers *t = LOOP_OWNER_OF(struct transfers, owner, owner);
    void (*closed)(void *) = t->closed;
    void *context = t->context;
    free(t->program);
    free(t);
    closed(context);
}

enum kiln_code transfers_create(const struct transfers_options *options,
                                struct transfers **ret_transfers, struct kiln_err *err)
{
    struct transfers *t = calloc(1, sizeof(*t));
    char *program = strdup(options->program);
    if (!t || !program) {
        free(t);
        free(program);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the queue of transfers");
    }
    t->program = program;
    t->at_once = options->at_once;
    t->waiting.last = &t->waiting.first;
    t->ended.last = &t->ended.first;
    t->owner.gone = on_closed;
    t->options = (struct transfer_process_options){
        .loop = options->loop,
        .lanes = options->lanes,
        .program = program,
        .timeout_ms = options->timeout_ms,
        .ended = on_ended,
    };
    loop_timer_init(options->loop, &t->settle, &t->owner, on_settle);
    *ret_transfers = t;
    return KILN_OK;
}

void transfers_start(struct transfers *t, struct transfer_task *task)
{
    append(&t->waiting, task);
    t->out++;
    loop_timer_start(&t->settle, 0, 0);
}

void transfers_cancel(struct transfers *t, struct transfer_task *task)
{
    if (take_out(&t->waiting, task)) {
        end_without_process(t, task, KILN_CANCELLED, "the transfer was cancelled");
        loop_timer_start(&t->settle, 0, 0);
        return;
    }
    for (struct transfer_process *p = t->processes; p; p = p->next) {
        if (p->task == task)
            transfer_process_stop(p, STOP_CANCELLED);
    }
}

unsigned transfers_out(const struct transfers *t) { return t->out; }

void transfers_stop(struct transfers *t)
{
    t->stopping = true;
    for (struct transfer_process *p = t->processes; p; p = p->next)
        transfer_process_stop(p, STOP_SHUTDOWN);
    loop_timer_start(&t->settle, 0, 0);
}

void transfers_close(struct transfers *t, void (*closed)(void *context), void *context)
{
    transfers_stop(t);
    t->closing = true;
    t->closed = closed;
    t->context = context;
}
