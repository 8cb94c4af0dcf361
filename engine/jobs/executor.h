/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The interface through which the engine runs blocking work.
 *
 * Role       runs what the engine decides to do: an executor has the threads and processes for it.
 *            kilnd's executor is daemon/executor_uv.c (threads, worker processes).  Tests use an
 *            executor that runs a task when the test asks for it
 * Ownership  the engine borrows the executor; tasks belong to the engine and stay valid until their
 *            done callback returns
 * Threading  every call is made on the engine's thread (the loop).  Every done callback runs there
 *            too, exactly once, and never from within the call
 */
#include "common/base/list.h"
#include "engine/compile/compile_job.h"
#include "engine/jobs/fair_queue.h"
#include "engine/transfer/transfer_job.h"

#include <sys/types.h>

enum work_queue {
    WORK_QUEUE_READ,   /* several tasks in parallel */
    WORK_QUEUE_WRITE,  /* one task at a time */
    WORK_QUEUE_TUNING, /* one task at a time, in parallel with WORK_QUEUE_WRITE: for tuning.db and
                          imported databases */
    WORK_QUEUES
};

/* After this time on the engine's thread, a task with more to do lets other users' tasks run, and
 * continues later (executor_ops.later). Work on the requests of one connection is interrupted in
 * the same way. */
#define TASK_SLICE_NS 1000000u

/* A task for a work queue.  Each queue first serves the user whose tasks have taken the least time.
 * The tasks of one user run in order of submission, except that brief tasks may overtake others. */
struct task {
    void (*work)(struct task *task); /* called off the loop; may block */
    void (*done)(struct task *task); /* called on the loop */
    uid_t uid;                       /* the user whom the time is charged to; for maintenance,
                                      * kilnd's own uid */
    bool is_brief; /* one reader thread runs only brief tasks; it may run several of them before it
                    * calls |done| */
    uint64_t worked_ns;    /* how long |work| took; set before |done| is called */
    struct fair_item item; /* for the executor's queue */
};

struct compile_task {
    struct compile_job job;
    struct compile_result result; /* set before |done| is called; the engine takes or frees it */
    void (*done)(struct compile_task *task);
    struct list_link link; /* for the executor's queue */
};

struct transfer_task {
    struct transfer_job job;
    uid_t uid; /* the user who made the request */
    struct transfer_result result;
    /* Called on the loop, any number of times before done. */
    void (*progress)(struct transfer_task *task, const struct transfer_progress *progress);
    void (*done)(struct transfer_task *task);
    struct list_link link; /* for the executor's list */
};

struct executor;

struct executor_ops {
    void (*run)(struct executor *executor, enum work_queue work_queue, struct task *task);
    /* Removes a waiting task and returns true. The task then belongs to the caller again, and
     * neither callback is called. Returns false if |work| runs or has ended; |done| will be
     * called. */
    bool (*cancel)(struct executor *executor, enum work_queue work_queue, struct task *task);
    /* Does not run |work|; calls |done| later, in the order of the fair queue, after the callbacks
     * that are already due. So one later call can do the work of several callbacks, and long work
     * on the loop can run in slices. */
    void (*later)(struct executor *executor, struct task *task);
    /* Hands the job to a free compiler, or waits for one to become free. */
    void (*compile)(struct executor *executor, struct compile_task *task);
    /* Stops a compile early. |done| is called later, never within this call. The result is
     * COMPILE_UNAVAILABLE unless the compile had already ended. The pointer may be NULL if this
     * executor cannot stop compiles. */
    void (*compile_stop)(struct executor *executor, struct compile_task *task);
    /* Returns how many compiles may run in parallel; the engine never starts more. */
    unsigned (*compile_slots)(struct executor *executor);
    /* Starts a transfer. The pointer is NULL if this executor cannot transfer files. */
    void (*transfer)(struct executor *executor, struct transfer_task *task);
    /* Ends the transfer early. |done| is still called, with KILN_CANCELLED unless the transfer had
     * already ended. */
    void (*transfer_cancel)(struct executor *executor, struct transfer_task *task);
    /* Closes a descriptor that |uid| sent, on a thread that may block. If the pointer is NULL, the
     * engine uses close(2). */
    void (*close_file)(struct executor *executor, uid_t uid, int fd);
};

struct executor {
    const struct executor_ops *ops;
};
