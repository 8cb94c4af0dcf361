/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compares what a run of a job used with what the prefetches before the run made ready.
 *
 * Role       counts kernels for `trace prefetch --report` and for `report`
 * Ownership  a trace_comparison owns its two jobs until trace_comparison_done
 * Threading  one thread
 */
#include "cli/kilnctl/trace_job.h"
#include "common/base/json.h"

/* A run of a job, together with the prefetches just before that run.  A job has one file for each
 * prefetch and one for each process of a run.  Ordered by their start times, there are first some
 * prefetches, then the processes of a run, then further prefetches, and so on. */
struct trace_turn {
    uint64_t prefetch_us; /* start time of the first of these prefetches */
    uint64_t run_us;      /* start time of the run's first process */
    uint64_t until_us;    /* start time of the next run; 0 if there is none */
};

struct trace_use { /* numbers of kernels */
    size_t needed, fetched;
    size_t used; /* prefetched kernels that the run used without a compile */
    /* prefetched kernels that kilnd no longer had when the job requested them: they were compiled
     * again, or the request failed */
    size_t lost;
    /* A kernel is missing if it was not prefetched, or if it is lost.  |missing_compiled|: the job
     * waited for the compile.  |missing_found|: kilnd had the kernel, although not from the
     * prefetch.  |missing_failed|: the request failed. */
    size_t missing_compiled, missing_found, missing_failed;
};
size_t trace_use_unused(const struct trace_use *use);
size_t trace_use_missing(const struct trace_use *use);
void trace_use_to_json(const struct trace_use *use, struct json *json);

struct trace_comparison {
    struct trace_job used, fetched;
    struct trace_use use;
};
/* The caller releases |ret_comparison| after a failure, too. */
CLI_MUST_CHECK int trace_compare(const char *word, const struct trace_turn *turn,
                                 struct trace_comparison *ret_comparison, struct kiln_error *err);
/* Returns whether |line| is a kernel that the run needed and no prefetch had made ready. */
bool trace_comparison_lacks(const struct trace_comparison *comparison,
                            const struct trace_line *line);
void trace_comparison_done(struct trace_comparison *comparison);
#define TRACE_COMPARISON_AUTO __attribute__((cleanup(trace_comparison_done)))
