/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Problems read from a file and all their kernels made to be there, with progress.
 *
 * Role       what `prefetch` does, and `pkg build` before it asks for the package
 * Ownership  prefetch_done releases, also after a failure; texts are borrowed
 * Threading  the caller's thread, and threads that end before prefetch_run returns
 */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/prefetch_report.h"
#include "cli/problem_set.h"
#include "cli/progress.h"

#include <pthread.h>
#include <stdatomic.h>

/* More threads than this would only wait for each other. */
#define PREFETCH_JOBS_MAX 256

struct prefetch_question {
    const struct invocation *invocation;
    const char *path; /* MIOpenDriver command lines; "-": standard input */
    const char *target;
    const char *database_id, *toolchain, *solver; /* NULL: none, or kilnd's choice */
    size_t jobs;                                  /* problems in flight; 0: as kilnd allows */
    const char *label;                            /* of the progress */
};

/* One prefetch; what its threads share is behind the lock. */
struct prefetch {
    struct kiln_client *client;
    struct kiln_plan_options options;
    const char *label;
    struct problem_set problems;
    pthread_mutex_t lock; /* guards report, progress, broken, err */
    struct prefetch_report report;
    struct progress progress;
    bool json;          /* failures are not printed as they come */
    bool begun;         /* something was answered: the report says more than the error */
    atomic_size_t next; /* first problem that no thread has taken */
    int broken;         /* the code that ended it before all were answered */
    struct kiln_error err;
};

/* KILN_E_OK when every kernel is there.  KILN_E_COMPILE_FAILED when some are not, and the others
 * are. */
CLI_MUST_CHECK int prefetch_run(const struct prefetch_question *question,
                                struct prefetch *ret_prefetch, struct kiln_error *err);
void prefetch_done(struct prefetch *prefetch); /* accepts a zeroed one */
#define PREFETCH_AUTO __attribute__((cleanup(prefetch_done)))
