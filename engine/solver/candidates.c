/* SPDX-License-Identifier: MIT */
#include "engine/solver/candidates.h"

/*
 * The order is a pseudo-random permutation, which needs no memory because candidate n is computed
 * from n.
 *
 * A Feistel network permutes the numbers of b bits, where b is the least number with 2^b >=
 * |count|, the number of points.  The network splits a number into a left and a right half; each
 * round changes one half by a hash of the other.  Every round can be undone, so the permutation is
 * one-to-one. 2^b may exceed |count|.  A result beyond the last point goes through the network
 * again until it is a point ("cycle walking": Black and Rogaway, "Ciphers with Arbitrary Finite
 * Domains", 2002).  Because 2^b < 2 * |count|, a number needs fewer than two passes on average.
 *
 * Example: 6 points need 3 bits.  If the network maps 2 to 7 and 7 to 4, candidate 2 is point 4.
 */
#define ROUNDS 6u
#define SAMPLE_MAX 2048u

static unsigned bits_for(uint32_t count)
{
    unsigned bits = 0;
    while (bits < 32 && (uint64_t)1 << bits < count)
        bits++;
    return bits;
}

static struct candidate_part part_of(const char *solver, const struct perf_space *space,
                                     uint32_t part)
{
    uint32_t count = perf_part_size(space, part);
    unsigned bits = bits_for(count);
    return (struct candidate_part){ .count = count,
                                    .left_bits = bits / 2,
                                    .right_bits = bits - bits / 2,
                                    .seed = bytes_hash(bytes_of_text(solver),
                                                       (uint64_t)part << 32 | count) };
}

static void insert_part(struct candidate_order *order, const struct candidate_part *part)
{
    uint32_t at = order->part_count++;
    for (; at > 0 && order->parts[at - 1].count > part->count; at--)
        order->parts[at] = order->parts[at - 1];
    order->parts[at] = *part;
}

struct candidate_order candidate_order_of(const char *solver, const struct perf_space *space)
{
    struct candidate_order order = { .count = 0 };
    for (uint32_t i = 0; i < perf_space_parts(space); i++) {
        struct candidate_part part = part_of(solver, space, i);
        part.first = order.count;
        order.count += part.count;
        insert_part(&order, &part);
    }
    return order;
}

/* The finaliser of SplitMix64 (Steele, Lea and Flood, 2014). */
static uint64_t mix_bits(uint64_t x)
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

static uint32_t permute_number(const struct candidate_part *p, uint32_t number)
{
    uint32_t right = low_bits(number, p->right_bits);
    uint32_t left = (uint32_t)((uint64_t)number >> p->right_bits);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t key = p->seed + round * 0x9e3779b97f4a7c15ULL;
        if (round % 2)
            left ^= low_bits(mix_bits(key ^ right), p->left_bits);
        else
            right ^= low_bits(mix_bits(key ^ left), p->right_bits);
    }
    return (uint32_t)((uint64_t)left << p->right_bits) | right;
}

/*
 * Returns the part of candidate |index|, and the candidate's number within that part.
 *
 * The parts supply candidates in turn, smallest first, until the smallest has no points left; then
 * the other parts continue.  Parts of 2, 3 and 5 points (a, b, c) give: a0 b0 c0 a1 b1 c1 | b2 c2 |
 * c3 c4.  A "|" ends a block, in which the same parts take turns.  Each pass of the loop skips one
 * block: |done| points of every remaining part are used up, |left| parts remain, and |first| is the
 * smallest of them.
 */
static uint32_t part_at(const struct candidate_order *order, uint32_t index, uint32_t *ret_within)
{
    uint32_t first = 0, done = 0, left = order->part_count;
    while (index / left >= order->parts[first].count - done) {
        index -= (order->parts[first].count - done) * left;
        done = order->parts[first++].count;
        left--;
    }
    *ret_within = done + index / left;
    return first + index % left;
}

uint32_t candidate_point(const struct candidate_order *order, uint32_t index)
{
    uint32_t within;
    const struct candidate_part *part = &order->parts[part_at(order, index, &within)];
    uint32_t point = permute_number(part, within);
    while (point >= part->count)
        point = permute_number(part, point);
    return part->first + point;
}

struct sample {
    uint32_t checked, valid;
};

/* For each part, estimates the number of valid points as the part's size times the valid share of
 * its sample, and adds these estimates up.  Example: 500 of 1000 checked points are valid in a part
 * of 8000 points, and 100 of 1000 in a part of 5000.  The estimate is 4000 + 500. */
static uint64_t estimate_valid(const struct candidate_order *order,
                               const struct sample samples[PERF_PARTS_MAX])
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < order->part_count; i++)
        all += (uint64_t)samples[i].valid * order->parts[i].count / samples[i].checked;
    return all;
}

struct candidate_count candidates_count_valid(const struct solver *solver,
                                              const struct problem *problem,
                                              const struct target *target)
{
    struct perf_space space = solver_space(solver, problem, target);
    struct candidate_order order = candidate_order_of(solver->name, &space);
    struct sample samples[PERF_PARTS_MAX] = { 0 };
    uint32_t checked = order.count < SAMPLE_MAX ? order.count : SAMPLE_MAX, valid = 0;
    for (uint32_t i = 0; i < checked; i++) {
        struct perf_config config;
        uint32_t within;
        struct sample *sample = &samples[part_at(&order, i, &within)];
        perf_space_at(&space, candidate_point(&order, i), &config);
        bool is_valid = solver->config_is_valid(problem, target, &config);
        sample->checked++;
        sample->valid += is_valid;
        valid += is_valid;
    }
    if (checked == order.count)
        return (struct candidate_count){ .valid = valid };
    uint64_t all = estimate_valid(&order, samples);
    return (struct candidate_count){ .valid = all > 0 ? (uint32_t)all : 1, .is_estimate = true };
}
