/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One compiler back end, as the worker process sees it.
 *
 * Role       source and target in, code object out; opened at the first job that names it
 * Ownership  open makes it, close ends it; jobs are borrowed
 * Threading  one thread; only kiln-compiler, never the daemon, links the implementations
 *
 * While a job runs, standard output and standard error are the job's log, and the working directory
 * is the worker's private one.
 */
#include "common/target.h"
#include "engine/compile/compile_job.h"
#include "engine/compile/toolchain.h"
#include "engine/compile/worker_wire.h"

struct compiler { /* first member of every implementation */
    const struct compiler_ops *ops;
};

struct compiler_ops {
    const char *name;
    enum target_family family;
    /* It brings an LLVM, or a runtime, that cannot be in one process with another's: two LLVMs
     * register the same options and abort.  A worker has one such back end at most. */
    bool needs_own_process;
    /* KILN_UNAVAILABLE, with what was looked for, when it is not on this host. */
    enum kiln_code (*open)(struct compiler **ret_compiler, struct kiln_err *err);
    /* Fills version, path, identity and only_target. */
    enum kiln_code (*describe)(struct compiler *compiler, struct toolchain *ret_toolchain,
                               struct kiln_err *err);
    /* Appends the object on COMPILE_DONE; else |err| holds a sentence. */
    enum compile_end (*compile)(struct compiler *compiler, const struct compile_job *job,
                                const struct target *target, struct buffer *ret_object,
                                struct kiln_err *err);
    void (*close)(struct compiler *compiler);
};

extern const struct compiler_ops compiler_hiprtc, compiler_clang, compiler_nvrtc, compiler_opencl;

#define COMPILERS 4
extern const struct compiler_ops *const compilers[COMPILERS];

/* NULL when no back end has that name. */
const struct compiler_ops *compiler_find(struct bytes name);
/* The one-line kernel of a probe, in the language of |family|. */
struct compile_job compiler_probe_job(enum target_family family);
/* Adds |text| to the job's log; a log that cannot be written is no reason to fail. */
void compiler_log(const char *text, size_t size);

/* Runs `kiln-compiler --describe NAME` for every back end, so that one that crashes while it is
 * looked at costs nothing but itself; appends toolchain_table_describe's JSON. */
KILN_MUST_CHECK enum kiln_code compilers_describe(struct buffer *ret_json, struct kiln_err *err);
/* The inside of --resume: as compiler_worker_serve, in a process that replaced itself because the
 * job whose files these are needs one to itself. */
int compiler_worker_resume(const struct compiler_worker_options *options, const int files[3]);
/* The inside of --describe: writes one row to |fd|; returns the process's exit status. */
int compiler_describe_to(const char *name, int fd);
