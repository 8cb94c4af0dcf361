/* SPDX-License-Identifier: MIT */
#pragma once

/* MD5, which MIOpen's kernel databases store for each object. Not used for security. */
#include "common/bytes.h"

#define MD5_HEX_SIZE 33 /* with the terminating NUL */

/* Lower-case hexadecimal, terminated. */
void md5_hex_of(struct bytes content, char hex[MD5_HEX_SIZE]);
