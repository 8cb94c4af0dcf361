/* SPDX-License-Identifier: MIT */
#pragma once

#include "engine/compile/compile_job.h"
#include "engine/compile/toolchain.h"
#include "engine/sandbox/layers.h"

#include <sys/resource.h>
#include <sys/types.h>

struct compiler_process {
    pid_t pid;    /* the started process: the worker, or a supervisor that ends in the same way */
    pid_t worker; /* the process that compiles: |pid| or a descendant */
    struct sandbox_report sandbox;
    int socket_fd;
    char directory[64];
};

struct compiler_setup { /* members with the value 0 change nothing */
    rlim_t file_size;   /* RLIMIT_FSIZE of the compiler */
    rlim_t addresses;   /* RLIMIT_AS of the compiler */
    unsigned max_jobs;
    const char *limits; /* the argument of --limits */
    uid_t user;         /* user and group of the compiler; needs root */
};

/* |setup| may be NULL. */
void compiler_start(struct compiler_process *p, const struct compiler_setup *setup);
/* A worker that dies gives COMPILE_CRASHED. */
struct compile_result compiler_run(struct compiler_process *p, const struct compile_job *job);
/* Closes the compiler's socket. Returns the status from waitpid(2). */
int compiler_stop(struct compiler_process *p);
