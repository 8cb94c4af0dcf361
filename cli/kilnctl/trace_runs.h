/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The runs of a job, and what their processes waited for.
 *
 * Role       sorts the processes of a job into runs, and the waiting times of each run by cause
 * Ownership  a trace_runs owns its list until trace_runs_done
 * Threading  one thread
 */
#include "cli/kilnctl/trace_job.h"

enum trace_cause {
    CAUSE_COMPILED, /* kilnd compiled a kernel for this request */
    CAUSE_JOINED,   /* another request had started the compile */
    CAUSE_OWN,      /* the program compiled with its own library */
    CAUSE_FLEET,
    CAUSE_PACKAGE,
    CAUSE_LOOKUP, /* kilnd had everything in memory or in its store */
    CAUSE_FAILED,
    CAUSES,
};
const char *trace_cause_name(enum trace_cause cause); /* for JSON */

struct trace_wait {
    double seconds; /* the sum for all processes */
    size_t count;   /* number of plans, kernels and compiles */
};

struct trace_run {
    uint64_t start_us;
    uint64_t prefetch_us; /* start of the first prefetch after the run before; 0: none */
    size_t first, count;  /* which processes of the job */
    size_t hosts;
    struct trace_wait waits[CAUSES];
    double longest_s;      /* how long the process waited that waited longest */
    struct trace_wait hot; /* the plans of CAUSE_LOOKUP that were in kilnd's memory */
    /* Waits for compiles and transfers that a prefetch with this trace can do before the job: those
     * of plans, and the transfers of kernels that were requested by key. */
    struct trace_wait avoidable;
};
double trace_run_waited(const struct trace_run *run);
/* Returns whether the run waited for a compile. */
bool trace_run_is_cold(const struct trace_run *run);

struct trace_runs { /* in the order of their starts */
    struct trace_run *list;
    size_t count;
};
/* |prefetches|: the job's files with TRACE_PREFETCH_ENDING.  A trace does not say to which run its
 * process belongs.  A process begins a new run if it started after the last answer to the processes
 * of the run before.  If these processes waited for no compile, it must have started at least 5
 * seconds after the last answer, because processes of one run may start one after the other, and
 * find everything at once.  The 5 seconds are not needed if a prefetch started after the last
 * answer, on a host of the run before. */
CLI_MUST_CHECK int trace_runs_make(const struct trace_job *job, const struct trace_job *prefetches,
                                   struct trace_runs *ret_runs, struct kiln_error *err);
void trace_runs_done(struct trace_runs *runs);
#define TRACE_RUNS_AUTO __attribute__((cleanup(trace_runs_done)))
