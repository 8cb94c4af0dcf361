/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Copies a file that another user opened or owns. The file may be of any kind, and may shrink or
 * grow during the copy.
 *
 * Threading  any thread; blocks
 */
#include "engine/transfer/transfer.h"

struct copy_limit {
    uint64_t bytes;
    const char *name;
};

/* Copies the file without mapping it, because a mapped file that shrinks causes SIGBUS. Returns
 * KILN_INVALID if |from_fd| is not a regular file, and KILN_FULL if the file exceeds |limit|. */
KILN_MUST_CHECK enum kiln_code copy_file(int from_fd, int to_fd, const struct copy_limit *limit,
                                         const struct transfer_sink *sink, struct kiln_err *err);
