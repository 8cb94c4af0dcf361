/* SPDX-License-Identifier: MIT */
#pragma once

/* Writes the page of kilnctl report: kilnd's replies and summaries of jobs as one HTML file without
 * scripts or other files.
 *
 * Role       writes the frame of the page; report_sections.c writes its tables
 * Ownership  replies and jobs are borrowed; any of the replies may be NULL or incomplete
 * Threading  one thread at a time for each stream */
#include "cli/kilnctl/report_job.h"
#include "common/base/json.h"

#include <stdint.h>
#include <stdio.h>

/* The first bytes of a report. kilnctl only replaces files that begin with this text. */
#define REPORT_MARK "<!doctype html><!-- kilnctl report -->"

struct report {
    const char *host;
    uint64_t now;
    const struct json *status, *stats, *history;
    const struct json *by_target, *by_user, *by_program;
    const struct json *tuning;
    const struct json *coverage;
    const struct report_job *jobs;
    size_t job_count, left_out_jobs;
    bool only_jobs; /* nothing was requested from kilnd */
};

void report_write(const struct report *report, FILE *out);

void report_over_time(const struct report *report, FILE *out);
void report_misses(const struct report *report, FILE *out);
void report_accounting(const struct report *report, FILE *out);
void report_slowest(const struct report *report, FILE *out);
void report_tuning(const struct report *report, FILE *out);
void report_facts(const struct report *report, FILE *out);
