/* SPDX-License-Identifier: MIT */
#pragma once

/* MD5, because MIOpen's kernel databases name their objects by it; no security rests on it. */
#include "common/bytes.h"

#define MD5_HEX_SIZE 33 /* with the terminating NUL */

/* Lower-case hexadecimal, terminated. */
void md5_hex_of(struct bytes content, char hex[MD5_HEX_SIZE]);
