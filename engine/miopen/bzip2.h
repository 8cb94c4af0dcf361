/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * bzip2 as MIOpen uses it; the only place that knows libbz2.
 *
 * Threading  any thread, no shared state
 */
#include "common/bytes.h"
#include "common/err.h"

/* One stream of exactly |raw_size| bytes, appended.  KILN_CORRUPT for anything else, trailing bytes
 * included; nothing is appended then.  Takes no more memory than what really comes out. */
KILN_MUST_CHECK enum kiln_code bzip2_unpack(struct bytes stored, uint64_t raw_size,
                                            struct buffer *ret_raw, struct kiln_err *err);
/* Block size 9, work factor 30; |ret_fits| false (and nothing appended) when the result would be
 * longer than |raw|: MIOpen stores such content as it is. */
KILN_MUST_CHECK enum kiln_code bzip2_pack(struct bytes raw, struct buffer *ret_stored,
                                          bool *ret_fits, struct kiln_err *err);
struct bzip2_progress {
    void (*report)(void *context, uint64_t read); /* |read|: compressed bytes so far */
    void *context;
};
/* Unpacks |from_fd| from its current offset to its end into |to_fd|. The file may consist of
 * several streams, as bzip2(1) allows. KILN_FULL: the output exceeds |limit| bytes. KILN_CORRUPT:
 * not a bzip2 file, a truncated one, or one with other bytes after its last stream. |progress| may
 * be NULL. */
KILN_MUST_CHECK enum kiln_code bzip2_unpack_file(int from_fd, int to_fd, uint64_t limit,
                                                 const struct bzip2_progress *progress,
                                                 struct kiln_err *err);
