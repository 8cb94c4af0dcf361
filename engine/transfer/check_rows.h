/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Unpacks and checks every object of a package before anybody else opens it.
 *
 * Threading  blocks
 */
#include "engine/transfer/transfer.h"

/* KILN_CORRUPT with the first damage. With |salvage|, damaged and unreadable rows are counted
 * instead. */
KILN_MUST_CHECK enum kiln_code check_rows(const char *path, bool salvage,
                                          const struct transfer_sink *sink, uint64_t *ret_rows,
                                          uint64_t *ret_damaged, struct kiln_err *err);
