/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs a command on several arguments.  After a failure, the command continues with the next
 * argument.
 *
 * Role       collects failures.  The first one determines the exit status, and main prints it at
 *            the end.  The next 20 are printed when they happen.  --json lists all
 * Ownership  owns the failures' tree
 * Threading  one thread */
#include "cli/kilnctl/command.h"

struct several {
    const struct invocation *invocation;
    const char *noun;
    struct json *failures;
    struct kiln_error first;
    size_t later;
    size_t done;
    /* kilnd does not answer or denies access, so that further arguments would fail, too */
    bool over;
};

void several_init(struct several *several, const struct invocation *invocation, const char *noun);
void several_release(struct several *several);
#define SEVERAL_AUTO __attribute__((cleanup(several_release)))

void several_note(struct several *several, const char *word, int rc, const struct kiln_error *why);
/* Returns the first failure's code. With --json, prints |json| with the members "failures" and
 * "error", unless kilnd was absent or denied access before any argument succeeded. */
CLI_MUST_CHECK int several_end(struct several *several, struct json *json, struct kiln_error *err);
