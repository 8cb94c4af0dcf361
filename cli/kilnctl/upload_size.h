/* SPDX-License-Identifier: MIT */
#pragma once

/* Refuses files that are larger than kilnd accepts, before they are read or copied.
 *
 * Role       asks kilnd for its limits (member "uploads" of its status). kilnd checks the size
 *            itself, too; this check only saves reading gigabytes in vain
 * Threading  one thread; blocks */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/snapshot.h"

/* Returns KILN_E_FULL if |path| is, together with its write-ahead log, larger than kilnd accepts.
 * Returns KILN_E_OK if |path| cannot be examined; opening it then fails with the reason. */
CLI_MUST_CHECK int upload_size_check(const struct invocation *invocation, const char *path,
                                     enum snapshot_of what, struct kiln_error *err);
