/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Runs find or tune before a problem: reads the options, runs the search, prints the results.
 *
 * Ownership  options are plain values with borrowed strings; results belong to libkiln
 * Threading  one thread
 */
#include "cli/driver/options.h"

#include <kiln/conv.h>

#include <stdio.h>

struct json;

/* Reads the options from the flags.  A flag that is not given is read from MIOPEN_FIND_MODE or
 * MIOPEN_FIND_ENFORCE; the default mode is hybrid.
 * The message of KILN_E_INVALID names the flag or variable at fault. */
CLI_MUST_CHECK int find_options_read(const struct driver_options *options,
                                     struct kiln_conv_options *ret_options, struct kiln_error *err);

struct find_call {
    struct kiln_client *client;
    struct kiln_device *device;
    const struct kiln_problem *problem;
    const struct kiln_conv_options
        *options; /* from the flags; find_run adds |device|, |solver| and the progress callback */
    const char *solver; /* "" for all solvers */
    int find_ms;        /* time limit of find if |options| has none; 0 means no limit */
    bool tunes;
    FILE *progress; /* NULL if progress is not shown */
};
CLI_MUST_CHECK int find_run(const struct find_call *call, struct kiln_conv_result **ret_result,
                            struct kiln_error *err);

/* Prints the solvers as a table, then each solver that failed and why. */
CLI_MUST_CHECK int find_print(const struct kiln_conv_result *result, FILE *out,
                              struct kiln_error *err);
/* Warns when the measurements could not be recorded.  If the cause is that the reference kernels
 * are not built into the program, warns only once, because the cause is then the same for every
 * problem.  Main thread only. */
void find_warn(const struct kiln_conv_result *result, FILE *out);
/* Returns {"solvers": [...], "trials": [...], "recorded": true}.  If nothing was recorded,
 * "recorded" is false and "not_recorded" gives the reason.  The caller owns the tree. */
struct json *find_json(const struct kiln_conv_result *result);
