/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The interface of a compiler for an engine without threads.
 *
 * Role       compiles one job at a time (daemon/built_in/one_compiler.c)
 * Threading  one thread at a time; any thread may call wake
 */
#include "engine/compile/compile_job.h"

struct embed_compiler;

struct embed_compiler_ops {
    /* Starts a job. |job| and |result| must stay valid until the job has ended. A failure to start
     * is reported in |result|, like any other end of the job. */
    void (*begin)(struct embed_compiler *compiler, const struct compile_job *job,
                  struct compile_result *result);
    /* Returns true if the job has ended.  Returns false if |deadline_ns| (clock_monotonic_ns) has
     * passed, or if another thread called wake; the job then continues. */
    bool (*wait)(struct embed_compiler *compiler, uint64_t deadline_ns);
    void (*wake)(struct embed_compiler *compiler);
    /* Ends the compiler process.  The result of its job is COMPILE_UNAVAILABLE. */
    void (*stop)(struct embed_compiler *compiler);
    /* Called in a forked child: forgets the compiler process, which belongs to the parent, without
     * sending anything to it. */
    void (*forget)(struct embed_compiler *compiler);
};

struct embed_compiler {
    const struct embed_compiler_ops *ops;
};
