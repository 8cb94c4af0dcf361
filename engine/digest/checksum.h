/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Two 64-bit hashes: a fast one against accidental damage, and a keyed one against attackers.
 *
 * Threading  pure functions, except hash_key_draw
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

/* Continues |sum|; begin with 0.  Two texts of one length that differ in only one aligned group
 * of eight bytes never have the same sum; other texts collide with probability 2^-64.  It runs at
 * every look-up, so it reads 8 bytes a step.  Not secure: anybody can construct two texts with
 * one sum. */
uint64_t checksum_put(uint64_t sum, struct bytes part);

struct hash_key {
    uint64_t words[2];
};
/* A random key. */
KILN_MUST_CHECK enum kiln_code hash_key_draw(struct hash_key *ret_key, struct kiln_err *err);
/* SipHash-2-4.  Users choose database keys, so with a hash that they can compute they could put
 * all their keys into one chain of a hash table. */
uint64_t keyed_hash(struct bytes part, const struct hash_key *key);
