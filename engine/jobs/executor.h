/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The interface through which the engine runs blocking work.
 *
 * Role       hides the threads and processes that do the work; daemon/executor_uv.c is kilnd's
 *            executor
 * Ownership  the engine borrows the executor; tasks belong to the engine and stay valid until their
 *            done callback returns
 * Threading  every call is made on the engine's thread (the loop).  Every done callback runs there
 *            too, exactly once, and never from within the call
 */
#include "common/base/list.h"
#include "engine/compile/compile_job.h"
#include "engine/fleet/fleet_access.h"
#include "engine/jobs/fair_queue.h"
#include "engine/transfer/transfer_job.h"

#include <sys/types.h>

enum work_queue {
    WORK_QUEUE_READ,
    WORK_QUEUE_WRITE,
    WORK_QUEUE_TUNING, /* one task at a time; for tuning.db and imported databases */
    WORK_QUEUES
};

/* How long a task may use the engine's thread without a break. If it then has more to do, it lets
 * the tasks of other users run (executor_ops.later). */
#define TASK_SLICE_NS 1000000u

/* Each queue first runs tasks of the user whose tasks have taken the least time. Tasks of one user
 * run in order of submission, except that brief tasks may overtake others. */
struct task {
    void (*work)(struct task *task); /* not on the engine's thread; may block */
    void (*done)(struct task *task); /* on the loop */
    uid_t uid;                       /* the user to whom the time is charged */
    /* true: the task takes little time. One reader thread runs only brief tasks. It runs several
     * brief tasks, and then calls |done| for all of them. */
    bool is_brief;
    uint64_t worked_ns; /* how long |work| ran; set before |done| is called */
    struct fair_item item;
};

struct compile_task {
    struct compile_job job;
    struct compile_result result; /* set before |done| is called; the engine takes or frees it */
    void (*done)(struct compile_task *task);
    struct list_link link;
};

struct transfer_task {
    struct transfer_job job;
    uid_t uid;
    struct transfer_result result;
    /* Called on the loop, any number of times before |done|. */
    void (*progress)(struct transfer_task *task, const struct transfer_progress *progress);
    void (*done)(struct transfer_task *task);
    struct list_link link;
};

struct executor;

struct executor_ops {
    void (*run)(struct executor *executor, enum work_queue work_queue, struct task *task);
    /* Removes a waiting task and returns true; then neither |work| nor |done| is called. Returns
     * false if |work| is running or has ended; then |done| will be called. */
    bool (*cancel)(struct executor *executor, enum work_queue work_queue, struct task *task);
    /* Calls |done| without |work|, after the callbacks that are already due. The engine uses this
     * function to split long work on the loop into slices, and to handle several callbacks
     * together. */
    void (*later)(struct executor *executor, struct task *task);
    void (*compile)(struct executor *executor, struct compile_task *task);
    /* Stops a compile. |done| is called later; the result is COMPILE_UNAVAILABLE unless the compile
     * had already ended. May be NULL. */
    void (*compile_stop)(struct executor *executor, struct compile_task *task);
    unsigned (*compile_slots)(struct executor *executor);
    /* NULL if this executor cannot transfer files. */
    void (*transfer)(struct executor *executor, struct transfer_task *task);
    /* Cancels a transfer. |done| is still called; the result is KILN_CANCELLED unless the transfer
     * had already ended. */
    void (*transfer_cancel)(struct executor *executor, struct transfer_task *task);
    /* Reads or adds a file in the directory that the hosts of a fleet share.  NULL: there is no
     * fleet. */
    void (*fleet_access)(struct executor *executor, struct fleet_access *get);
    /* Closes a descriptor that |uid| sent, on a thread that may block.  NULL: the engine uses
     * close(2). */
    void (*close_file)(struct executor *executor, uid_t uid, int fd);
};

struct executor {
    const struct executor_ops *ops;
};
