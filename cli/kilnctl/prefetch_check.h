/* SPDX-License-Identifier: MIT */
#pragma once

/* Finds out whether a prefetch fails because of its target or toolchain, so that this is reported
 * once and not for each problem.
 *
 * Threading  one thread; blocks */
#include "cli/kilnctl/command.h"

#define PREFETCH_NOTE_MAX 320
/* Writes a warning if |target| has no features but its arch has GPUs with features: jobs on these
 * GPUs do not use kernels for |target|. Returns |text|, or NULL if there is no reason to warn. */
const char *prefetch_note(const char *target, char text[PREFETCH_NOTE_MAX]);

/* Returns whether kilnd knows already that |toolchain| (NULL: any) works for |target|. */
bool prefetch_is_known_to_work(const struct invocation *invocation, const char *target,
                               const char *toolchain);

/* Asks kilnd whether |target| and |toolchain| can be used. kilnd may have to try all its compilers
 * first, so ask this only if a problem has failed. Returns KILN_E_INVALID if |target| is malformed,
 * KILN_E_NOT_FOUND if the host has no toolchain |toolchain| (may be NULL), and KILN_E_UNSUPPORTED
 * if no compiler can compile for |target|. Sets |ret_doubtful| if no compiler is known to work for
 * |target|; then only the first compile shows whether one does. */
CLI_MUST_CHECK int prefetch_check(const struct invocation *invocation, const char *target,
                                  const char *toolchain, bool *ret_doubtful,
                                  struct kiln_error *err);
