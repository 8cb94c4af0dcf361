/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Writes kilnd's answers as one self-contained HTML file, the page of kilnctl report.
 *
 * Role       writes the page, without scripts and external files; report_sections.c writes the
 *            tables
 * Ownership  answers are borrowed; any of them may be NULL or incomplete
 * Threading  one thread at a time for each stream
 */
#include "common/base/json.h"

#include <stdint.h>
#include <stdio.h>

/* An existing file is replaced only if it begins with this text. */
#define REPORT_MARK "<!doctype html><!-- kilnctl report -->"

struct report {
    const char *host;
    uint64_t now;
    const struct json *status, *stats, *history;
    const struct json *by_target, *by_user, *by_program;
    const struct json *tuning;
    const struct json *coverage;
};

void report_write(const struct report *report, FILE *out);

void report_over_time(const struct report *report, FILE *out);
void report_misses(const struct report *report, FILE *out);
void report_accounting(const struct report *report, FILE *out);
void report_slowest(const struct report *report, FILE *out);
void report_tuning(const struct report *report, FILE *out);
void report_facts(const struct report *report, FILE *out);
