/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Directories that kilnd makes for itself when it starts.
 *
 * Threading  before the loop runs; may block
 */
#include "common/err.h"

#include <sys/types.h>

/* Makes |path| and its missing parents with |mode|, whatever the umask is; existing ones stay as
 * they are. */
KILN_MUST_CHECK enum kiln_code directory_make_mode(const char *path, mode_t mode,
                                                   struct kiln_err *err);
/* As directory_make_mode; then refuses a directory that kilnd cannot write to, or that everybody
 * can.  The message names |what| ("the state directory") and ends with |advice|: what to set. */
KILN_MUST_CHECK enum kiln_code directory_make(const char *path, mode_t mode, const char *what,
                                              const char *advice, struct kiln_err *err);
