/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An executor that runs tasks only when the test calls it, on the test's thread.
 *
 * Ownership  a transfer that succeeds copies its file into the job's staging directory, as
 *            kiln-transfer does; the engine owns the copy
 */
#include "engine/jobs/executor.h"

struct fake_executor {
    struct executor base;           /* first member */
    unsigned slots;                 /* the result of compile_slots */
    struct list tasks, later;       /* borrowed, like the next: of struct task */
    struct task *begun;             /* its work has run and its done is due; borrowed; NULL: none */
    struct list compiles;           /* of struct compile_task */
    struct list transfers;          /* of struct transfer_task */
    unsigned tasks_of[WORK_QUEUES]; /* tasks received so far, by work queue */
    unsigned tasks_cancelled_of[WORK_QUEUES]; /* before they ran */
    unsigned laters;                          /* received so far; likewise the next */
    unsigned compiles_handed_over;
    unsigned compiles_stopped;
    struct compile_task *stopped; /* the last one; the test ends it */
    unsigned transfers_handed_over;
    unsigned transfers_cancelled;
};

void fake_executor_init(struct fake_executor *f, unsigned slots);
/* Runs all tasks, including those that they add; returns how many. */
unsigned fake_executor_run_tasks(struct fake_executor *f);
/* Runs the first task; if there is none, ends the loop iteration, which runs the tasks of |later|.
 * False: there is neither. */
bool fake_executor_run_task(struct fake_executor *f);
/* Runs the work of the first task, which then counts as running until the next of the two calls
 * above. */
void fake_executor_begin_task(struct fake_executor *f);
/* The oldest pending compile; NULL: there is none. */
struct compile_task *fake_executor_next_compile(struct fake_executor *f);
/* Ends it successfully, with |content| as the object. */
void fake_executor_compile(struct fake_executor *f, struct bytes content);
/* Ends the compile that the engine stopped. */
void fake_executor_end_stopped(struct fake_executor *f);
/* Ends the oldest pending compile with an error. */
void fake_executor_fail(struct fake_executor *f, enum compile_end end, const char *text,
                        const char *log);

/* The oldest pending transfer; NULL: there is none. */
struct transfer_task *fake_executor_next_transfer(struct fake_executor *f);
/* Reports its progress. */
void fake_executor_transfer_progress(struct fake_executor *f, const char *stage, uint64_t done,
                                     uint64_t total);
/* Ends it successfully: the file |content_path|, called |name|, signed by |signer| ("": unsigned).
 */
void fake_executor_transfer(struct fake_executor *f, const char *content_path, const char *name,
                            const char *signer);
/* Ends it with an error; a cancelled transfer ends with KILN_CANCELLED in any case. */
void fake_executor_transfer_fail(struct fake_executor *f, enum kiln_code code, const char *text);
