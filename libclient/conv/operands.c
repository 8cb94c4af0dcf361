/* SPDX-License-Identifier: MIT */
#include "libclient/conv/operands.h"

#include "common/base/random.h"

#include <math.h> /* for macros and compiler built-ins only: libkiln does not link libm */
#include <string.h>

#define TABLE_BITS 12u
#define TABLE_SIZE (1u << TABLE_BITS)
/* Every integer below FLOAT_EXACT is exact in 32-bit floating point. */
#define FLOAT_EXACT 0x1p24
#define FLOAT_UNIT 0x1p-24
#define TF32_UNIT 0x1p-11
/* Fewer than one in 10^13 samples of a normal distribution are farther than this many standard
 * deviations from the mean. */
#define DEVIATIONS 8.0

static size_t size_of(enum data_type type) { return type == TYPE_FLOAT32 ? 4 : 2; }

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* |value| must be exact in half precision: 0, or a magnitude from 2^-14 to 1. */
static uint16_t half_bits(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    if ((bits & 0x7fffffffu) == 0)
        return (uint16_t)sign;
    return (uint16_t)(sign | (((bits & 0x7fffffffu) - (112u << 23)) >> 13));
}

static double half_value(uint16_t bits)
{
    uint32_t exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    double sign = bits & 0x8000u ? -1 : 1;
    if (exponent == 31)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * fraction * 0x1p-24;
    return sign * (double)float_of((exponent + 112u) << 23 | fraction << 13);
}

static double load_element(enum data_type type, const void *data, uint64_t index)
{
    uint16_t bits;
    float value;
    if (type == TYPE_FLOAT32) {
        memcpy(&value, (const char *)data + 4 * index, sizeof(value));
        return (double)value;
    }
    memcpy(&bits, (const char *)data + 2 * index, sizeof(bits));
    return type == TYPE_FLOAT16 ? half_value(bits) : (double)float_of((uint32_t)bits << 16);
}

/* |value| must be exact in the type. */
static void store_element(enum data_type type, void *data, uint64_t index, float value)
{
    uint16_t half = type == TYPE_FLOAT16 ? half_bits(value) : (uint16_t)(bits_of(value) >> 16);
    if (type == TYPE_FLOAT32)
        memcpy((char *)data + 4 * index, &value, sizeof(value));
    else
        memcpy((char *)data + 2 * index, &half, sizeof(half));
}

/* Computes the square root of |x|, which must be at least 1, by Newton's method, starting above the
 * root. */
static double square_root(double x)
{
    double r = x, next = (x + 1) / 2;
    while (next < r) {
        r = next;
        next = (r + x / r) / 2;
    }
    return r;
}

static double terms_of(const struct problem *p)
{
    const struct extent out = problem_output(p);
    double taps = (double)p->filter.d * p->filter.h * p->filter.w;
    switch ((enum direction)p->direction) {
    case DIRECTION_FORWARD: return taps * (p->c / p->groups);
    case DIRECTION_BACKWARD_DATA: return taps * (p->k / p->groups);
    case DIRECTION_BACKWARD_WEIGHTS: break;
    }
    return (double)p->n * out.d * out.h * out.w;
}

/*
 * Returns how many bits the operands may have so that 32-bit sums of their products are exact.
 *
 * An operand is odd / 2^bits, with a magnitude below 1.  A product of two is a multiple of 2^(-2
 * bits).  The magnitudes of products are 1/4 on average, with a standard deviation below 1/4.  So
 * all but one in 10^13 sums of n products are below n/4 + 8 sqrt(n)/4.  32-bit floating point is
 * exact up to 2^24 multiples of a power of two, so the sum times 2^(2 bits) must be less than 2^24.
 * Example: for n = 576 (64 channels, 3x3 taps), the sum is below 192.  192 * 2^(2*4) < 2^24, so
 * the operands may have 4 bits, the maximum that is used here.
 */
static unsigned exact_bits(const struct problem *p, bool *ret_is_exact)
{
    double n = terms_of(p);
    double max_sum = (n + DEVIATIONS * square_root(n)) / 4;
    unsigned bits = 4;
    while (bits > 1 && max_sum * (1u << 2 * bits) >= FLOAT_EXACT)
        bits--;
    *ret_is_exact = max_sum * (1u << 2 * bits) < FLOAT_EXACT;
    return bits;
}

static float exact_value(uint64_t random, unsigned bits)
{
    int odd = (int)(random & ((2u << bits) - 2)) + 1 - (1 << bits);
    return (float)odd / (float)(1u << bits);
}

/* Returns a value that uses all significant bits of the type.  The magnitude is between 1/16 and 1,
 * with uniformly distributed exponents. */
