/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Runs find or tune for a problem, before kiln-driver runs the problem's convolution.
 *
 * Ownership  options are plain values with borrowed strings; results belong to libkiln
 * Threading  one thread
 */
#include "cli/driver/options.h"

#include <kiln/conv.h>

#include <stdio.h>

struct json;

/* Reads the options of find from the flags.  If a flag is not given, reads MIOPEN_FIND_MODE or
 * MIOPEN_FIND_ENFORCE instead.  The default mode is hybrid.  The message of KILN_E_INVALID names
 * the flag or variable at fault. */
CLI_MUST_CHECK int find_options_read(const struct driver_options *options,
                                     struct kiln_conv_options *ret_options, struct kiln_error *err);

struct find_call {
    struct kiln_client *client;
    struct kiln_device *device;
    const struct kiln_problem *problem;
    /* the options read from the flags; find_run uses a copy, in which it sets |device|, |solver|
     * and the progress callback */
    const struct kiln_conv_options *options;
    const char *solver;
    int find_ms;
    bool tunes;
    FILE *progress;
};
CLI_MUST_CHECK int find_run(const struct find_call *call, struct kiln_conv_result **ret_result,
                            struct kiln_error *err);

CLI_MUST_CHECK int find_print(const struct kiln_conv_result *result, FILE *out,
                              struct kiln_error *err);
/* Warns if the measurements could not be recorded.  Warns only once if the reference kernels are
 * not built into the program, because the cause is then the same for every problem.  Main thread
 * only. */
void find_warn(const struct kiln_conv_result *result, FILE *out);
/* Returns {"solvers": [...], "trials": [...], "recorded": true}. If nothing was recorded,
 * "not_recorded" has the reason.  The caller owns the tree. */
struct json *find_json(const struct kiln_conv_result *result);
