/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Two 64-bit hashes: a fast one against accidental damage, and a keyed one against attackers.
 *
 * Threading  pure functions
 */
#include "common/bytes.h"

/* Continues |sum|; begin with 0.  Two texts of one length that differ in only one aligned group
 * of eight bytes never have the same sum; other texts collide with probability 2^-64.  It runs at
 * every look-up, so it reads 8 bytes a step.  Not secure: anybody can construct two texts with
 * one sum. */
uint64_t checksum_put(uint64_t sum, struct bytes part);

struct hash_key {
    uint64_t words[2];
};
/* SipHash-2-4.  Users choose database keys, so with a hash that they can compute they could put
 * all their keys into one chain of a hash table. */
uint64_t keyed_hash(struct bytes part, const struct hash_key *key);
