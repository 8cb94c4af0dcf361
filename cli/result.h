/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How a program reports its result: one message on standard error, one object on standard output if
 * --json was given, and the exit status for the code.
 *
 * Threading  main thread
 */
#include "cli/exit_status.h"
#include "cli/fail.h"

#include <stdbool.h>

struct json;

/* Returns whether --json is among the arguments.  Works even if the command line cannot be
 * parsed. */
bool result_wants_json(int argc, const char *const *argv);
/* Returns {"code": "NOT_FOUND", "text": "..."} and, for a compile error, "log".  The caller owns
 * the tree. */
struct json *result_error_json(const struct kiln_error *err);

/* Prints the output of --version. */
void result_version(const char *program, bool json);

struct result {
    const char *program;
    bool json;
    /* True if the printed JSON already has the member "error"; another document must not be printed
     * then. */
    bool reported;
    /* True if kilnd answers; KILN_E_UNAVAILABLE then means that something else is missing. */
    bool daemon_answers;
};

/* Reports a failure |rc| and returns the exit status.  Prints nothing on success. */
enum exit_status result_end(const struct result *result, int rc, struct kiln_error *err);
