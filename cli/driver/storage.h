/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The number formats of tensors (KILN_FLOAT32, ...), and random numbers to fill tensors with.
 *
 * Role       loads and stores elements.  Loading is exact.  Storing rounds to nearest with ties to
 *            even, overflows to infinity and keeps NaN.  Shares no code with the kernels
 * Ownership  every array belongs to the caller
 * Threading  pure functions
 */
#include <stddef.h>
#include <stdint.h>

size_t storage_size(uint32_t type);
double storage_load(uint32_t type, const void *data, uint64_t index);
void storage_store(uint32_t type, void *data, uint64_t index, double value);
double storage_round(uint32_t type, double value);
void storage_widen(uint32_t type, const void *data, uint64_t count, double *ret_values);

/* Every product of two values of storage_fill is a multiple of this number. */
#define STORAGE_QUANTUM (1.0 / 256)
/*
 * Fills |data| with random odd multiples of 1/16 between -15/16 and 15/16.  No value is zero, so a
 * missing term always changes the result.  Every type represents these values exactly.  A 32-bit
 * sum of up to about 260 000 products is exact in any order, because each product is a multiple of
 * STORAGE_QUANTUM.  A correct kernel then only rounds once, when it stores the sum.
 */
void storage_fill(uint32_t type, void *data, uint64_t count, uint64_t seed);
