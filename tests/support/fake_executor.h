/* SPDX-License-Identifier: MIT */
#pragma once

/* An executor that runs tasks only when the test calls it, on the test's thread. A successful
 * transfer copies a file of the test into the job's staging directory, as kiln-transfer does;
 * the engine owns the copy. */
#include "engine/jobs/executor.h"

struct fake_executor {
    struct executor base; /* first member */
    unsigned slots;       /* returned by compile_slots */
    /* lists of struct task, which are borrowed; those in |later| run in the next loop iteration */
    struct list tasks, later;
    /* the task that fake_executor_begin_task started and whose |done| has not been called;
     * borrowed; may be NULL */
    struct task *begun;
    struct list compiles;       /* list of struct compile_task */
    struct list transfers;      /* list of struct transfer_task */
    struct list fleet_accesses; /* list of struct fleet_access */
    unsigned fleet_accesses_handed_over;
    /* true: a task's work runs as soon as the engine adds the task, as on a fast thread */
    bool works_at_once;
    unsigned tasks_of[WORK_QUEUES]; /* number of tasks that the engine added, by work queue */
    unsigned tasks_cancelled_of[WORK_QUEUES];
    unsigned laters;
    unsigned compiles_handed_over;
    unsigned compiles_stopped;
    /* the compile that the engine stopped last, for fake_executor_end_stopped; borrowed */
    struct compile_task *stopped;
    unsigned transfers_handed_over;
    unsigned transfers_cancelled;
};

void fake_executor_init(struct fake_executor *f, unsigned slots);
/* Runs all tasks, and those that they add. Returns their number. */
unsigned fake_executor_run_tasks(struct fake_executor *f);
/* Runs the first task. If there is none, begins the next loop iteration, which makes the tasks
 * in |later| runnable. Returns false if there was nothing to do. */
bool fake_executor_run_task(struct fake_executor *f);
/* Runs the first task's work, but not its |done|: for the engine, the task is still running
 * until the next call of fake_executor_run_tasks or fake_executor_run_task. */
void fake_executor_begin_task(struct fake_executor *f);
/* Returns the oldest pending compile, or NULL. */
struct compile_task *fake_executor_next_compile(struct fake_executor *f);
void fake_executor_compile(struct fake_executor *f, struct bytes content);
void fake_executor_end_stopped(struct fake_executor *f);
void fake_executor_fail(struct fake_executor *f, enum compile_end end, const char *text,
                        const char *log);

struct transfer_task *fake_executor_next_transfer(struct fake_executor *f);
void fake_executor_transfer_progress(struct fake_executor *f, const char *stage, uint64_t done,
                                     uint64_t total);
/* Ends the oldest pending transfer successfully, with a copy of the file |content_path| that is
 * called |name| and signed by |signer| ("": unsigned). */
void fake_executor_transfer(struct fake_executor *f, const char *content_path, const char *name,
                            const char *signer);
struct fleet_access *fake_executor_next_fleet_access(struct fake_executor *f);
void fake_executor_fleet_got(struct fleet_access *get, struct bytes content);
void fake_executor_fleet_failed(struct fleet_access *get, enum fleet_end end);
/* Reports that |get| takes longer than its time limit, but does not end it. */
void fake_executor_fleet_slow(struct fleet_access *get);
/* Ends the oldest pending transfer with |code|, or with KILN_CANCELLED if the engine has
 * cancelled it. */
void fake_executor_transfer_fail(struct fake_executor *f, enum kiln_code code, const char *text);
