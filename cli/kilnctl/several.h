/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Runs a command on several arguments; a failure does not stop the others.
 *
 * Role       main prints the first failure at the end, and it decides the exit status.  The others
 *            are printed as they happen, the first 20 of them.  With --json, all are listed
 * Ownership  owns the failures' tree
 * Threading  one thread
 */
#include "cli/kilnctl/command.h"

struct several {
    const struct invocation *invocation; /* borrowed */
    const char *noun;        /* borrowed: the argument's name in a failure's JSON: "key" */
    struct json *failures;   /* owned */
    struct kiln_error first; /* the first failure; code KILN_E_OK: none */
    size_t later;            /* failures after the first */
    size_t done;             /* arguments that succeeded */
    bool over; /* kilnd is absent or denies access, so the other arguments would fail as well */
};

void several_init(struct several *several, const struct invocation *invocation, const char *noun);
void several_release(struct several *several);
#define SEVERAL_AUTO __attribute__((cleanup(several_release)))

/* Counts |word| as a success, or records its failure. */
void several_note(struct several *several, const char *word, int rc, const struct kiln_error *why);
/* Ends the command.  With --json, prints |json| with "failures" and "error", unless kilnd was
 * absent from the start.  Returns the first failure's code. */
CLI_MUST_CHECK int several_end(struct several *several, struct json *json, struct kiln_error *err);
