/* SPDX-License-Identifier: MIT */
#pragma once

/* The result of a prefetch: numbers of different kernels, and every failure with its reason.
 *
 * Ownership  owns copies of the failures' texts
 * Threading  one thread at a time: the caller locks */
#include "cli/tiers.h"
#include "common/base/hash_table.h"

#include <kiln/plan.h>

struct prefetch_failure {
    unsigned line;
    int code;
    char *what;
    char *text;
    char *log;
};

struct prefetch_kernel {
    struct hash_link link;
    bool in_memory; /* when kilnd answered, it had not written the kernel to its disk yet */
    char key[65];
};

struct prefetch_report {
    size_t lines, problems, repeats, done, failed;
    struct tier_counts tiers;
    double compile_s;
    double seconds;
    uint64_t not_stored;
    struct prefetch_failure *failures;
    /* Length of |failures|. There were more failures if memory ran out. */
    size_t recorded;
    struct hash_table kernels;
    bool incomplete; /* memory ran out, so that failures or kernels are missing here */
};

void prefetch_report_done(struct prefetch_report *report);
void prefetch_report_plan(struct prefetch_report *report, const struct kiln_plan *plan);
/* Returns whether |key| is one of the kernels of the plans that were added. */
bool prefetch_report_has(const struct prefetch_report *report, const char *key);
void prefetch_report_failure(struct prefetch_report *report, unsigned line, const char *what,
                             const struct kiln_error *err);

/* If an earlier failure has the same reason, only refers to that failure. */
void prefetch_report_print_failure(const struct prefetch_report *report, size_t index, FILE *out);
void prefetch_report_print(const struct prefetch_report *report, FILE *out);
struct json *prefetch_report_json(const struct prefetch_report *report);
