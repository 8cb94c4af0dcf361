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

/* For each character, the value of the digit plus one; 0 if it is not a digit. */
static const uint8_t hex_values[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

bool digest_from_hex(const char *hex, struct digest *ret_digest)
{
    struct digest d;
    if (strlen(hex) != DIGEST_HEX_SIZE - 1)
        return false;
    for (size_t i = 0; i < DIGEST_SIZE; i++) {
        uint8_t high = hex_values[(uint8_t)hex[2 * i]];
        uint8_t low = hex_values[(uint8_t)hex[2 * i + 1]];
        if (!high || !low)
            return false;
        d.bytes[i] = (uint8_t)((high - 1) << 4 | (low - 1));
    }
    *ret_digest = d;
    return true;
}

uint64_t digest_hash(const struct digest *d)
{
    uint64_t hash;
    memcpy(&hash, d->bytes, sizeof(hash));
    return hash;
}
