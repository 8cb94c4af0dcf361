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
#include <stdint.h>
#include <sys/types.h>

struct file_take {    /* the caller fills the first part and zeroes the rest */
    const char *path; /* borrowed, like |stopped| */
    uint64_t size_max;
    const atomic_int *stopped;
    /* The fields below belong to take_copy. */
    bool has_begun;
    int from, to; /* owned until the last step */
    off_t left;   /* bytes to copy; the other user may change the file's size meanwhile */
    char own[PATH_MAX];
};

/* Replaces another user's regular file at |path| by kilnd's own copy, which shares its blocks if
 * the filesystem can.  Descriptors that the other user keeps open do not reach the copy.  One call
 * copies at most 4 MiB: call it again while |ret_more| becomes true.
 * KILN_IO if it is no regular file or cannot be copied.  KILN_FULL if it has more than
 * |size_max| bytes.  KILN_CANCELLED, without a message, in the next step after |stopped| becomes
 * nonzero; |path| is then unchanged. */
KILN_MUST_CHECK enum kiln_code take_copy(struct file_take *take, bool *ret_more,
                                         struct kiln_err *err);
