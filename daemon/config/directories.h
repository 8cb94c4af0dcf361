/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Directories that kilnd makes for itself when it starts.
 *
 * Threading  before the loop runs; may block
 */
#include "common/base/err.h"

#include <sys/types.h>

/* As fs_make_directories_mode; then refuses a directory that kilnd cannot write to, or that
 * everybody can.  The message names |what| ("the state directory") and ends with |advice|: what to
 * set. */
KILN_MUST_CHECK enum kiln_code directory_make(const char *path, mode_t mode, const char *what,
                                              const char *advice, struct kiln_err *err);
