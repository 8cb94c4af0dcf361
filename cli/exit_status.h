/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the programs exit with; the same numbers in kilnctl and kiln-driver, shown by --help.
 */

enum exit_status {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_DAEMON = 3,
    EXIT_DENIED = 4,
    EXIT_NOT_FOUND = 5,
};

/* For one of the KILN_E_ codes. */
enum exit_status exit_status_of(int code);
/* What the user may do about |code|; NULL where the sentence itself has to do. */
const char *exit_status_advice(int code);
/* A block of --help. */
const char *exit_status_help(void);
