/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Runs a command on several arguments.  After a failure, the command continues with the next
 * argument.
 *
 * Role       collects failures. main prints the first failure at the end, and that failure
 *            determines the exit status.  The next 20 failures are printed when they happen. --json
 *            lists all failures
 * Ownership  owns the failures' tree
 * Threading  one thread
 */
#include "cli/kilnctl/command.h"

struct several {
    const struct invocation *invocation;
    const char *noun;
    struct json *failures;
    struct kiln_error first;
    size_t later;
    size_t done;
    bool over; /* kilnd is absent or denies access, so the other arguments would fail, too */
};

void several_init(struct several *several, const struct invocation *invocation, const char *noun);
void several_release(struct several *several);
#define SEVERAL_AUTO __attribute__((cleanup(several_release)))

void several_note(struct several *several, const char *word, int rc, const struct kiln_error *why);
/* With --json, prints |json| with "failures" and "error", unless kilnd was absent from the start.
 * Returns the first failure's code. */
CLI_MUST_CHECK int several_end(struct several *several, struct json *json, struct kiln_error *err);
