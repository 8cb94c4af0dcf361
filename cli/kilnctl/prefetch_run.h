/* SPDX-License-Identifier: MIT */
#pragma once

/* Reads problems from a file, requests all their kernels, and shows the progress.
 *
 * Role       implements `prefetch`, and the first step of `pkg build`
 * Ownership  prefetch_done releases everything, also after a failure; texts are borrowed
 * Threading  uses the caller's thread and threads that end before prefetch_run returns */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/prefetch_report.h"
#include "cli/problem_set.h"
#include "cli/progress.h"

#include <pthread.h>
#include <stdatomic.h>

/* Maximum of --jobs. More threads would only wait for each other. */
#define PREFETCH_JOBS_MAX 256

struct prefetch_question {
    const struct invocation *invocation;
    const char *path; /* the file with the problems; NULL if |problems| is set */
    const struct problem_set *problems;
    const char *target;
    const char *database_id, *toolchain, *solver; /* NULL if not given; kilnd then chooses */
    size_t jobs;
    const char *label;
    /* When the monotonic clock reaches this time, the prefetch stops without an error, and sets
     * |is_cut|. 0 means no limit. */
    uint64_t until_ns;
    /* Called for each plan, before the report counts it. May be NULL. Without --jobs, all calls are
     * on the thread that called prefetch_run. */
    void (*on_plan)(void *context, const struct kiln_plan *plan);
    void *context;
};

struct prefetch {
    struct kiln_client *client;
    struct kiln_plan_options options;
    const char *label;
    struct problem_set problems;
    pthread_mutex_t lock; /* protects |report|, |progress|, |broken| and |err| */
    struct prefetch_report report;
    struct progress progress;
    bool json;
    const struct prefetch_question *question; /* valid only while prefetch_run runs */
    bool is_cut;
    bool begun; /* kilnd has answered at least one problem, so there is something to report */
    atomic_size_t next;
    int broken;
    struct kiln_error err;
};

/* Returns KILN_E_OK if every kernel is ready, and KILN_E_COMPILE_FAILED if some are not.
 * |ret_prefetch| must be zeroed or come from an earlier call. In the latter case, this call adds to
 * the counts of its report. */
CLI_MUST_CHECK int prefetch_run(const struct prefetch_question *question,
                                struct prefetch *ret_prefetch, struct kiln_error *err);
void prefetch_done(struct prefetch *prefetch);
/* Returns |timeout_ms|, or the time until |until_ns| if that is less and |until_ns| is not 0. */
int prefetch_time_left_ms(uint64_t until_ns, int timeout_ms);
#define PREFETCH_AUTO __attribute__((cleanup(prefetch_done)))
