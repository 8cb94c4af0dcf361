/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Directories that nobody but their user can swap for others, while what is theirs is opened by
 * path.
 *
 * Role       looks who may change a directory before anything is made in it: a variable of the
 *            environment names it, and that may be another user's (sudo)
 * Threading  pure functions of the filesystem; may block
 */
#include "common/err.h"

/* Makes |path| and its missing parents, mode 0700.  KILN_DENIED, with nothing made, where the
 * directory that is there to make them in is neither root's nor this user's, or anybody may write
 * to it; and where |path| itself is not this user's alone.  For root all that leads there is to be
 * root's. */
KILN_MUST_CHECK enum kiln_code own_directory_make(const char *path, struct kiln_err *err);
/* Whether a directory of this user's own may be made in |path|. */
KILN_MUST_CHECK enum kiln_code own_directory_check(const char *path, struct kiln_err *err);
