/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An executor without threads: tasks wait in a list until a caller that needs their result runs
 * them (direct_executor_step).
 *
 * Role       runs the engine's tasks in order, each work followed by its done; hands compiles, one
 *            at a time, to an embed_compiler.  There are no transfers
 * Ownership  borrows the compiler
 * Threading  one thread at a time; waiting for the compiler is the caller's
 */
#include "engine/embed/embed_compiler.h"
#include "engine/jobs/executor.h"

struct task_list {
    struct task *first, **last;
};

struct direct_executor {
    struct executor base;          /* first member */
    struct task_list tasks, later; /* of the next iteration */
    struct task_list due, due_later;
    struct compile_task *compile; /* borrowed: the one compile that is out; NULL: none */
    bool compile_has_begun;
    struct embed_compiler *compiler; /* NULL: nothing is compiled */
};

void direct_executor_init(struct direct_executor *executor, struct embed_compiler *compiler);
/* Does one thing that waits: it begins a compile, or runs a task.  An iteration takes the tasks
 * that were there when it began, then what was put off (later); tasks that they lead to are the
 * next one's.  False: there is nothing to do but, perhaps, to wait for the compiler. */
bool direct_executor_step(struct direct_executor *executor);
/* Whether a compile has begun and not ended: the caller may wait for the compiler. */
bool direct_executor_compiles(const struct direct_executor *executor);
/* The compile has ended: its done runs. */
void direct_executor_end_compile(struct direct_executor *executor);
