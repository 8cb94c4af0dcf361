/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * bzip2 as MIOpen uses it. Only this module includes libbz2.
 *
 * Ownership  the caller owns readers and packers; a reader borrows its stream
 * Threading  any thread; there is no shared state
 */
#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/err.h"

struct bzip2_reader;
KILN_MUST_CHECK enum kiln_code bzip2_reader_open(struct bytes stored,
                                                 struct bzip2_reader **ret_reader,
                                                 struct kiln_err *err);
/* Reads at most 64 KiB of the stream and stores at most |size| bytes. |ret_got| may be less than
 * |size|, even 0, before the end of the stream. Returns KILN_CORRUPT if the stream is damaged, ends
 * too early or is followed by other bytes. */
KILN_MUST_CHECK enum kiln_code bzip2_read(struct bzip2_reader *reader, void *into, size_t size,
                                          size_t *ret_got, struct kiln_err *err);
bool bzip2_reader_is_over(const struct bzip2_reader *reader);
void bzip2_reader_destroy(struct bzip2_reader *reader);
KILN_DEFINE_AUTO(bzip2_reader)

/* Packs with block size 9 and work factor 30, as MIOpen does.  The result does not depend on how
 * the content is divided into pieces. */
struct bzip2_packer;
KILN_MUST_CHECK enum kiln_code bzip2_packer_open(size_t size, struct bzip2_packer **ret_packer,
                                                 struct kiln_err *err);
/* Adds a piece of the content. libbz2 collects input until it has a block of 900 KB, then
 * compresses the whole block in one call, even if the last piece is short.  For maliciously chosen
 * content, such a call takes up to a second. */
KILN_MUST_CHECK enum kiln_code bzip2_packer_put(struct bzip2_packer *packer, struct bytes piece,
                                                struct kiln_err *err);
/* Ends the stream; call it once, after the last piece.  |ret_stored| belongs to the packer.
 * |ret_fits| is false if the result would be longer than the content; MIOpen stores such content
 * uncompressed. */
KILN_MUST_CHECK enum kiln_code bzip2_packer_finish(struct bzip2_packer *packer,
                                                   struct bytes *ret_stored, bool *ret_fits,
                                                   struct kiln_err *err);
void bzip2_packer_destroy(struct bzip2_packer *packer);
KILN_DEFINE_AUTO(bzip2_packer)

struct bzip2_progress {
    void (*report)(void *context, uint64_t read);
    void *context;
};
/* Unpacks |from_fd| from its current offset.  The file may consist of several streams, as bzip2(1)
 * allows.  Returns KILN_FULL if the output exceeds |limit| bytes.  Returns KILN_CORRUPT if
 * |from_fd| is not a bzip2 file, is truncated, or has other bytes after its last stream.
 * |progress| may be NULL. */
KILN_MUST_CHECK enum kiln_code bzip2_unpack_file(int from_fd, int to_fd, uint64_t limit,
                                                 const struct bzip2_progress *progress,
                                                 struct kiln_err *err);

bool bzip2_is_packed(int fd);
KILN_MUST_CHECK enum kiln_code bzip2_digest_file(int fd, struct digest *ret_sha256,
                                                 uint64_t *ret_size, struct kiln_err *err);
