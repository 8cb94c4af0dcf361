/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Unpacks and checks every object of a package before anybody else opens it.
 *
 * Threading  blocks
 */
#include "engine/transfer/transfer.h"

/* For a package. KILN_CORRUPT with the first damage. */
KILN_MUST_CHECK enum kiln_code check_package_rows(const char *path,
                                                  const struct transfer_sink *sink,
                                                  uint64_t *ret_rows, struct kiln_err *err);
/* For a user's cache: counts damaged and unreadable rows instead. */
KILN_MUST_CHECK enum kiln_code check_salvaged_rows(const char *path,
                                                   const struct transfer_sink *sink,
                                                   uint64_t *ret_rows, uint64_t *ret_damaged,
                                                   struct kiln_err *err);
