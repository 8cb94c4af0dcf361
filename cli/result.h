/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How a program reports its result: a message on standard error, an object on standard output with
 * --json, and the exit status.
 *
 * Threading  main thread
 */
#include "cli/exit_status.h"
#include "cli/fail.h"

#include <stdbool.h>

struct json;

bool result_wants_json(int argc, const char *const *argv);
/* Returns {"code": "NOT_FOUND", "text": "..."}, with "log" for a compile error.  The caller owns
 * the tree. */
struct json *result_error_json(const struct kiln_error *err);

void result_version(const char *program, bool json);

struct result {
    const char *program;
    bool json;
    bool reported;
    /* True if kilnd answers.  KILN_E_UNAVAILABLE then means that something other than kilnd is
     * missing. */
    bool daemon_answers;
};

enum exit_status result_end(const struct result *result, int rc, struct kiln_error *err);
