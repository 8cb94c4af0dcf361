/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The interface of a compiler for an engine without threads.
 *
 * Role       compiles one job at a time: begin, then wait until the result is filled.
 *            daemon/built_in/one_compiler.c uses a kiln-compiler process; tests use fakes
 * Threading  one thread at a time; any thread may call wake
 */
#include "engine/compile/compile_job.h"

struct embed_compiler;

struct embed_compiler_ops {
    /* Starts a job. |job| and |result| must stay valid until it has ended. A failure is a result,
     * too. */
    void (*begin)(struct embed_compiler *compiler, const struct compile_job *job,
                  struct compile_result *result);
    /* True: the job has ended and its result is filled. False: |deadline_ns| (clock_monotonic_ns)
     * passed, or another thread called wake; the job continues. */
    bool (*wait)(struct embed_compiler *compiler, uint64_t deadline_ns);
    void (*wake)(struct embed_compiler *compiler);
    /* Ends the process. If it has a job, the result is COMPILE_UNAVAILABLE. */
    void (*stop)(struct embed_compiler *compiler);
    /* Call it in a forked child: forgets the parent's process without sending anything to it. */
    void (*forget)(struct embed_compiler *compiler);
};

struct embed_compiler { /* first member of every implementation */
    const struct embed_compiler_ops *ops;
};
