/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Numbers as tensors hold them (KILN_FLOAT32, ...), and random ones to fill tensors with.
 *
 * Role       loads are exact; stores round to nearest, ties to even, overflow to infinity and keep
 *            NaN.  Shares no code with the kernels
 * Ownership  every array is the caller's
 * Threading  pure functions
 */
#include <stddef.h>
#include <stdint.h>

size_t storage_size(uint32_t type); /* bytes of an element */
double storage_load(uint32_t type, const void *data, uint64_t index);
void storage_store(uint32_t type, void *data, uint64_t index, double value);
/* |value| as the type can hold it. */
double storage_round(uint32_t type, double value);
void storage_widen(uint32_t type, const void *data, uint64_t count, double *ret_values);

/*
 * Random data made to find faults: odd multiples of 1/16 between -15/16 and 15/16.  None is zero,
 * so that no term may be missing; every type holds them; and each product is a multiple of
 * STORAGE_QUANTUM, so that a 32-bit sum is exact in any order up to some 260 000 terms
 * and a correct kernel's result is the correctly rounded one, to the last bit.
 */
#define STORAGE_QUANTUM (1.0 / 256)
void storage_fill(uint32_t type, void *data, uint64_t count, uint64_t seed);
