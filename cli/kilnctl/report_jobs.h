/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The jobs of a report: one that the user names, or the newest.
 *
 * Role       chooses jobs and reads their traces
 * Ownership  a report_jobs owns its list until report_jobs_done
 * Threading  one thread
 */
#include "cli/kilnctl/report_job.h"

#define REPORT_JOBS_MAX 10u

struct report_jobs {
    struct report_job *list;
    size_t count, left_out;
};

CLI_MUST_CHECK int report_jobs_read_one(const char *name, struct report_jobs *ret_jobs,
                                        struct kiln_error *err);
/* Reads the jobs whose processes or prefetches started most recently, the newest first.  Leaves out
 * jobs without readable traces.  Prints why on standard error, unless a job has none. */
CLI_MUST_CHECK int report_jobs_read(struct report_jobs *ret_jobs, struct kiln_error *err);
void report_jobs_to_json(const struct report_jobs *jobs, struct json *json);
void report_jobs_done(struct report_jobs *jobs);
#define REPORT_JOBS_AUTO __attribute__((cleanup(report_jobs_done)))
