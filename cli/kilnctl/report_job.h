/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What `kilnctl report` shows of a job: a summary of its traces.
 *
 * Role       reads the traces and adds them up; report_job_html.c writes them as HTML
 * Ownership  a report_job is a plain value; its texts are copies
 * Threading  one thread
 */
#include "cli/kilnctl/trace_compare.h"
#include "cli/kilnctl/trace_runs.h"
#include "common/base/json.h"

#include <stdio.h>

/* Maximum number of runs in a report.  Older runs are only counted. */
#define REPORT_RUNS_MAX 12u
#define REPORT_WAITS_MAX 10u

struct report_run {
    struct trace_run run;
    bool has_use; /* a prefetch preceded the run, so |use| is set */
    struct trace_use use;
};

struct report_wait { /* one plan or kernel */
    double seconds;  /* how long the process waited that waited longest */
    enum trace_tier tier;
    unsigned processes;
    char text[TRACE_LINE_MAX];
};

struct report_job {
    char name[TRACE_JOB_MAX];
    struct report_run runs[REPORT_RUNS_MAX]; /* in the order of their starts */
    size_t run_count, older_runs;
    struct report_wait waits[REPORT_WAITS_MAX];
    size_t wait_count;            /* the longest waits of report_job_last's run */
    size_t damaged, cut, refused; /* lines, processes and files that were not read completely */
    double
        hot_s; /* mean wait for a plan that kilnd has in memory; 0 if no process waited for one */
};

CLI_MUST_CHECK int report_job_read(const char *name, struct report_job *ret_job,
                                   struct kiln_error *err);

enum report_kind { REPORT_COLD, REPORT_WARM, REPORT_PREFETCHED, REPORT_KINDS };
/* A run after a prefetch is REPORT_PREFETCHED, whether it waited for compiles or not. */
enum report_kind report_run_kind(const struct report_run *run);
/* Returns NULL if the job has no run of this kind. */
const struct report_run *report_job_newest(const struct report_job *job, enum report_kind kind);
/* Returns the newest run that waited for a compile or, if there is none, the newest run. */
const struct report_run *report_job_last(const struct report_job *job);
/* Returns how much less the processes of |run| would have waited, in total, after a prefetch of
 * everything that |run| used. */
double report_run_savable(const struct report_job *job, const struct report_run *run);

struct json *report_job_json(const struct report_job *job);
/* Writes the section of the job. */
void report_job_html(const struct report_job *job, FILE *out);
