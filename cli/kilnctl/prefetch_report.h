/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The result of a prefetch: counters of distinct kernels, and every failure with its reason.
 *
 * Ownership  owns copies of the failures' texts
 * Threading  one thread at a time: the caller locks
 */
#include "cli/tiers.h"
#include "common/base/hash_table.h"

#include <kiln/plan.h>

struct prefetch_failure {
    unsigned line;
    int code;
    char *what; /* owned: the command line of the problem, or of the file */
    char *text; /* owned */
    char *log;  /* owned; the compiler's log, or "" */
};

struct prefetch_kernel {
    struct hash_link link;
    bool in_memory; /* kilnd had it only in memory when it answered */
    char key[65];
};

struct prefetch_report {
    size_t lines, problems, repeats, done, failed;
    struct tier_counts tiers;          /* distinct kernels by tier */
    double compile_s;                  /* total compile time */
    double seconds;                    /* wall clock */
    uint64_t not_stored;               /* kernels that could not be stored */
    struct prefetch_failure *failures; /* owned */
    size_t recorded;                   /* length of |failures|; fewer if out of memory */
    struct hash_table kernels;         /* the kernels counted; owned struct prefetch_kernel */
    bool incomplete; /* out of memory: some failures or kernels could not be recorded */
};

void prefetch_report_done(struct prefetch_report *report);
/* Counts a plan, and those of its kernels that were not counted before. */
void prefetch_report_plan(struct prefetch_report *report, const struct kiln_plan *plan);
/* Adds a problem or line that failed.  Copies |what| and |err|. */
void prefetch_report_failure(struct prefetch_report *report, unsigned line, const char *what,
                             const struct kiln_error *err);

/* Prints failure |index|; refers to an earlier failure if that had the same reason. */
void prefetch_report_print_failure(const struct prefetch_report *report, size_t index, FILE *out);
void prefetch_report_print(const struct prefetch_report *report, FILE *out);
/* The caller owns the tree. */
struct json *prefetch_report_json(const struct prefetch_report *report);
