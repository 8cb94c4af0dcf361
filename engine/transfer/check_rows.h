/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks a database file in the transfer process, before kilnd opens the file. In a package, it
 * checks every object.
 *
 * Threading  blocks
 */
#include "engine/transfer/transfer.h"

/* Checks a package.  Returns KILN_CORRUPT if it is damaged; the message describes the first
 * damage. */
KILN_MUST_CHECK enum kiln_code check_package_rows(const char *path,
                                                  const struct transfer_sink *sink,
                                                  uint64_t *ret_rows, struct kiln_err *err);
/* Checks a user's cache, whose objects kilnd checks when it imports them.  Returns KILN_CORRUPT if
 * the database itself is damaged; the message says what to do. */
KILN_MUST_CHECK enum kiln_code check_cache(const char *path, const struct transfer_sink *sink,
                                           uint64_t *ret_rows, struct kiln_err *err);
/* Returns KILN_CORRUPT, with the message of check_cache for a damaged file |name|. |why| describes
 * the damage. */
KILN_MUST_CHECK enum kiln_code fail_damaged_cache(const char *name, const struct kiln_err *why,
                                                  struct kiln_err *err);
