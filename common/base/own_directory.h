/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Directories that no other user can replace while we open files in them by path.
 *
 * Role       Checks who may change a directory before anything is created in it.  The directory's
 *            path comes from an environment variable, which may be another user's (sudo)
 * Threading  pure functions of the filesystem; may block
 */
#include "common/base/err.h"

/* Creates |path| and its missing parents with mode 0700.  Every directory and link
 * on the path must belong to root or to this user, and must not be world-writable without the
 * sticky bit.  |path| must be private to this user.  Otherwise KILN_DENIED, with nothing created.
 */
KILN_MUST_CHECK enum kiln_code own_directory_make(const char *path, struct kiln_err *err);
/* Whether a directory that is private to this user may be created in |path|: KILN_DENIED as
 * above. */
KILN_MUST_CHECK enum kiln_code own_directory_check(const char *path, struct kiln_err *err);
