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

int hex_digit(char c);
void hex_write(const uint8_t *bytes, size_t size, char *hex);
/* Returns false, with |bytes| undefined, unless |hex| has exactly 2 * |size| digits. */
bool hex_read(const char *hex, uint8_t *bytes, size_t size);
