/* SPDX-License-Identifier: MIT */
#include "common/base/digest.h"

#include "common/base/hex.h"

#include <string.h>

bool digest_equal(const struct digest *a, const struct digest *b)
{
    return memcmp(a->bytes, b->bytes, DIGEST_SIZE) == 0;
}

void digest_to_hex(const struct digest *d, char hex[DIGEST_HEX_SIZE])
{
    hex_write(d->bytes, DIGEST_SIZE, hex);
}

bool digest_from_hex(const char *hex, struct digest *ret_digest)
{
    struct digest d;
    if (!hex_read(hex, d.bytes, DIGEST_SIZE))
        return false;
    *ret_digest = d;
    return true;
}

uint64_t digest_hash(const struct digest *d)
{
    uint64_t hash;
    memcpy(&hash, d->bytes, sizeof(hash));
    return hash;
}
