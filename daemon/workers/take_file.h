/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Takes over another user's file without the right to change its owner.
 *
 * Threading  any thread; blocks
 */
#include "common/base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct file_take {         /* the caller sets the members up to |is_synced| and zeroes the rest */
    const char *from, *to; /* borrowed, like |stopped| */
    uint64_t size_max;
    const atomic_int *stopped;
    /* False for a file that kilnd removes after use: syncing large files delays the syncs of other
     * users. */
    bool is_synced;
    uint64_t size;
    /* The rest is private to take_copy. */
    bool has_begun;
    int from_fd, to_fd;
    /* Bytes still to copy, from the file's size at the beginning; the other user may change the
     * size meanwhile. */
    off_t left;
};

/* Copies another user's regular file |from| to the new file |to|, which kilnd owns.  So the other
 * user cannot change the copy with a descriptor that they keep open.  The copy is not renamed to
 * |from|: when a file replaces another one, ext4 begins to write all of the new file to the disk.
 * One call copies at most 4 MiB; call it again while |ret_more| is true.  Returns KILN_IO if |from|
 * is not a regular file or cannot be copied, and KILN_FULL if it has more than |size_max| bytes.
 * After |stopped| becomes nonzero, the next call returns KILN_CANCELLED, without a message.  If a
 * call fails, the copy is removed. */
KILN_MUST_CHECK enum kiln_code take_copy(struct file_take *take, bool *ret_more,
                                         struct kiln_err *err);
