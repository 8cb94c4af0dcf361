/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Find and tune, before a problem runs: how it is asked for, how far it is, what came of it.
 *
 * Ownership  options are plain values, their texts borrowed; results are libkiln's
 * Threading  one thread
 */
#include "cli/driver/options.h"

#include <kiln/conv.h>

#include <stdio.h>

struct json;

/* From the flags; where one is not given from MIOPEN_FIND_MODE, MIOPEN_FIND_ENFORCE; else hybrid.
 * KILN_E_INVALID names the flag or variable at fault. */
CLI_MUST_CHECK int find_options_read(const struct driver_options *options,
                                     struct kiln_conv_options *ret_options, struct kiln_error *err);

struct find_call {
    struct kiln_client *client;
    struct kiln_device *device;
    const struct kiln_problem *problem;
    const struct kiln_conv_options *options; /* the flags'; solver and progress are filled in */
    const char *solver;                      /* "": all */
    bool tunes;
    FILE *progress; /* NULL: none is shown */
};
CLI_MUST_CHECK int find_run(const struct find_call *call, struct kiln_conv_result **ret_result,
                            struct kiln_error *err);

/* The solvers as a table, and those that failed with their reasons. */
CLI_MUST_CHECK int find_print(const struct kiln_conv_result *result, FILE *out,
                              struct kiln_error *err);
/* Where what was measured could not be recorded: says so; once, where the reference's kernels are
 * not built into the program, for that is so for one problem like for the next.  Main thread. */
void find_warn(const struct kiln_conv_result *result, FILE *out);
/* {"solvers": [...], "trials": [...], "recorded": true}, or false and "not_recorded": why; the
 * caller owns the tree. */
struct json *find_json(const struct kiln_conv_result *result);
