/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Copies files that others opened or own: they may not be regular files, and may shrink or grow
 * meanwhile.
 *
 * Threading  any thread; blocks
 */
#include "common/digest.h"
#include "engine/transfer/transfer.h"

struct copy_limit {
    uint64_t bytes;
    const char *name; /* borrowed: "the setting package_limit" */
};

/* Copies by reading, never by mapping: a mapping of a file that shrinks is a SIGBUS.  KILN_INVALID
 * unless |from_fd| is a regular file that may be read; KILN_FULL beyond |limit|. */
KILN_MUST_CHECK enum kiln_code copy_file(int from_fd, int to_fd, const struct copy_limit *limit,
                                         const struct transfer_sink *sink, struct kiln_err *err);
/* Digest and size of the whole file, from its start. */
KILN_MUST_CHECK enum kiln_code copy_file_digest(int fd, struct digest *ret_digest,
                                                uint64_t *ret_size, struct kiln_err *err);
