/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a prefetch came to: counters over distinct kernels, and every failure with its reason.
 *
 * Ownership  owns copies of the failures' texts
 * Threading  one thread at a time: the caller locks
 */
#include "cli/tiers.h"
#include "common/hash_table.h"

#include <kiln/plan.h>

struct prefetch_failure {
    unsigned line;
    int code;
    char *what; /* owned: the command line of the problem, or of the file */
    char *text; /* owned */
    char *log;  /* owned; "" when no compiler was at work */
};

struct prefetch_kernel {
    struct hash_link link;
    bool in_memory; /* kilnd had it in memory alone, as far as it said */
    char key[65];
};

struct prefetch_report {
    size_t lines, problems, repeats, done, failed;
    struct tier_counts tiers;          /* distinct kernels by who had them */
    double compile_s;                  /* compilers' time, all together */
    double seconds;                    /* wall clock */
    uint64_t not_stored;               /* kernels that the disk has no room for */
    struct prefetch_failure *failures; /* owned */
    size_t recorded;                   /* of the failures; all but for lack of memory */
    struct hash_table kernels;         /* the kernels counted; owned struct prefetch_kernel */
    bool incomplete; /* out of memory: some failures or kernels could not be recorded */
};

void prefetch_report_done(struct prefetch_report *report);
/* A plan that is there: counts those of its kernels that were not seen before. */
void prefetch_report_plan(struct prefetch_report *report, const struct kiln_plan *plan);
/* A problem or line that failed.  |what| and |err| are copied. */
void prefetch_report_failure(struct prefetch_report *report, unsigned line, const char *what,
                             const struct kiln_error *err);

/* Failure number |index|; a reason that was given before is only referred to. */
void prefetch_report_print_failure(const struct prefetch_report *report, size_t index, FILE *out);
void prefetch_report_print(const struct prefetch_report *report, FILE *out);
/* The caller owns the tree. */
struct json *prefetch_report_json(const struct prefetch_report *report);
