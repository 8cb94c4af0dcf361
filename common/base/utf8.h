/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Characters of UTF-8 (RFC 3629) in NUL-terminated texts.
 *
 * A terminal would obey control characters in names and messages, so kiln finds and escapes them:
 * C0 (below 0x20), DEL, and C1 (U+0080 to U+009F).  For example, U+009B begins a terminal command.
 *
 * Threading  pure functions
 */
#include <stdbool.h>
#include <stddef.h>

/* Returns the size in bytes of the character at |at|, or 0 if the bytes are not valid UTF-8.
 * Overlong forms, surrogates and values above U+10FFFF are not valid. */
static inline size_t utf8_size(const unsigned char *at)
{
    size_t size = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80) /* also true for the terminating NUL */
            return 0;
    }
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool no_scalar = (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf4 && at[1] >= 0x90);
    return overlong || no_scalar || at[0] > 0xf4 ? 0 : size;
}

/* Returns 0 if |at| is no control character. */
static inline unsigned utf8_control(const unsigned char *at)
{
    if (at[0] < 0x20 || at[0] == 0x7f)
        return at[0];
    return at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0 ? at[1] : 0;
}
