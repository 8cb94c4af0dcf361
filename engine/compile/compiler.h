/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One compiler back end, as the worker process sees it.
 *
 * Role       compiles source for a target to a code object
 * Ownership  open creates it, close destroys it; jobs are borrowed
 * Threading  one thread; only kiln-compiler links the implementations, never the daemon
 *
 * While a job runs, standard output and standard error go to the job's log, and the working
 * directory is the worker's private directory.
 */
#include "common/target/target.h"
#include "engine/compile/compile_job.h"
#include "engine/compile/toolchain.h"
#include "engine/compile/worker_wire.h"

struct compiler {
    const struct compiler_ops *ops;
};

struct compiler_ops {
    const char *name;
    enum target_family family;
    /* The back end loads a copy of LLVM. Two copies in one process would register the same options
     * and abort, so a worker opens at most one such back end. */
    bool needs_own_process;
    bool compiles_programs; /* accepts jobs with |is_program| */
    /* Returns KILN_UNAVAILABLE if the back end is not installed. */
    enum kiln_code (*open)(struct compiler **ret_compiler, struct kiln_err *err);
    /* Sets version, path, identity and only_target. */
    enum kiln_code (*describe)(struct compiler *compiler, struct toolchain *ret_toolchain,
                               struct kiln_err *err);
    /* If it returns COMPILE_DONE, the object was appended to |ret_object|; otherwise |err| has a
     * message. */
    enum compile_end (*compile)(struct compiler *compiler, const struct compile_job *job,
                                const struct target *target, struct buffer *ret_object,
                                struct kiln_err *err);
    void (*close)(struct compiler *compiler);
};

extern const struct compiler_ops compiler_hiprtc, compiler_clang, compiler_nvrtc, compiler_opencl;

#define COMPILERS 4
extern const struct compiler_ops *const compilers[COMPILERS];

const struct compiler_ops *compiler_find(struct bytes name);
struct compile_job compiler_probe_job(enum target_family family);
void compiler_log(const char *text, size_t size);

/* Runs `kiln-compiler --describe NAME` for every back end, each in its own process. Appends JSON
 * for toolchain_table_describe. If one of the processes crashes, only its back end is missing in
 * the JSON. */
KILN_MUST_CHECK enum kiln_code compilers_describe(struct buffer *ret_json, struct kiln_err *err);
/* Implements --resume: does the job in |files|, then serves jobs like compiler_worker_serve.
 * kiln-compiler re-executes itself with --resume when a job needs a process that has not loaded a
 * compiler library yet. */
int compiler_worker_resume(const struct compiler_worker_options *options, const int files[3]);
/* Implements --describe: writes one row of the toolchain table to |fd|. */
int compiler_describe_to(const char *name, int fd);
