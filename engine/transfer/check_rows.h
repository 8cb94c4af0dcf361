/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks a database file in the transfer process, before kilnd opens the file. In a package, it
 * checks every object.
 *
 * Threading  blocks
 */
#include "engine/transfer/transfer.h"

/* For a package. KILN_CORRUPT with the first damage. */
KILN_MUST_CHECK enum kiln_code check_package_rows(const char *path,
                                                  const struct transfer_sink *sink,
                                                  uint64_t *ret_rows, struct kiln_err *err);
/* For a user's cache: damaged rows are acceptable, and kilnd checks each object when it imports it.
 * KILN_CORRUPT: it has no readable row. */
KILN_MUST_CHECK enum kiln_code count_salvaged_rows(const char *path, uint64_t *ret_rows,
                                                   struct kiln_err *err);
