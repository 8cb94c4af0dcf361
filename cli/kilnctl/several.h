/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Runs a command on several arguments.  After a failure, it continues with the next argument.
 *
 * Role       collects failures.  main prints the first failure at the end, and that failure
 *            determines the exit status.  Of the others, the first 20 are printed when they happen.
 *            With --json, all are listed
 * Ownership  owns the failures' tree
 * Threading  one thread
 */
#include "cli/kilnctl/command.h"

struct several {
    const struct invocation *invocation; /* borrowed */
    const char *noun;        /* borrowed; name of the argument in a failure's JSON, such as "key" */
    struct json *failures;   /* owned */
    struct kiln_error first; /* the first failure; KILN_E_OK if there is none */
    size_t later;            /* number of failures after the first one */
    size_t done;             /* number of arguments that succeeded */
    bool over; /* kilnd is absent or denies access, so the other arguments would fail, too */
};

void several_init(struct several *several, const struct invocation *invocation, const char *noun);
void several_release(struct several *several);
#define SEVERAL_AUTO __attribute__((cleanup(several_release)))

/* Counts |word| as a success, or records its failure. */
void several_note(struct several *several, const char *word, int rc, const struct kiln_error *why);
/* Ends the command.  With --json, prints |json| with "failures" and "error", unless kilnd was
 * absent from the start.  Returns the first failure's code. */
CLI_MUST_CHECK int several_end(struct several *several, struct json *json, struct kiln_error *err);
