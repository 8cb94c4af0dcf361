/* SPDX-License-Identifier: MIT */
#include "common/base/jitter.h"

#include <sys/random.h>

uint64_t jitter_shorten(uint64_t pause)
{
    uint32_t random = 0;
    uint64_t half = pause / 2;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        random = UINT32_MAX / 2;
    /* |half| * |random| would not fit */
    return pause - (half / UINT32_MAX * random + half % UINT32_MAX * random / UINT32_MAX);
}
