/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What is wrong with every problem of a prefetch is said once, before the first of them.
 */
#include "cli/kilnctl/command.h"

#define PREFETCH_NOTE_MAX 320
/* What is worth knowing of |target|: where GPUs of that arch state features, and it states none,
 * that kernels for it are not what jobs on them ask for.  NULL: nothing. */
const char *prefetch_note(const char *target, char text[PREFETCH_NOTE_MAX]);

/* Asks kilnd, which tries its compilers where it does not know yet.  KILN_E_INVALID for a target
 * that is none, KILN_E_NOT_FOUND for a toolchain that is not here, KILN_E_UNSUPPORTED where no
 * compiler can build for |target|.  |toolchain| NULL leaves the choice.  |ret_doubtful|: nothing
 * is known to work, and only a compile tells what is wrong. */
CLI_MUST_CHECK int prefetch_check(const struct invocation *invocation, const char *target,
                                  const char *toolchain, bool *ret_doubtful,
                                  struct kiln_error *err);
