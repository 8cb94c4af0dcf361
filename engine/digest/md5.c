/* SPDX-License-Identifier: MIT */
#include "engine/digest/md5.h"

#include <nettle/md5.h>

_Static_assert(MD5_HEX_SIZE == 2 * MD5_DIGEST_SIZE + 1, "two digits a byte and a NUL");

void md5_hex_of(struct bytes content, char hex[MD5_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    struct md5_ctx md5;
    uint8_t digest[MD5_DIGEST_SIZE];
    md5_init(&md5);
    if (content.size)
        md5_update(&md5, content.size, content.data);
    md5_digest(&md5, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[2 * sizeof(digest)] = '\0';
}
