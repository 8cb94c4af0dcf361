/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The interface of a compiler for an engine without threads.
 *
 * Role       compiles one job at a time: call begin, then wait until the result is filled in.
 *            daemon/built_in/one_compiler.c uses a kiln-compiler process; tests use fakes
 * Threading  one thread at a time; any thread may call wake
 */
#include "engine/compile/compile_job.h"

struct embed_compiler;

struct embed_compiler_ops {
    /* Starts a job. |job| and |result| must stay valid until the job has ended. If it cannot start,
     * |result| says so. */
    void (*begin)(struct embed_compiler *compiler, const struct compile_job *job,
                  struct compile_result *result);
    /* Waits for the job.  Returns true if the job has ended and its result is filled in.  Returns
     * false if |deadline_ns| (clock_monotonic_ns) has passed, or if another thread called wake; the
     * job then continues. */
    bool (*wait)(struct embed_compiler *compiler, uint64_t deadline_ns);
    void (*wake)(struct embed_compiler *compiler);
    /* Ends the compiler process.  If it has a job, the job's result is COMPILE_UNAVAILABLE. */
    void (*stop)(struct embed_compiler *compiler);
    /* Forgets the parent's compiler process, without sending anything to it; called in a forked
     * child. */
    void (*forget)(struct embed_compiler *compiler);
};

struct embed_compiler { /* the first member of every implementation */
    const struct embed_compiler_ops *ops;
};
