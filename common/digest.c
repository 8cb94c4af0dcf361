/* SPDX-License-Identifier: MIT */
#include "common/digest.h"

#include <string.h>

bool digest_equal(const struct digest *a, const struct digest *b)
{
    return memcmp(a->bytes, b->bytes, DIGEST_SIZE) == 0;
}

void digest_to_hex(const struct digest *d, char hex[DIGEST_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < DIGEST_SIZE; i++) {
        hex[2 * i] = digits[d->bytes[i] >> 4];
        hex[2 * i + 1] = digits[d->bytes[i] & 15];
    }
    hex[DIGEST_HEX_SIZE - 1] = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool digest_from_hex(const char *hex, struct digest *ret_digest)
{
    struct digest d;
    if (strlen(hex) != DIGEST_HEX_SIZE - 1)
        return false;
    for (size_t i = 0; i < DIGEST_SIZE; i++) {
        int high = hex_value(hex[2 * i]);
        int low = hex_value(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        d.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *ret_digest = d;
    return true;
}

uint64_t digest_hash(const struct digest *d)
{
    struct reader r = reader_of(bytes_of(d->bytes, sizeof(d->bytes)));
    return reader_u64(&r);
}
