/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Creates kilnd's directories when it starts.
 *
 * Threading  before the loop runs; may block
 */
#include "common/base/err.h"

#include <sys/types.h>

/* Rejects a directory that kilnd cannot write to, or that everybody can write to.  The message
 * names |what| ("the state directory") and ends with |advice|. */
KILN_MUST_CHECK enum kiln_code directory_make(const char *path, mode_t mode, const char *what,
                                              const char *advice, struct kiln_err *err);