static float general_value(uint64_t random, enum data_type type)
{
    uint32_t digits = type == TYPE_FLOAT32 ? 23 : type == TYPE_FLOAT16 ? 10 : 7;
    uint32_t fraction = (uint32_t)(random >> 32 & 0x7fffffu) >> (23 - digits) << (23 - digits);
    uint32_t exponent = 123u + (uint32_t)(random & 3u);
    return float_of((uint32_t)(random >> 2 & 1u) << 31 | exponent << 23 | fraction);
}

static void fill_table(enum operands kind, const struct problem *p, uint64_t *seed, void *table)
{
    bool unused;
    unsigned bits = exact_bits(p, &unused);
    enum data_type type = (enum data_type)p->type;
    for (uint32_t i = 0; i < TABLE_SIZE; i++) {
        uint64_t random = random_next(seed);
        store_element(type, table, i,
                      kind == OPERANDS_EXACT ? exact_value(random, bits)
                                             : general_value(random, type));
    }
}

/* Fills |data| with elements of a table of random values.  To save time, one random number selects
 * five elements. */
void operands_fill(enum operands kind, const struct problem *problem, void *data, uint64_t count,
                   uint64_t seed)
{
    uint32_t table[TABLE_SIZE];
    size_t size = size_of((enum data_type)problem->type);
    uint64_t random = 0;
    fill_table(kind, problem, &seed, table);
    for (uint64_t i = 0; i < count; i++) {
        random = i % 5 ? random >> TABLE_BITS : random_next(&seed);
        memcpy((char *)data + size * i, (char *)table + size * (random % TABLE_SIZE), size);
    }
}

double operands_largest(enum data_type type, const void *data, uint64_t count)
{
    double largest = 0;
    for (uint64_t i = 0; i < count; i++) {
        double value = fabs(load_element(type, data, i));
        largest = value <= largest ? largest : value;
        if (!isfinite(largest))
            return (double)INFINITY;
    }
    return largest;
}

/*
 * Returns how far two correct results may differ.
 *
 * An element is a sum of n products with magnitudes up to |largest|, with at most n roundings. With
 * u = 2^-24, the error of all but one in 10^13 elements is at most 8 sqrt(n) u times the sum of the
 * magnitudes (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019).
 * Rounding both operands to TF32 changes a product by at most the fraction 2 t + t^2, where t =
 * 2^-11.  Winograd's transforms enlarge intermediate numbers up to 23.9 times, for F(3x3, 4x4);
 * cli/driver/rounding.c derives this number.  The bound is doubled because both results are
 * rounded.
 */
struct agreement agreement_of(const struct problem *problem, bool is_winograd, double largest)
{
    bool is_exact;
    double n = terms_of(problem), bound = 0;
    (void)exact_bits(problem, &is_exact);
    if (largest > 0 || !is_exact)
        bound = DEVIATIONS * square_root(n) * FLOAT_UNIT * n * (largest > 0 ? largest : 1);
    if (largest > 0 && problem->allow_tf32)
        bound += 2.001 * TF32_UNIT * n * largest;
    if (is_winograd) {
        double steps = n * M_SQRT1_2 + DEVIATIONS * square_root(n);
        bound += DEVIATIONS * FLOAT_UNIT * 23.9 * steps * (largest > 0 ? largest : 1);
    }
    return (struct agreement){ .type = (enum data_type)problem->type, .bound = 2 * bound };
}

/* Returns the largest error of rounding |value| to the type.  For half precision, 2^-25 is the
 * largest error of a subnormal result. */
static double storage_error(enum data_type type, double value)
{
    switch (type) {
    case TYPE_FLOAT16: return fabs(value) * 0x1p-11 + 0x1p-25;
    case TYPE_BFLOAT16: return fabs(value) * 0x1p-8;
    case TYPE_FLOAT32:
    case TYPE_INT8: break;
    }
    return fabs(value) * FLOAT_UNIT;
}

static bool values_agree(const struct agreement *a, double got, double want)
{
    if (got == want)
        return true;
    double limit = a->bound;
    if (!(limit > 0) || !isfinite(got) || !isfinite(want))
        return false;
    limit += storage_error(a->type, got) + storage_error(a->type, want);
    return fabs(got - want) <= limit;
}

struct disagreement operands_compare(const struct agreement *agreement, const void *got,
                                     const void *want, uint64_t count)
{
    struct disagreement d = { .count = 0 };
    if (memcmp(got, want, count * size_of(agreement->type)) == 0)
        /* |want| contains no poison, because bench_refer rejects reference results with poison. */
        return d;
    for (uint64_t i = 0; i < count; i++) {
        double g = load_element(agreement->type, got, i),
               w = load_element(agreement->type, want, i);
        if (values_agree(agreement, g, w))
            continue;
        if (d.count++ == 0) {
            d.first = i;
            d.got = g;
            d.want = w;
        }
    }
    return d;
}
