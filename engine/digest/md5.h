/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MD5, which MIOpen's kernel databases store for each object. Not used for security.
 *
 * Ownership  struct md5 is a plain value and needs no clean-up
 * Threading  no shared state
 */
#include "common/base/bytes.h"

#define MD5_HEX_SIZE 33 /* size of the hexadecimal text with its terminating NUL */

struct md5 {
    _Alignas(8) unsigned char state[128]; /* the state of nettle, whose size is asserted in md5.c */
};

void md5_init(struct md5 *m);
void md5_put(struct md5 *m, struct bytes part);
/* Ends the computation and writes the digest in lower-case hexadecimal, NUL-terminated. */
void md5_end(struct md5 *m, char hex[MD5_HEX_SIZE]);

/* Writes the digest of |content| in lower-case hexadecimal, NUL-terminated. */
void md5_hex_of(struct bytes content, char hex[MD5_HEX_SIZE]);
