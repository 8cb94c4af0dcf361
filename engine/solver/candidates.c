/* SPDX-License-Identifier: MIT */
#include "engine/solver/candidates.h"

/* A Feistel network over just enough bits for all points; numbers beyond the last point go through
 * it again until they are one ("cycle walking": under two rounds of it on average, for the bits
 * cover less than twice the points). */
#define ROUNDS 6u
#define SAMPLE_MOST 2048u /* points that are looked at for a count: 0.2 to 1.2 ms, as measured */

static unsigned bits_for(uint32_t count)
{
    unsigned bits = 0;
    while (bits < 32 && (uint64_t)1 << bits < count)
        bits++;
    return bits;
}

struct candidate_order candidate_order_of(const char *solver, const struct perf_space *space)
{
    uint32_t count = perf_space_size(space);
    unsigned bits = bits_for(count);
    return (struct candidate_order){ .count = count,
                                     .left_bits = bits / 2,
                                     .right_bits = bits - bits / 2,
                                     .seed = bytes_hash(bytes_of_text(solver), count) };
}

/* A good mix of 64 bits (the finaliser of SplitMix64). */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static uint32_t low_bits(uint64_t x, unsigned bits)
{
    return (uint32_t)(x & (((uint64_t)1 << bits) - 1));
}

/* One to one among the numbers of left_bits + right_bits bits: each round changes one half by the
 * other alone. */
static uint32_t shuffle(const struct candidate_order *o, uint32_t number)
{
    uint32_t right = low_bits(number, o->right_bits);
    uint32_t left = (uint32_t)((uint64_t)number >> o->right_bits);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t key = o->seed + round * 0x9e3779b97f4a7c15ULL;
        if (round % 2)
            left ^= low_bits(mix(key ^ right), o->left_bits);
        else
            right ^= low_bits(mix(key ^ left), o->right_bits);
    }
    return (uint32_t)((uint64_t)left << o->right_bits) | right;
}

uint32_t candidate_point(const struct candidate_order *order, uint32_t index)
{
    uint32_t point = shuffle(order, index);
    while (point >= order->count)
        point = shuffle(order, point);
    return point;
}

struct candidate_count candidates_count_valid(const struct solver *solver,
                                              const struct problem *problem,
                                              const struct target *target)
{
    struct perf_space space = solver_space(solver, problem, target);
    struct candidate_order order = candidate_order_of(solver->name, &space);
    uint32_t looked_at = order.count < SAMPLE_MOST ? order.count : SAMPLE_MOST, valid = 0;
    for (uint32_t i = 0; i < looked_at; i++) {
        struct perf_config config;
        perf_space_at(&space, candidate_point(&order, i), &config);
        valid += solver->config_is_valid(problem, target, &config);
    }
    if (looked_at == order.count)
        return (struct candidate_count){ .valid = valid };
    uint32_t estimate = (uint32_t)((uint64_t)valid * order.count / looked_at);
    return (struct candidate_count){ .valid = estimate > 0 ? estimate : 1, .is_estimate = true };
}
