/* SPDX-License-Identifier: MIT */
#include "daemon/workers/transfer.h"

#include "common/base/subordinate_uids.h"
#include "engine/jobs/transfer_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each import of a user may fill 1/USERS_DISK_PART of the free space, so that all imports together
 * fill at most half of it. */
#define USERS_DISK_PART (2 * (UPLOADS_MAX - UPLOADS_FOR_ADMINS))

struct transfers {
    char *program, *service; /* owned */
    struct transfer_process_options options;
    struct list processes, stuck;
    /* Tasks for users' files, each of which waits for an earlier file of the same user. */
    struct list waiting;
    unsigned out;
    struct list ended; /* the done callbacks are due */
    struct loop_owner owner;
    struct loop_timer settle;
    bool stopping, closing;
    void (*closed)(void *context);
    void *context;
};

static unsigned count_of(const struct list *processes, uid_t uid)
{
    unsigned count = 0;
    LIST_EACH (processes, const struct transfer_process, link, p)
        count += is_one_user(p->uid, uid);
    return count;
}

KILN_PRINTF(4, 5)
static void end_without_process(struct transfers *t, struct transfer_task *task,
                                enum kiln_code code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    task->result = (struct transfer_result){ .err.code = code };
    vsnprintf(task->result.err.text, sizeof(task->result.err.text), fmt, args);
    va_end(args);
    list_append(&t->ended, &task->link);
}

static void start_one(struct transfers *t, struct transfer_task *task)
{
    struct transfer_process *p = NULL;
    if (t->stopping)
        end_without_process(t, task, KILN_UNAVAILABLE, "kilnd is shutting down");
    else if (count_of(&t->stuck, task->uid) >= TRANSFERS_STUCK_MAX_UID)
        end_without_process(t, task, KILN_BUSY,
                            "%u transfers of user %u cannot be ended, because the filesystem that "
                            "they read from does not respond: try again when it does",
                            count_of(&t->stuck, task->uid), (unsigned)task->uid);
    else if (!(p = transfer_process_start(&t->options, t, task)))
        end_without_process(t, task, KILN_NO_MEMORY, "cannot start kiln-transfer");
    if (p)
        list_prepend(&t->processes, &p->link);
}

/* Returns whether the task is a user's file and another file of the same user is being checked.
 * Checking takes a processor, so one user's files are checked one at a time. */
static bool must_wait(const struct transfers *t, const struct transfer_task *task)
{
    if (!task->job.of_user || t->stopping)
        return false;
    LIST_EACH (&t->processes, const struct transfer_process, link, p) {
        if (p->task->job.of_user && is_one_user(p->uid, task->uid))
            return true;
    }
    return false;
}

static struct transfer_task *next_to_start(struct transfers *t)
{
    LIST_EACH (&t->waiting, struct transfer_task, link, task) {
        if (!must_wait(t, task))
            return task;
    }
    return NULL;
}

static void start_waiting(struct transfers *t)
{
    for (struct transfer_task *task; (task = next_to_start(t));) {
        list_remove(&task->link);
        start_one(t, task);
    }
}

static void on_settle(struct loop_timer *timer)
{
    struct transfers *t = LOOP_OWNER_OF(struct transfers, settle, timer);
    start_waiting(t);
    for (struct transfer_task *task; (task = LIST_POP(&t->ended, struct transfer_task, link));) {
        t->out--;
        task->done(task);
    }
    if (t->closing && t->out == 0 && list_is_empty(&t->processes) && list_is_empty(&t->stuck))
        loop_timer_close(&t->settle);
}

static void on_ended(struct transfer_process *p)
{
    struct transfers *t = p->context;
    list_remove(&p->link);
    list_append(&t->ended, &p->task->link);
    if (p->is_stuck)
        list_prepend(&t->stuck, &p->link);
    if (p->is_stuck && t->closing)
        transfer_process_abandon(p);
    loop_timer_start(&t->settle, 0, 0);
}

static void on_process_gone(struct transfer_process *p)
{
    struct transfers *t = p->context;
    list_remove(&p->link);
    loop_timer_start(&t->settle, 0, 0);
}

static void on_closed(struct loop_owner *owner)
{
    struct transfers *t = LOOP_OWNER_OF(struct transfers, owner, owner);
    void (*closed)(void *) = t->closed;
    void *context = t->context;
    free(t->program);
    free(t->service);
    free(t);
    closed(context);
}

enum kiln_code transfers_create(const struct transfers_options *options,
                                struct transfers **ret_transfers, struct kiln_err *err)
{
    struct transfers *t = calloc(1, sizeof(*t));
    char *program = strdup(options->program);
    char *service = strdup(options->service ? options->service : "");
    if (!t || !program || !service) {
        free(t);
        free(program);
        free(service);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the queue of transfers");
    }
    t->program = program;
    t->service = service;
    list_init(&t->processes);
    list_init(&t->stuck);
    list_init(&t->waiting);
    list_init(&t->ended);
    t->owner.gone = on_closed;
    t->options = (struct transfer_process_options){
        .loop = options->loop,
        .work_queues = options->work_queues,
        .program = program,
        .service = service,
        .user = options->user,
        .disk_part = USERS_DISK_PART,
        .timeout_ms = options->timeout_ms,
        .silence_ms = options->silence_ms,
        .exit_ms = options->exit_ms,
        .ended = on_ended,
        .gone = on_process_gone,
    };
    loop_timer_init(options->loop, &t->settle, &t->owner, on_settle);
    *ret_transfers = t;
    return KILN_OK;
}

void transfers_start(struct transfers *t, struct transfer_task *task)
{
    t->out++;
    list_append(&t->waiting, &task->link);
    start_waiting(t);
    loop_timer_start(&t->settle, 0, 0);
}

static void cancel_waiting(struct transfers *t, struct transfer_task *task)
{
    list_remove(&task->link);
    end_without_process(t, task, KILN_CANCELLED, "the transfer was cancelled");
    loop_timer_start(&t->settle, 0, 0);
}

void transfers_cancel(struct transfers *t, struct transfer_task *task)
{
    LIST_EACH (&t->processes, struct transfer_process, link, p) {
        if (p->task == task)
            transfer_process_stop(p, STOP_CANCELLED);
    }
    LIST_EACH (&t->waiting, struct transfer_task, link, waiting) {
        if (waiting == task) {
            cancel_waiting(t, task);
            return;
        }
    }
}

unsigned transfers_out(const struct transfers *t) { return t->out; }

void transfers_stop(struct transfers *t)
{
    t->stopping = true;
    LIST_EACH (&t->processes, struct transfer_process, link, p)
        transfer_process_stop(p, STOP_SHUTDOWN);
    loop_timer_start(&t->settle, 0, 0);
}

void transfers_close(struct transfers *t, void (*closed)(void *context), void *context)
{
    transfers_stop(t);
    t->closing = true;
    t->closed = closed;
    t->context = context;
    LIST_EACH (&t->stuck, struct transfer_process, link, p)
        transfer_process_abandon(p);
}
