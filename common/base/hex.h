/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Hexadecimal digits of bytes.
 *
 * Threading  pure functions
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the value of a hexadecimal digit, 0 to 15, or -1 if |c| is another character. */
int hex_digit(char c);
/* Writes 2 * |size| lower-case digits and a NUL to |hex|. */
void hex_write(const uint8_t *bytes, size_t size, char *hex);
/* Reads digits.  Returns false, with |bytes| undefined, unless |hex| has exactly 2 * |size|
 * digits. */
bool hex_read(const char *hex, uint8_t *bytes, size_t size);
