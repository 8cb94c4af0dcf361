/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An executor without threads. The tasks run on the thread of a caller that waits for a result
 * (direct_executor_step).
 *
 * Role       passes compiles, one at a time, to an embed_compiler.  Does not support transfers
 * Ownership  borrows the compiler
 * Threading  one thread at a time; the caller waits for the compiler
 */
#include "engine/embed/embed_compiler.h"
#include "engine/jobs/executor.h"

struct direct_executor {
    struct executor base;
    struct list tasks, later;   /* of struct task, for the next iteration */
    struct list due, due_later; /* of struct task, for the current iteration */
    struct compile_task *compile;
    bool compile_has_begun;
    struct embed_compiler *compiler; /* borrowed; NULL: kernels cannot be compiled */
};

void direct_executor_init(struct direct_executor *x, struct embed_compiler *compiler);
/* Begins a waiting compile, or runs one task. Tasks run in batches: a batch consists of the tasks
 * that were waiting when the batch before it ended. In a batch, the tasks of executor_ops.run run
 * before those of executor_ops.later. Returns false if no task is left; a compile may still be
 * running. */
bool direct_executor_step(struct direct_executor *executor);
bool direct_executor_compiles(const struct direct_executor *executor);
void direct_executor_end_compile(struct direct_executor *x);
