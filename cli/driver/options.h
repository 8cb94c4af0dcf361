/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * kiln-driver's own command-line options, as opposed to MIOpenDriver's flags.
 *
 * Ownership  strings are borrowed from the command line
 * Threading  main thread
 */
#include "cli/session.h"

/* Time limit of find for each problem of a file, if --budget is not given.  It is short, because
 * the file may have a hundred problems. */
#define RUN_FIND_MS 3000

struct driver_options {
    struct session_options common;
    const char *device, *hip_library_path, *toolchain;
    const char *find_mode, *enforce, *journal;
    struct option_number seed, budget;
    bool summary, ahead, no_record;
};

enum driver_command { DRIVER_CONV, DRIVER_RUN, DRIVER_DEVICES, DRIVER_NOTHING };

struct driver_call {
    struct driver_options options;
    enum driver_command command;
    struct option_list words; /* owned: for conv, MIOpenDriver's arguments; for run, the file */
    bool reported;            /* the command failed, and its printed JSON reports the failure */
};

/* Parses the command line.  The message of KILN_E_INVALID names what was not understood.  Call
 * driver_call_done even after a failure. */
CLI_MUST_CHECK int driver_call_parse(int argc, const char *const *argv,
                                     struct driver_call *ret_call, struct kiln_error *err);
void driver_call_done(struct driver_call *call);
/* Returns the options that only kiln-driver has, for --help. The table is static and points to no
 * values. */
struct option_table driver_option_table(void);
void driver_print_help(FILE *out);
