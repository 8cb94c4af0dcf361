/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Directories that no other user can replace while kiln opens files in them by path.
 *
 * Role       Checks who may change a directory before anything is created in it.  This is needed
 *            because the path comes from an environment variable, which sudo may have kept from
 *            another user
 * Threading  pure functions of the filesystem; may block
 */
#include "common/base/err.h"

/* Creates |path| and its missing parents with mode 0700.  Every directory and link on the path must
 * belong to root or to this user, and must not be world-writable without the sticky bit.  |path|
 * must be private to this user.  If the path breaks one of these rules, returns KILN_DENIED and
 * creates nothing. */
KILN_MUST_CHECK enum kiln_code own_directory_make(const char *path, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code own_directory_check(const char *path, struct kiln_err *err);
