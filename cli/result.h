/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How a program ends: one sentence on standard error, with --json one object on standard output,
 * and the exit status that belongs to the code.
 *
 * Threading  main thread
 */
#include "cli/exit_status.h"
#include "cli/fail.h"

#include <stdbool.h>

struct json;

/* Whether --json is among the words: also known where the command line was not understood. */
bool result_wants_json(int argc, const char *const *argv);
/* {"code": "NOT_FOUND", "text": "..."} and, where a compiler was at work, "log".  The caller owns
 * the tree. */
struct json *result_error_json(const struct kiln_error *err);

/* What --version prints. */
void result_version(const char *program, bool json);

struct result {
    const char *program;
    bool json;
    bool reported;       /* what was printed already holds "error": one document is enough */
    bool daemon_answers; /* so that what is unavailable is something else */
};

/* Says what became of |rc| and returns what to exit with.  Nothing is said of success. */
enum exit_status result_end(const struct result *result, int rc, struct kiln_error *err);
