/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A histogram of durations, whose buckets end at powers of two in nanoseconds.
 *
 * Role       integers only, no lock, a fixed size; observing takes a few instructions
 * Threading  one thread
 *
 * Bucket i counts durations of more than 2^(i-1) ns and at most 2^i ns; the last bucket counts all
 * longer ones.
 */
#include <stdint.h>

#define HISTOGRAM_BUCKETS 44 /* the last bucket but one ends at 2^42 ns (73 minutes) */

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t sum_ns;
};

static inline unsigned histogram_bucket(uint64_t ns)
{
    unsigned i = ns <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(ns - 1);
    return i < HISTOGRAM_BUCKETS ? i : HISTOGRAM_BUCKETS - 1;
}

static inline void histogram_observe(struct histogram *h, uint64_t ns, uint64_t times)
{
    h->counts[histogram_bucket(ns)] += times;
    h->sum_ns += ns * times;
}

static inline uint64_t histogram_at_most(const struct histogram *h, unsigned exponent)
{
    uint64_t count = 0;
    for (unsigned i = 0; i <= exponent && i < HISTOGRAM_BUCKETS; i++)
        count += h->counts[i];
    return count;
}

static inline uint64_t histogram_count(const struct histogram *h)
{
    return histogram_at_most(h, HISTOGRAM_BUCKETS);
}
