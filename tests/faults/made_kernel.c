/* SPDX-License-Identifier: MIT */
#include "tests/faults/made_kernel.h"

#include <stdio.h>
#include <string.h>

#define WORDS "made kernel "
#define ENDLESS " without end"
#define SMALL 3000u
#define LARGE 20000u /* in bytes; above 16 KiB, the limit for objects in replies */

void made_source(unsigned number, char text[64]) { snprintf(text, 64, WORDS "%u", number); }

void made_endless_source(unsigned number, char text[64])
{
    snprintf(text, 64, WORDS "%u" ENDLESS, number);
}

bool made_is_endless(struct bytes source)
{
    size_t size = strlen(ENDLESS);
    return source.size > size && memcmp(source.data + source.size - size, ENDLESS, size) == 0;
}

bool made_number(struct bytes source, unsigned *ret_number)
{
    char text[64];
    if (source.size >= sizeof(text))
        return false;
    memcpy(text, source.data, source.size);
    text[source.size] = '\0';
    return sscanf(text, WORDS "%u", ret_number) == 1;
}

size_t made_size(unsigned number) { return (number % 2 ? SMALL : LARGE) + number % 97; }

uint8_t made_byte(unsigned number, size_t at)
{
    uint64_t x = (number + 1) * UINT64_C(0x9e3779b97f4a7c15) + at * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint8_t)((x ^ x >> 29) >> 13);
}
