/* SPDX-License-Identifier: MIT */
#include "cli/driver/storage.h"

#include "common/base/random.h"

#include <kiln/problem.h>

#include <math.h>
#include <string.h>

size_t storage_size(uint32_t type) { return type == KILN_FLOAT32 ? 4 : 2; }

static double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double sign = bits >> 15 ? -1 : 1;
    if (exponent == 31)
        return fraction ? (double)NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * fraction * 0x1p-24;
    return sign * ldexp(1024 + fraction, exponent - 25);
}

/* |value| must come from storage_round(). */
static uint16_t half_bits(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    value = fabs(value);
    if (isnan(value))
        return sign | 0x7e00;
    if (isinf(value))
        return sign | 0x7c00;
    if (value < 0x1p-14)
        return sign | (uint16_t)(value * 0x1p24);
    int exponent = ilogb(value);
    return sign | (uint16_t)((exponent + 15) << 10) |
           (uint16_t)(ldexp(value, 10 - exponent) - 1024);
}

double storage_load(uint32_t type, const void *data, uint64_t index)
{
    uint16_t bits;
    uint32_t wide;
    float value;
    if (type == KILN_FLOAT32) {
        memcpy(&value, (const char *)data + 4 * index, sizeof(value));
        return (double)value;
    }
    memcpy(&bits, (const char *)data + 2 * index, sizeof(bits));
    if (type == KILN_FLOAT16)
        return half_value(bits);
    wide = (uint32_t)bits << 16;
    memcpy(&value, &wide, sizeof(value));
    return (double)value;
}

/* Rounds |value| to |digits| significant binary digits.  Values below 2^lowest (subnormals) keep
 * fewer digits.  Ties go to even. */
static double round_digits(double value, int digits, int lowest, double largest)
{
    if (value == 0 || !isfinite(value))
        return value;
    int exponent = ilogb(value) > lowest ? ilogb(value) : lowest;
    double rounded = ldexp(rint(ldexp(value, digits - 1 - exponent)), exponent - digits + 1);
    return fabs(rounded) > largest ? copysign(INFINITY, value) : rounded;
}

double storage_round(uint32_t type, double value)
{
    switch (type) {
    case KILN_FLOAT16: return round_digits(value, 11, -14, 65504);
    case KILN_BFLOAT16: return round_digits(value, 8, -126, 0x1.fep127);
    default: return (double)(float)value;
    }
}

void storage_store(uint32_t type, void *data, uint64_t index, double value)
{
    value = storage_round(type, value);
    float single = (float)value;
    uint32_t wide;
    if (type == KILN_FLOAT32) {
        memcpy((char *)data + 4 * index, &single, sizeof(single));
        return;
    }
    memcpy(&wide, &single, sizeof(wide));
    uint16_t bits = type == KILN_FLOAT16 ? half_bits(value) : (uint16_t)(wide >> 16);
    memcpy((char *)data + 2 * index, &bits, sizeof(bits));
}

void storage_widen(uint32_t type, const void *data, uint64_t count, double *ret_values)
{
    for (uint64_t i = 0; i < count; i++)
        ret_values[i] = storage_load(type, data, i);
}

void storage_fill(uint32_t type, void *data, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++) {
        int odd = (int)(random_next(&seed) >> 60) * 2 - 15;
        storage_store(type, data, i, odd / 16.0);
    }
}
