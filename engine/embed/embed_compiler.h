/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compiles for an engine without threads.
 *
 * Role       one job at a time: begin, wait as often as needed, then the outcome is filled.
 *            daemon/built_in/one_compiler.c has a kiln-compiler process; tests bring their own
 * Threading  one thread at a time; wake may be called by any
 */
#include "engine/compile/compile_job.h"

struct embed_compiler;

struct embed_compiler_ops {
    /* |job| and |result| stay where they are until it has ended.  A failure is an outcome, too. */
    void (*begin)(struct embed_compiler *compiler, const struct compile_job *job,
                  struct compile_result *result);
    /* True: the job has ended and its outcome is filled.  False: |deadline_ns|
     * (clock_monotonic_ns) passed, or somebody called wake; the job goes on. */
    bool (*wait)(struct embed_compiler *compiler, uint64_t deadline_ns);
    void (*wake)(struct embed_compiler *compiler);
    /* Ends the process, and a job with it: its outcome is then COMPILE_UNAVAILABLE. */
    void (*stop)(struct embed_compiler *compiler);
    /* In a child of fork: lets go of the parent's process without a word to it. */
    void (*forget)(struct embed_compiler *compiler);
};

struct embed_compiler { /* first member of every implementation */
    const struct embed_compiler_ops *ops;
};
