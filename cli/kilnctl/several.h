/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One command over several words: what fails does not keep the others from being done.
 *
 * Role       the first failure is main's to print, in the end, and the exit status is its; the
 *            others are printed as they happen; with --json all are listed
 * Ownership  owns the failures' tree
 */
#include "cli/kilnctl/command.h"

struct several {
    const struct invocation *invocation; /* borrowed */
    const char *noun;                    /* borrowed: what a failure's JSON calls the word: "key" */
    struct json *failures;               /* owned */
    struct kiln_error first;             /* of them; code KILN_E_OK: none */
    size_t done;                         /* that went well */
    bool over; /* nobody there, or kilnd refuses us: the next one would be told the same */
};

void several_init(struct several *several, const struct invocation *invocation, const char *noun);
void several_release(struct several *several);
#define SEVERAL_AUTO __attribute__((cleanup(several_release)))

/* How |word| ended: counts it, or notes why it failed. */
void several_note(struct several *several, const char *word, int rc, const struct kiln_error *why);
/* The command's own end: with --json prints |json| with "failures" and "error" added, unless
 * nothing was done at all.  Returns the first failure's code. */
CLI_MUST_CHECK int several_end(struct several *several, struct json *json, struct kiln_error *err);
