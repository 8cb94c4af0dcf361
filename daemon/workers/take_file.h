/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Takes over another user's file without the right to change its owner.
 *
 * Threading  any thread; blocks
 */
#include "common/base/err.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct file_take {    /* the caller sets the members of the first part, and zeroes the others */
    const char *path; /* borrowed, like |stopped| */
    uint64_t size_max;
    const atomic_int *stopped;
    bool is_synced; /* the copy is written to the disk.  The copy of a file that is removed after
                       use is not: syncs of large files would delay those of other users */
    /* The members below are private to take_copy. */
    bool has_begun;
    int from, to; /* owned until the last step */
    /* Bytes that are left to copy; the other user may change the file's size meanwhile. */
    off_t left;
    char own[PATH_MAX];
};

/* Replaces another user's regular file at |path| by a copy that kilnd owns.  The copy shares the
 * file's blocks if the filesystem supports that.  Descriptors that the other user keeps open do not
 * refer to the copy.  One call copies at most 4 MiB; call it again while |ret_more| is true.
 * Returns KILN_IO if it is not a regular file or cannot be copied, and KILN_FULL if it has more
 * than |size_max| bytes.  After |stopped| becomes nonzero, the next call returns KILN_CANCELLED,
 * without a message, and leaves |path| unchanged. */
KILN_MUST_CHECK enum kiln_code take_copy(struct file_take *take, bool *ret_more,
                                         struct kiln_err *err);
