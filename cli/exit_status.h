/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Exit statuses, the same in kilnctl and kiln-driver; --help lists them.
 *
 * Threading  pure functions
 */

enum exit_status {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_DAEMON = 3,
    EXIT_DENIED = 4,
    EXIT_NOT_FOUND = 5,
};

/* Returns the exit status for a KILN_E_ code. */
enum exit_status exit_status_of(int code);
/* Returns advice for |code|, or NULL if there is no general advice. */
const char *exit_status_advice(int code);
/* Returns the section of --help that lists the exit statuses. */
const char *exit_status_help(void);
