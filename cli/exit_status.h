/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Exit statuses of kilnctl and kiln-driver.
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

enum exit_status exit_status_of(int code);
const char *exit_status_advice(int code);
const char *exit_status_help(void);
