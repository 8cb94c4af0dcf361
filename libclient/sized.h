/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Structs of the public API, which begin with the size that the caller knows (<kiln/error.h>).
 *
 * Role       checks and copies such structs.  A struct smaller than in its first release is
 *            rejected.  Missing members become zero
 * Threading  plain values
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Maximum size of a caller's struct.  No struct of libkiln is larger, so a larger size must be
 * uninitialised memory. */
#define SIZED_MAX 65536u
/* The size that |type| had when |last| was its last member. */
#define SIZED_TO(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

static inline bool sized_is_fine(size_t given, size_t least)
{
    return given >= least && given <= SIZED_MAX;
}

/* Copies |given| bytes of |from| to |to|, which has |size| bytes.  Missing bytes become zero, and
 * surplus bytes are ignored. */
static inline void sized_copy(void *to, size_t size, const void *from, size_t given)
{
    memset(to, 0, size);
    memcpy(to, from, given < size ? given : size);
}

/* Returns element |index| of an array whose structs have |size| bytes each. */
static inline const void *sized_at(const void *first, size_t size, size_t index)
{
    return (const char *)first + size * index;
}
