/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Directories that no other user can replace while we open files in them by path.
 *
 * Role       Checks who may change a directory before anything is created in it.  The directory's
 *            path comes from an environment variable, which may be another user's (sudo)
 * Threading  pure functions of the filesystem; may block
 */
#include "common/err.h"

/* Creates |path| and its missing parents with mode 0700.  KILN_DENIED, with nothing created, if a
 * directory or link on the path belongs to neither root nor this user, or is world-writable without
 * the sticky bit, or if |path| is not private to this user. */
KILN_MUST_CHECK enum kiln_code own_directory_make(const char *path, struct kiln_err *err);
/* Whether a directory that is private to this user may be created in |path|: KILN_DENIED as
 * above. */
KILN_MUST_CHECK enum kiln_code own_directory_check(const char *path, struct kiln_err *err);
