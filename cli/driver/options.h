/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * kiln-driver's own command-line options, as opposed to MIOpenDriver's flags.
 *
 * Ownership  strings are borrowed from the command line
 * Threading  main thread
 */
#include "cli/session.h"

/* Time limit of find for each problem of a file, if --budget is not given. */
#define RUN_FIND_MS 3000

struct driver_options {
    struct session_options common;
    const char *device, *hip_library_path, *toolchain;
    const char *find_mode, *enforce, *journal;
    struct option_number seed, budget, improve;
    bool summary, ahead, no_record;
};

enum driver_command { DRIVER_CONV, DRIVER_RUN, DRIVER_DEVICES, DRIVER_NOTHING };

struct driver_call {
    struct driver_options options;
    enum driver_command command;
    struct option_list words;
    bool reported; /* the printed JSON already reports the failure */
};

/* Parses the command line.  The message of KILN_E_INVALID names the wrong argument.  The caller
 * calls driver_call_done even after a failure. */
CLI_MUST_CHECK int driver_call_parse(int argc, const char *const *argv,
                                     struct driver_call *ret_call, struct kiln_error *err);
void driver_call_done(struct driver_call *call);
/* Returns kiln-driver's own options for --help.  The table is static, and its |values| is
 * NULL. */
struct option_table driver_option_table(void);
void driver_print_help(FILE *out);
