/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An executor that runs only when told to, on the calling thread: tests see every step.
 *
 * Ownership  a transfer that is answered has its file copied into the job's staging directory, as
 *            kiln-transfer does; from then on it is the engine's
 */
#include "engine/jobs/executor.h"

struct fake_executor {
    struct executor base; /* first member */
    unsigned slots;       /* what compile_slots says */
    struct task *tasks, **last_task;
    struct task *later, **last_later;
    struct compile_task *compiles, **last_compile;
    struct list transfers;          /* borrowed: of struct transfer_task */
    unsigned tasks_of[WORK_QUEUES]; /* handed over ever, by lane */
    unsigned laters;                /* ever */
    unsigned compiles_handed_over;  /* ever */
    unsigned transfers_handed_over; /* ever */
    unsigned transfers_cancelled;   /* ever */
};

void fake_executor_init(struct fake_executor *f, unsigned slots);
/* Runs lane tasks, and those that they lead to, until none is left; returns how many. */
unsigned fake_executor_run_tasks(struct fake_executor *f);
/* Runs one of them, the first; where none is left, what waits for the end of the turn.  False when
 * there is neither. */
bool fake_executor_run_task(struct fake_executor *f);
/* The job that was handed over first and is still out; NULL when there is none. */
struct compile_task *fake_executor_next_compile(struct fake_executor *f);
/* Ends it well, with |content| as the object. */
void fake_executor_compile(struct fake_executor *f, struct bytes content);
/* Ends it badly. */
void fake_executor_fail(struct fake_executor *f, enum compile_end end, const char *text,
                        const char *log);

/* The transfer that was handed over first and is still out; NULL when there is none. */
struct transfer_task *fake_executor_next_transfer(struct fake_executor *f);
/* Tells how far it is. */
void fake_executor_transfer_progress(struct fake_executor *f, const char *stage, uint64_t done,
                                     uint64_t total);
/* Ends it well: the file |content_path|, called |name|, signed by |signer| ("": nobody). */
void fake_executor_transfer(struct fake_executor *f, const char *content_path, const char *name,
                            const char *signer);
/* Ends it badly; a cancelled one ends with KILN_CANCELLED whatever is said here. */
void fake_executor_transfer_fail(struct fake_executor *f, enum kiln_code code, const char *text);
