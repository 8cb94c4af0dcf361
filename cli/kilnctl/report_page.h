/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The page of kilnctl report: writes kilnd's answers as one self-contained HTML file.
 *
 * Role       writes the page, without scripts and external files; report_sections.c writes the
 *            tables
 * Ownership  answers are borrowed; any of them may be NULL or incomplete
 * Threading  one thread at a time for each stream
 */
#include "common/base/json.h"

#include <stdint.h>
#include <stdio.h>

/* The beginning of each report.  An existing file is replaced only if it begins with this. */
#define REPORT_MARK "<!doctype html><!-- kilnctl report -->"

struct report {
    const char *host;
    uint64_t now;
    const struct json *status, *stats, *history;
    const struct json *by_target, *by_user, *by_program; /* answers to `accounting` */
    const struct json *tuning;                           /* answer to `tuning_stats` */
    const struct json *coverage;                         /* answer to `package_coverage` */
};

void report_write(const struct report *report, FILE *out);

/* ---- parts of the page ---- */

void report_over_time(const struct report *report, FILE *out);
void report_misses(const struct report *report, FILE *out);
void report_accounting(const struct report *report, FILE *out);
void report_slowest(const struct report *report, FILE *out);
void report_tuning(const struct report *report, FILE *out);
void report_facts(const struct report *report, FILE *out);
