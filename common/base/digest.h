/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A SHA-256 value: the key of a kernel, or the hash of some bytes.  engine/digest/sha256.h computes
 * such values.
 *
 * Threading  plain values
 */
#include "common/base/bytes.h"

#define DIGEST_SIZE 32
#define DIGEST_HEX_SIZE 65 /* size of the hexadecimal text with its terminating NUL */

struct digest {
    uint8_t bytes[DIGEST_SIZE];
};

bool digest_equal(const struct digest *a, const struct digest *b);
/* Writes the digest in lower-case hexadecimal, NUL-terminated. */
void digest_to_hex(const struct digest *d, char hex[DIGEST_HEX_SIZE]);
/* Parses a digest.  Returns false unless |hex| is exactly 64 hexadecimal digits. */
bool digest_from_hex(const char *hex, struct digest *ret_digest);
/* Returns a hash for hash tables: the first eight bytes, because digests are already uniformly
 * distributed. */
uint64_t digest_hash(const struct digest *d);
