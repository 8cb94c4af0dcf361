/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Two 64-bit hashes: a fast one against accidental damage, and a keyed one against attackers.
 *
 * Threading  pure functions, except hash_key_draw
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

/* Adds |part| to the checksum |sum|, which is 0 at the beginning. Two inputs of the same length
 * that differ in only one aligned group of eight bytes never have the same sum. Other pairs of
 * inputs have the same sum with probability 2^-64. The checksum is not secure: anybody can
 * construct two inputs with the same sum. */
uint64_t checksum_put(uint64_t sum, struct bytes part);

struct hash_key {
    uint64_t words[2];
};
KILN_MUST_CHECK enum kiln_code hash_key_draw(struct hash_key *ret_key, struct kiln_err *err);
/* SipHash-2-4, a hash with a secret key. Users choose the keys of database records: without the
 * secret, they could compute the hash, and put all their records into one chain of a hash table. */
uint64_t keyed_hash(struct bytes part, const struct hash_key *key);
