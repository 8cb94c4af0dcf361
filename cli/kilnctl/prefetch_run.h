/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads problems from a file and requests all their kernels, with progress.
 *
 * Role       the work of `prefetch`, and the first step of `pkg build`
 * Ownership  prefetch_done releases everything, also after a failure; texts are borrowed
 * Threading  uses the caller's thread and threads that end before prefetch_run returns
 */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/prefetch_report.h"
#include "cli/problem_set.h"
#include "cli/progress.h"

#include <pthread.h>
#include <stdatomic.h>

/* The largest --jobs: more threads would only wait for each other. */
#define PREFETCH_JOBS_MAX 256

struct prefetch_question {
    const struct invocation *invocation;
    const char *path; /* MIOpenDriver command lines; "-": standard input */
    const char *target;
    const char *database_id, *toolchain, *solver; /* NULL: none, or kilnd's choice */
    size_t jobs;                                  /* concurrent problems; 0: as kilnd allows */
    const char *label;                            /* of the progress bar */
};

/* One prefetch, shared by its threads. */
struct prefetch {
    struct kiln_client *client;
    struct kiln_plan_options options;
    const char *label;
    struct problem_set problems;
    pthread_mutex_t lock; /* guards report, progress, broken, err */
    struct prefetch_report report;
    struct progress progress;
    bool json;          /* failures are not printed as they happen */
    bool begun;         /* kilnd answered at least one problem, so the report is worth printing */
    atomic_size_t next; /* first problem that no thread has taken */
    int broken;         /* the code of the error that ended the prefetch early */
    struct kiln_error err;
};

/* KILN_E_OK if every kernel is ready.  KILN_E_COMPILE_FAILED if some are not. */
CLI_MUST_CHECK int prefetch_run(const struct prefetch_question *question,
                                struct prefetch *ret_prefetch, struct kiln_error *err);
void prefetch_done(struct prefetch *prefetch); /* accepts a zeroed one */
#define PREFETCH_AUTO __attribute__((cleanup(prefetch_done)))
