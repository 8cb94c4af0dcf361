/* SPDX-License-Identifier: MIT */
#include "engine/digest/sha256_headers.h"

#include "common/protocol/limits.h"
#include "common/protocol/messages.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *left, const void *right)
{
    struct bytes a = ((const struct message_header *)left)->name;
    struct bytes b = ((const struct message_header *)right)->name;
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common ? memcmp(a.data, b.data, common) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

void sha256_put_number(struct sha256 *s, uint32_t value)
{
    uint8_t raw[4];
    for (size_t i = 0; i < sizeof(raw); i++)
        raw[i] = (uint8_t)(value >> (8 * i));
    sha256_put_sized(s, bytes_of(raw, sizeof(raw)));
}

bool sha256_put_headers(struct sha256 *s, struct bytes records, uint32_t count)
{
    struct message_header headers[LIMIT_HEADERS];
    struct reader r = reader_of(records);
    for (uint32_t i = 0; i < count && i < LIMIT_HEADERS; i++)
        headers[i] = message_header_read(&r);
    if (r.failed || reader_left(&r) || count > LIMIT_HEADERS)
        return false;
    qsort(headers, count, sizeof(headers[0]), by_name);
    sha256_put_number(s, count);
    for (uint32_t i = 0; i < count; i++) {
        sha256_put_sized(s, headers[i].name);
        sha256_put_sized(s, headers[i].text);
    }
    return true;
}
