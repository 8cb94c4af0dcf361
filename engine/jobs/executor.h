/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who runs what the engine wants run.
 *
 * Role       the engine decides what to do; an executor has threads and processes.  kilnd's is
 *            daemon/executor_uv.c (libuv's pool, worker processes); tests have one that runs
 *            when told to.
 * Ownership  the engine borrows the executor; tasks belong to the engine and stay valid until
 *            their done callback returns
 * Threading  every call is made on the engine's thread (the loop), every done callback runs
 *            there too: exactly once, and never from within the call
 */
#include "engine/compile/compile_job.h"
#include "engine/jobs/fair_queue.h"
#include "engine/transfer/transfer_job.h"

#include <sys/types.h>

enum work_queue {
    WORK_QUEUE_READ,   /* several at once */
    WORK_QUEUE_WRITE,  /* one at a time, in order */
    WORK_QUEUE_TUNING, /* the same, beside WORK_QUEUE_WRITE: tuning.db and the databases imported
                          into it */
    WORK_QUEUES
};

struct task {
    void (*work)(struct task *task); /* off the loop: may block */
    void (*done)(struct task *task); /* on the loop */
    bool is_brief;     /* of those that wait, one thread may do several before the first is done */
    struct task *next; /* for the executor's queue */
};

struct compile_task {
    struct compile_job job;
    struct compile_result result; /* filled before done; taken or finished by the engine */
    void (*done)(struct compile_task *task);
    struct compile_task *next; /* for the executor's queue */
};

struct transfer_task {
    struct transfer_job job;
    uid_t uid;     /* of the user who asked */
    bool is_admin; /* the user asked as an administrator */
    struct transfer_result result;
    /* On the loop, any number of times before done. */
    void (*progress)(struct transfer_task *task, const struct transfer_progress *progress);
    void (*done)(struct transfer_task *task);
    struct fair_item item; /* for the executor's queue */
};

struct executor;

struct executor_ops {
    void (*run)(struct executor *executor, enum work_queue work_queue, struct task *task);
    /* Only |done|, after the callbacks that are due by now: for what many of them lead to. */
    void (*later)(struct executor *executor, struct task *task);
    /* Hands the job to a free compiler, or waits for one. */
    void (*compile)(struct executor *executor, struct compile_task *task);
    /* How many compiles run at once: the engine never hands over more. */
    unsigned (*compile_slots)(struct executor *executor);
    /* NULL where nothing can be fetched. */
    void (*transfer)(struct executor *executor, struct transfer_task *task);
    /* Ends it early; done still comes, with KILN_CANCELLED unless it was over. */
    void (*transfer_cancel)(struct executor *executor, struct transfer_task *task);
    /* Closes what |uid| sent, where that may block.  NULL: close(2) will do. */
    void (*close_file)(struct executor *executor, uid_t uid, int fd);
};

struct executor {
    const struct executor_ops *ops;
};
