/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks target and toolchain of a prefetch, so that an error that all problems share is reported
 * once, before the first problem is requested.
 *
 * Threading  one thread; blocks
 */
#include "cli/kilnctl/command.h"

#define PREFETCH_NOTE_MAX 320
/* Writes a warning if |target| has no features, but GPUs of its arch do: jobs on such GPUs will not
 * use kernels for |target|.  Returns |text|, or NULL if there is nothing to warn about. */
const char *prefetch_note(const char *target, char text[PREFETCH_NOTE_MAX]);

/* Asks kilnd, which tries its compilers if necessary.  Returns KILN_E_INVALID if |target| is
 * malformed, KILN_E_NOT_FOUND if the host has no such toolchain, and KILN_E_UNSUPPORTED if no
 * compiler can build for |target|.  |toolchain| may be NULL.  Sets |ret_doubtful| if no compiler is
 * known to work, so that only a compilation shows the error. */
CLI_MUST_CHECK int prefetch_check(const struct invocation *invocation, const char *target,
                                  const char *toolchain, bool *ret_doubtful,
                                  struct kiln_error *err);
