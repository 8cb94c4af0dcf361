/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks a fetched database file in the transfer process, before kilnd opens the file. If the file
 * is a package, checks every object in it.
 *
 * Threading  blocks
 */
#include "engine/transfer/transfer.h"

KILN_MUST_CHECK enum kiln_code check_package_rows(const char *path,
                                                  const struct transfer_sink *sink,
                                                  uint64_t *ret_rows, struct kiln_err *err);
/* Checks only the database, not the objects, which kilnd checks when it imports them. Returns
 * KILN_CORRUPT if the database is damaged. */
KILN_MUST_CHECK enum kiln_code check_cache(const char *path, const struct transfer_sink *sink,
                                           uint64_t *ret_rows, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code fail_damaged_cache(const char *name, const struct kiln_err *why,
                                                  struct kiln_err *err);
