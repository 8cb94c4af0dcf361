/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Two 64-bit numbers of some bytes: one against damage, one against people.
 *
 * Threading  pure functions
 */
#include "common/bytes.h"

/* Continues |sum| (begin with 0).  Never the same for two texts of one length that differ in one
 * aligned group of eight bytes; otherwise with one chance in 2^64.  Reads 8 bytes a step: it is
 * computed at each look-up.  Anybody can make two texts of one sum. */
uint64_t checksum_put(uint64_t sum, struct bytes part);

struct hash_key {
    uint64_t words[2];
};
/* SipHash-2-4: keys of databases are written by anybody, who could fill one chain of a hash table
 * whose hash he can compute. */
uint64_t keyed_hash(struct bytes part, const struct hash_key *key);
