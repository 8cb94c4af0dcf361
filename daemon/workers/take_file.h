/* SPDX-License-Identifier: MIT */
#pragma once

/* Making another user's file our own, without the rights to give files away. */
#include "common/err.h"

#include <stdatomic.h>
#include <stdint.h>

/* Puts a copy of our own at |path|, where another's regular file is; shares its blocks where the
 * filesystem can.  What the other user may have kept open is not what we keep.  KILN_IO where it is
 * no regular file or cannot be copied, KILN_FULL where it has more than |size_max| bytes,
 * KILN_CANCELLED, without a sentence, soon after |stopped| is not 0 any more; |path| is not touched
 * then.  Blocks. */
KILN_MUST_CHECK enum kiln_code take_copy(const char *path, uint64_t size_max,
                                         const atomic_int *stopped, struct kiln_err *err);
