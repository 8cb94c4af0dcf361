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
/* From where |from_fd| stands to its end: several streams in a row, as bzip2(1) allows, at most
 * |limit| bytes of output (KILN_FULL).  KILN_CORRUPT when it is none, ends early or something else
 * follows.  |progress| (may be NULL) is called now and then with the bytes read so far. */
KILN_MUST_CHECK enum kiln_code bzip2_unpack_file(int from_fd, int to_fd, uint64_t limit,
                                                 void (*progress)(void *context, uint64_t read),
                                                 void *context, struct kiln_err *err);
