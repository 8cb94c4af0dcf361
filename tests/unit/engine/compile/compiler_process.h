/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A real kiln-compiler for tests, started as kilnd starts it.
 *
 * Ownership  compiler_stop ends it and removes its directory
 * Threading  one thread
 */
#include "engine/compile/compile_job.h"
#include "engine/compile/toolchain.h"
#include "engine/sandbox/layers.h"

#include <sys/resource.h>
#include <sys/types.h>

struct compiler_process {
    pid_t pid;                     /* of the started process, which ends as the worker does */
    pid_t worker;                  /* of the process that compiles: |pid|, or a descendant's */
    struct sandbox_report sandbox; /* as the worker reported it */
    int socket_fd;
    char directory[64];
};

struct compiler_setup { /* how to start the compiler; members that are 0 change nothing */
    rlim_t file_size;   /* RLIMIT_FSIZE before it starts */
    rlim_t addresses;   /* RLIMIT_AS before it starts */
    unsigned max_jobs;
    const char *limits; /* the argument of --limits */
    uid_t user;         /* the user and group number that it switches to; only root can do that */
};

/* |setup| NULL: without any changes. */
void compiler_start(struct compiler_process *p, const struct compiler_setup *setup);
/* Sends the job and waits for its end; a worker that dies gives COMPILE_CRASHED. */
struct compile_result compiler_run(struct compiler_process *p, const struct compile_job *job);
/* Closes its socket and waits; returns waitpid's status. */
int compiler_stop(struct compiler_process *p);
