/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Directories that kilnd makes for itself when it starts.
 *
 * Threading  before the loop runs; may block
 */
#include "common/err.h"

#include <sys/types.h>

/* Makes |path| and the missing ones above it with |mode|, whatever the umask says; those that are
 * there are left as they are. */
KILN_MUST_CHECK enum kiln_code directory_make_mode(const char *path, mode_t mode,
                                                   struct kiln_err *err);
/* The same; then refuses what we may not write to, and what everybody may.  The sentence names
 * |what| ("the state directory") and ends with |advice|: what to set. */
KILN_MUST_CHECK enum kiln_code directory_make(const char *path, mode_t mode, const char *what,
                                              const char *advice, struct kiln_err *err);
