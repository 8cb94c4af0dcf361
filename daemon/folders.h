/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Folders that kilnd makes for itself when it starts.
 *
 * Threading  before the loop runs; may block
 */
#include "common/err.h"

/* Makes |path|, mode 0700, where it is absent; refuses what we may not write to, and what everybody
 * may.  The sentence names |what| ("the state folder") and ends with |advice|: what to set. */
KILN_MUST_CHECK enum kiln_code folder_make(const char *path, const char *what, const char *advice,
                                           struct kiln_err *err);
