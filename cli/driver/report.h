/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What came of the problems: lines like MIOpenDriver's as they are done, and at the end a table
 * or one JSON document.
 *
 * Ownership  a report owns its JSON; init and done as usual
 * Threading  one thread
 */
#include "cli/driver/measure.h"
#include "cli/tiers.h"

struct totals {
    size_t problems, failed, verified;
    struct kiln_error first; /* of the failures */
    bool mixed;              /* not all failures have the code of the first */
    struct tier_counts tiers;
    struct phases time;
    double seconds; /* wall clock, all together */
};

struct report {
    bool json;            /* collect instead of printing */
    struct json *results; /* owned; NULL without |json| */
    struct totals totals;
};

/* A problem of line |line| (0: of the command line), that |command| stated. */
struct report_place {
    unsigned line;
    const char *command;
};

void report_init(struct report *report, bool json);
void report_done(struct report *report);
void report_add(struct report *report, const struct report_place *place,
                const struct measurement *measurement);
/* A line that is no problem. */
void report_add_failure(struct report *report, const struct report_place *place,
                        const struct kiln_error *err);
/* Not KILN_E_OK when any problem failed: the code of the failures where they have one. */
CLI_MUST_CHECK int report_judge(const struct report *report, struct kiln_error *err);
/* The table of --summary. */
void report_print_summary(const struct report *report, FILE *out);
/* The whole document; |device| may be NULL, and so may |failure|, of the run as a whole. */
CLI_MUST_CHECK int report_print_json(struct report *report, const struct kiln_device *device,
                                     uint64_t seed, const struct kiln_error *failure,
                                     struct kiln_error *err);
