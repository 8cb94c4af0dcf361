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

/* Unpacks one stream piece by piece. */
struct bzip2_reader;
/* Opens a reader. The caller must keep the bytes of |stored| until it destroys the reader. */
KILN_MUST_CHECK enum kiln_code bzip2_reader_open(struct bytes stored,
                                                 struct bzip2_reader **ret_reader,
                                                 struct kiln_err *err);
/* Unpacks at most 64 KiB of the stream into |into|. Even before the end of the stream, |ret_got|
 * may be less than |size|, and may be 0. Returns KILN_CORRUPT if the stream is damaged or ends too
 * early, or if other bytes follow it. */
KILN_MUST_CHECK enum kiln_code bzip2_read(struct bzip2_reader *reader, void *into, size_t size,
                                          size_t *ret_got, struct kiln_err *err);
/* Returns whether the whole stream was read. */
bool bzip2_reader_is_over(const struct bzip2_reader *reader);
void bzip2_reader_destroy(struct bzip2_reader *reader);
KILN_DEFINE_AUTO(bzip2_reader)

/* Packs content piece by piece with block size 9 and work factor 30, as MIOpen does. The result
 * does not depend on how the content is divided into pieces. */
struct bzip2_packer;
/* Opens a packer. |size| is the size of the whole content in bytes. */
KILN_MUST_CHECK enum kiln_code bzip2_packer_open(size_t size, struct bzip2_packer **ret_packer,
                                                 struct kiln_err *err);
/* Packs the next piece. libbz2 collects 900 KB and then packs them in one call, which takes up to a
 * second for maliciously chosen content. Shorter pieces do not change that. */
KILN_MUST_CHECK enum kiln_code bzip2_packer_put(struct bzip2_packer *packer, struct bytes piece,
                                                struct kiln_err *err);
/* Ends the stream; call it once, after the last piece. |ret_stored| belongs to the packer.
 * |ret_fits| is false if the result would be longer than the content; MIOpen stores such content
 * uncompressed. */
KILN_MUST_CHECK enum kiln_code bzip2_packer_finish(struct bzip2_packer *packer,
                                                   struct bytes *ret_stored, bool *ret_fits,
                                                   struct kiln_err *err);
void bzip2_packer_destroy(struct bzip2_packer *packer);
KILN_DEFINE_AUTO(bzip2_packer)

struct bzip2_progress {
    /* |read| is the number of compressed bytes that were read so far */
    void (*report)(void *context, uint64_t read);
    void *context;
};
/* Unpacks |from_fd| from its current offset to its end into |to_fd|. The file may consist of
 * several streams, as bzip2(1) allows. Returns KILN_FULL if the output exceeds |limit| bytes.
 * Returns KILN_CORRUPT if |from_fd| is not a bzip2 file, is truncated, or has other bytes after its
 * last stream. |progress| may be NULL. */
KILN_MUST_CHECK enum kiln_code bzip2_unpack_file(int from_fd, int to_fd, uint64_t limit,
                                                 const struct bzip2_progress *progress,
                                                 struct kiln_err *err);

/* Returns whether the file begins like a bzip2 file, whatever its name is. */
bool bzip2_is_packed(int fd);
/* Computes the size and SHA-256 of the unpacked content of the bzip2 file |fd|. */
KILN_MUST_CHECK enum kiln_code bzip2_digest_file(int fd, struct digest *ret_sha256,
                                                 uint64_t *ret_size, struct kiln_err *err);
