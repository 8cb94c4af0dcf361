/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Refuses files that kilnd would refuse for their size, before anybody reads or copies them.
 *
 * Role       asks kilnd for its limits ("uploads" of the request status). kilnd checks the size
 *            again; this check only avoids reading gigabytes in vain
 * Threading  one thread; blocks
 */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/snapshot.h"

/* Returns KILN_E_FULL if |path|, together with its write-ahead log, is larger than kilnd accepts.
 * Returns KILN_E_OK for a file that cannot be examined: the attempt to open it will say why. */
CLI_MUST_CHECK int upload_size_check(const struct invocation *invocation, const char *path,
                                     enum snapshot_of what, struct kiln_error *err);
