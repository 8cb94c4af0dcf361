/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An executor that runs only when told to, on the calling thread: tests see every step.
 */
#include "engine/jobs/executor.h"

struct fake_executor {
    struct executor base; /* first member */
    unsigned slots;       /* what compile_slots says */
    struct task *tasks, **last_task;
    struct compile_task *compiles, **last_compile;
    unsigned compiles_handed_over; /* ever */
    struct transfer_task *transfers, **last_transfer;
    struct transfer_task *cancelled; /* told by the next fake_executor_run_tasks */
    unsigned transfers_handed_over;  /* ever */
};

void fake_executor_init(struct fake_executor *f, unsigned slots);
/* Runs lane tasks, and those that they lead to, until none is left; returns how many.  Before that,
 * transfers that were cancelled end. */
unsigned fake_executor_run_tasks(struct fake_executor *f);
/* The job that was handed over first and is still out; NULL when there is none. */
struct compile_task *fake_executor_next_compile(struct fake_executor *f);
/* Ends it well, with |content| as the object. */
void fake_executor_compile(struct fake_executor *f, struct bytes content);
/* Ends it badly. */
void fake_executor_fail(struct fake_executor *f, enum compile_end end, const char *text,
                        const char *log);

/* The transfer that was handed over first and is still out; NULL when there is none. */
struct transfer_task *fake_executor_next_transfer(struct fake_executor *f);
void fake_executor_tell_progress(struct fake_executor *f, const char *stage, uint64_t done,
                                 uint64_t total);
/* Ends it well: |content| lies in a new file of its staging folder, and the rest of the outcome is
 * |like|'s.  Without a name there, the package is called as the job says, else "gfx90a68.kdb". */
void fake_executor_transfer(struct fake_executor *f, struct bytes content,
                            const struct transfer_outcome *like);
/* Ends it badly. */
void fake_executor_fail_transfer(struct fake_executor *f, enum kiln_code code, const char *text);
