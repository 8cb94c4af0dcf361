/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MD5, which MIOpen's kernel databases store for each object. Not used for security.
 *
 * Ownership  struct md5 is a plain value and needs no clean-up
 * Threading  no shared state
 */
#include "common/base/bytes.h"

#define MD5_HEX_SIZE 33

struct md5 {
    _Alignas(8) unsigned char state[128]; /* the size is asserted in md5.c */
};

void md5_init(struct md5 *m);
void md5_put(struct md5 *m, struct bytes part);
void md5_end(struct md5 *m, char hex[MD5_HEX_SIZE]);

void md5_hex_of(struct bytes content, char hex[MD5_HEX_SIZE]);
