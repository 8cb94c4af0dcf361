/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Takes over another user's file without the right to change its owner.
 *
 * Threading  any thread; blocks
 */
#include "common/err.h"

#include <stdatomic.h>
#include <stdint.h>

/* Replaces another user's regular file at |path| by kilnd's own copy, which shares its blocks if
 * the filesystem can.  Descriptors that the other user keeps open do not reach the copy.
 * KILN_IO if it is no regular file or cannot be copied.  KILN_FULL if it has more than
 * |size_max| bytes.  KILN_CANCELLED, without a message, soon after |stopped| becomes nonzero;
 * |path| is then unchanged. */
KILN_MUST_CHECK enum kiln_code take_copy(const char *path, uint64_t size_max,
                                         const atomic_int *stopped, struct kiln_err *err);
