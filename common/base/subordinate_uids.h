/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which uids belong to the same person, for limits and queues.
 *
 * Role       knows the ranges of subordinate uids (subuid(5)).  The owner of a range can start
 *            processes under each of its uids, so all uids of a range count as one user.  Ignores
 *            ranges of root, which the containers of several people may share
 * Ownership  keeps one table for the process
 * Threading  any thread, but no other call may overlap subordinate_uids_read
 */
#include "common/base/err.h"

#include <stdbool.h>
#include <sys/types.h>

/* Reads the ranges of |path|, usually /etc/subuid, and forgets those that were read before.  Skips
 * lines that are not ranges.  A missing file counts as empty. */
KILN_MUST_CHECK enum kiln_code subordinate_uids_read(const char *path, struct kiln_err *err);
bool subordinate_uids_share_range(uid_t a, uid_t b);
static inline bool is_one_user(uid_t a, uid_t b)
{
    return a == b || subordinate_uids_share_range(a, b);
}
