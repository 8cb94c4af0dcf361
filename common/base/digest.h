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
#define DIGEST_HEX_SIZE 65

struct digest {
    uint8_t bytes[DIGEST_SIZE];
};

bool digest_equal(const struct digest *a, const struct digest *b);
void digest_to_hex(const struct digest *d, char hex[DIGEST_HEX_SIZE]);
/* Returns false unless |hex| is exactly 64 hexadecimal digits. */
bool digest_from_hex(const char *hex, struct digest *ret_digest);
uint64_t digest_hash(const struct digest *d);
