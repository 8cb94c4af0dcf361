/* SPDX-License-Identifier: MIT */
#pragma once

/* Writes incompressible content that depends only on |seed|. */
#include "common/base/random.h"

#include <stddef.h>
#include <stdint.h>

static inline void random_bytes(void *to, size_t size, uint64_t seed)
{
    uint8_t *bytes = to;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(random_next(&seed) >> 56);
}
