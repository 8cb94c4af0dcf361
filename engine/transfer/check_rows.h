/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks a database file in the transfer process, before kilnd opens the file. In a package, it
 * checks every object.
 *
 * Threading  blocks
 */
#include "engine/transfer/transfer.h"

KILN_MUST_CHECK enum kiln_code check_package_rows(const char *path,
                                                  const struct transfer_sink *sink,
                                                  uint64_t *ret_rows, struct kiln_err *err);
/* Returns KILN_CORRUPT if the database itself is damaged.  kilnd checks the objects when it imports
 * them. */
KILN_MUST_CHECK enum kiln_code check_cache(const char *path, const struct transfer_sink *sink,
                                           uint64_t *ret_rows, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code fail_damaged_cache(const char *name, const struct kiln_err *why,
                                                  struct kiln_err *err);
