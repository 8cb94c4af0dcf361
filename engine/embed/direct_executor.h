/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An executor without threads. Tasks wait in a list until a caller that needs their result runs
 * them (direct_executor_step).
 *
 * Role       runs the engine's tasks in order: a task's work callback, then its done callback.
 *            Passes compilations, one at a time, to an embed_compiler. Does not support transfers
 * Ownership  borrows the compiler
 * Threading  one thread at a time; the caller waits for the compiler
 */
#include "engine/embed/embed_compiler.h"
#include "engine/jobs/executor.h"

struct direct_executor {
    struct executor base;         /* first member */
    struct list tasks, later;     /* of struct task, borrowed; they run in the next iteration */
    struct list due, due_later;   /* of struct task, borrowed; they run in the current iteration */
    struct compile_task *compile; /* borrowed; the current compilation; NULL: none */
    bool compile_has_begun;
    struct embed_compiler *compiler; /* borrowed; NULL: kernels cannot be compiled */
};

void direct_executor_init(struct direct_executor *x, struct embed_compiler *compiler);
/* Runs one step: begins a compilation or runs a task.  An iteration runs the tasks that waited when
 * it began: first those added with executor_ops.run, then those added with executor_ops.later.
 * Tasks added meanwhile belong to the next iteration.  Returns false if no task is left; the
 * compiler may still be busy. */
bool direct_executor_step(struct direct_executor *executor);
/* Returns whether a compilation is running, so that the caller can wait for the compiler. */
bool direct_executor_compiles(const struct direct_executor *executor);
/* Runs the done callback of the compilation. Call it when the compiler has ended the
 * compilation. */
void direct_executor_end_compile(struct direct_executor *x);
