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

/* The value of a hexadecimal digit, 0 to 15; -1 if |c| is not such a digit. */
int hex_digit(char c);
/* Writes 2 * |size| lower-case digits and a NUL. */
void hex_write(const uint8_t *bytes, size_t size, char *hex);
/* False unless |hex| is exactly 2 * |size| digits; |bytes| is then undefined. */
bool hex_read(const char *hex, uint8_t *bytes, size_t size);
