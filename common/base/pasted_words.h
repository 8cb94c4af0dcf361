/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds words that the preprocessor of C may put together, which a search for the word misses.
 *
 * Role       looks for parts of words, as in "#define JOIN(a, b) a##b", "JOIN(__TI, ME__)".  Finds
 *            parts of at least four characters that contain an underscore, and the word without its
 *            outer underscores if the text also has "##".  Smaller parts are not found, because
 *            ordinary headers have names such as __T
 * Threading  plain values
 */
#include "common/base/bytes.h"

#include <stdbool.h>

/* |words| ends with NULL.  The words must be identifiers. */
bool pasted_words_possible(struct bytes text, const char *const *words);
