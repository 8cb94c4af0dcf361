/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Arrays that grow.
 *
 * Ownership  the caller owns and frees the array
 * Threading  plain values; the owner of the array synchronises access
 *
 *     struct word *words = NULL;
 *     size_t count = 0, capacity = 0;
 *     if (!ARRAY_RESERVE(words, count, capacity, 16))
 *         return false;
 *     words[count++] = word;
 */
#include <stdlib.h>

/* Makes space for element |count| of |array|, which has space for |capacity| elements.  An empty
 * array gets space for |first|.  Evaluates to false, with nothing changed, if out of memory. */
#define ARRAY_RESERVE(array, count, capacity, first)                                 \
    __extension__({                                                                  \
        if ((count) >= (capacity)) {                                                 \
            __typeof__(capacity) more_ = (capacity) ? 2 * (capacity) : (first);      \
            __typeof__(array) grown_ = reallocarray(array, more_, sizeof(*(array))); \
            if (grown_) {                                                            \
                (array) = grown_;                                                    \
                (capacity) = more_;                                                  \
            }                                                                        \
        }                                                                            \
        (count) < (capacity);                                                        \
    })
