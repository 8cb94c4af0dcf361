/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The page of kilnctl report: kilnd's answers in, one self-contained HTML file out.
 *
 * Role       no script, nothing from elsewhere; report_sections.c has its tables
 * Ownership  answers are borrowed; any may be NULL, or lack anything: its part says so
 * Threading  one stream, one thread
 */
#include "common/json.h"

#include <stdint.h>
#include <stdio.h>

/* The first line of each report, by which an older one is known and may be replaced. */
#define REPORT_MARK "<!doctype html><!-- kilnctl report -->"

struct report {
    const char *host;
    uint64_t now;
    const struct json *status, *stats, *history;
    const struct json *by_target, *by_user, *by_program; /* of `ledger` */
    const struct json *tuning;                           /* of `tuning_stats` */
    const struct json *coverage;                         /* of `package_coverage` */
};

void report_write(const struct report *report, FILE *out);

/* ---- its parts ---- */

void report_over_time(const struct report *report, FILE *out);
void report_misses(const struct report *report, FILE *out);
void report_ledgers(const struct report *report, FILE *out);
void report_slowest(const struct report *report, FILE *out);
void report_tuning(const struct report *report, FILE *out);
void report_facts(const struct report *report, FILE *out);
