/* SPDX-License-Identifier: MIT */
#pragma once

/* An executor that runs tasks only when the test calls it, on the test's thread. A successful
 * transfer copies its file into the job's staging directory, as kiln-transfer does. The engine
 * owns the copy. */
#include "engine/jobs/executor.h"

struct fake_executor {
    struct executor base;     /* first member */
    unsigned slots;           /* the result of compile_slots */
    struct list tasks, later; /* lists of struct task; the tasks are borrowed */
    /* the task whose work has run, but whose |done| has not been called; borrowed, or NULL */
    struct task *begun;
    struct list compiles;       /* list of struct compile_task */
    struct list transfers;      /* list of struct transfer_task */
    struct list fleet_accesses; /* list of struct fleet_access */
    unsigned fleet_accesses_handed_over;
    /* whether a task's work runs within the call that adds the task, as on a fast thread */
    bool works_at_once;
    unsigned tasks_of[WORK_QUEUES]; /* number of received tasks, by work queue */
    unsigned tasks_cancelled_of[WORK_QUEUES];
    unsigned laters;
    unsigned compiles_handed_over;
    unsigned compiles_stopped;
    struct compile_task *stopped; /* the last stopped compile, which the test ends */
    unsigned transfers_handed_over;
    unsigned transfers_cancelled;
};

void fake_executor_init(struct fake_executor *f, unsigned slots);
/* Runs all tasks, including those that they add. Returns how many it ran. */
unsigned fake_executor_run_tasks(struct fake_executor *f);
/* Runs the first task. If there is no task, ends the loop iteration instead, so that the tasks in
 * |later| can run. Returns false if there was nothing to run. */
bool fake_executor_run_task(struct fake_executor *f);
/* Runs the work of the first task. The task counts as running until the next call of
 * fake_executor_run_tasks or fake_executor_run_task. */
void fake_executor_begin_task(struct fake_executor *f);
/* Returns the oldest pending compile, or NULL. */
struct compile_task *fake_executor_next_compile(struct fake_executor *f);
/* Ends the oldest pending compile successfully. |content| is the object. */
void fake_executor_compile(struct fake_executor *f, struct bytes content);
void fake_executor_end_stopped(struct fake_executor *f);
void fake_executor_fail(struct fake_executor *f, enum compile_end end, const char *text,
                        const char *log);

/* Returns the oldest pending transfer, or NULL. */
struct transfer_task *fake_executor_next_transfer(struct fake_executor *f);
void fake_executor_transfer_progress(struct fake_executor *f, const char *stage, uint64_t done,
                                     uint64_t total);
/* Ends the oldest pending transfer successfully. The file |content_path| is called |name| and
 * signed by |signer| ("": unsigned). */
void fake_executor_transfer(struct fake_executor *f, const char *content_path, const char *name,
                            const char *signer);
/* Returns the oldest pending request for a file of the fleet's tree, or NULL. */
struct fleet_access *fake_executor_next_fleet_access(struct fake_executor *f);
/* Ends |get| successfully, with a file that contains |content|. */
void fake_executor_fleet_got(struct fleet_access *get, struct bytes content);
/* Ends |get| without a file. */
void fake_executor_fleet_failed(struct fleet_access *get, enum fleet_end end);
/* Reports that |get| has used up its time, but does not end it. */
void fake_executor_fleet_slow(struct fleet_access *get);
/* Ends the oldest pending transfer with an error. A cancelled transfer ends with KILN_CANCELLED. */
void fake_executor_transfer_fail(struct fake_executor *f, enum kiln_code code, const char *text);
