/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The interface through which the engine runs blocking work.
 *
 * Role       the engine decides what to do; an executor has the threads and processes to do it.
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
    WORK_QUEUE_TUNING, /* likewise, in parallel with WORK_QUEUE_WRITE: for tuning.db and the
                          databases imported into it */
    WORK_QUEUES
};

/* After this time on the engine's thread, a task with more to do lets other users' tasks run, and
 * continues later (executor_ops.later). The requests of one connection do the same. */
#define TASK_SLICE_NS 1000000u

/* Each queue is fair between users by the time that their tasks took.  It serves the tasks of one
 * user in order of submission. */
struct task {
    void (*work)(struct task *task); /* off the loop: may block */
    void (*done)(struct task *task); /* on the loop */
    uid_t uid;                       /* the user for whom it works; kilnd's own for its upkeep */
    bool is_brief; /* one thread may run several waiting brief tasks before the first done callback
                    */
    uint64_t worked_ns;    /* how long |work| took; filled before done */
    struct fair_item item; /* for the executor's queue */
};

struct compile_task {
    struct compile_job job;
    struct compile_result result; /* filled before done; the engine takes or frees it */
    void (*done)(struct compile_task *task);
    struct list_link link; /* for the executor's queue */
};

struct transfer_task {
    struct transfer_job job;
    uid_t uid; /* of the user who made the request */
    struct transfer_result result;
    /* Called on the loop, any number of times before done. */
    void (*progress)(struct transfer_task *task, const struct transfer_progress *progress);
    void (*done)(struct transfer_task *task);
    struct list_link link; /* for the executor's list */
};

struct executor;

struct executor_ops {
    void (*run)(struct executor *executor, enum work_queue work_queue, struct task *task);
    /* True: the task was waiting, and belongs to the caller again; neither callback is called.
     * False: it runs, or its done is due. */
    bool (*cancel)(struct executor *executor, enum work_queue work_queue, struct task *task);
    /* Calls only |done|, after the callbacks that are already due, in fair order. Lets many
     * callbacks share one follow-up, and long work on the loop run in slices. */
    void (*later)(struct executor *executor, struct task *task);
    /* Hands the job to a free compiler, or waits for one to become free. */
    void (*compile)(struct executor *executor, struct compile_task *task);
    /* Stops a compile before its end. done is still called, never within this call; the result is
     * COMPILE_UNAVAILABLE unless the compile had ended. NULL: compiles cannot be stopped. */
    void (*compile_stop)(struct executor *executor, struct compile_task *task);
    /* How many compiles may run in parallel; the engine never hands over more. */
    unsigned (*compile_slots)(struct executor *executor);
    /* NULL if this executor cannot transfer files. */
    void (*transfer)(struct executor *executor, struct transfer_task *task);
    /* Ends the transfer early. done is still called, with KILN_CANCELLED unless the transfer had
     * ended. */
    void (*transfer_cancel)(struct executor *executor, struct transfer_task *task);
    /* Closes a descriptor that |uid| sent, on a thread that may block. NULL: the engine uses
     * close(2). */
    void (*close_file)(struct executor *executor, uid_t uid, int fd);
};

struct executor {
    const struct executor_ops *ops;
};
