/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reports the results of a run: lines in MIOpenDriver's format as each problem completes, and at
 * the end a table or one JSON document.
 *
 * Ownership  a report owns its JSON, from report_init to report_done
 * Threading  one thread
 */
#include "cli/driver/measure.h"
#include "cli/tiers.h"

struct totals {
    size_t problems, failed, verified;
    size_t untimed;
    struct kiln_error first;
    bool mixed; /* some failures have another code than |first| */
    struct tier_counts tiers;
    struct phases time;
    double seconds;
};

struct report {
    bool json;
    struct json *results;
    struct totals totals;
};

/* The origin of a problem: line |line| of the file, or the program's arguments if |line| is 0.
 * |command| is the problem's MIOpenDriver command line. */
struct report_place {
    unsigned line;
    const char *command;
};

void report_init(struct report *report, bool json);
void report_done(struct report *report);
void report_add(struct report *report, const struct report_place *place,
                const struct measurement *measurement);
void report_add_failure(struct report *report, const struct report_place *place,
                        const struct kiln_error *err);
/* Returns KILN_E_OK if no problem failed.  Returns the first failure's code in two cases: all
 * problems failed with this code, or exit_status_of() maps this code to EXIT_FAILED.  Otherwise
 * returns KILN_E_UNSUPPORTED. */
CLI_MUST_CHECK int report_judge(const struct report *report, struct kiln_error *err);
void report_print_summary(const struct report *report, FILE *out);
/* Prints the JSON document of the run.  |device| may be NULL.  |failure| is a failure of the whole
 * run, or NULL. */
CLI_MUST_CHECK int report_print_json(struct report *report, const struct kiln_device *device,
                                     uint64_t seed, const struct kiln_error *failure,
                                     struct kiln_error *err);
