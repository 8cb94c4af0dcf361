/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds words that the preprocessor of C may put together, which a search for the word misses.
 *
 * Role       looks for parts of words, as in "#define JOIN(a, b) a##b", "JOIN(__TI, ME__)". Any
 *            name in the text that is part of a word counts, if the name has an underscore and at
 *            least four characters. If the text contains "##", the word without its outer
 *            underscores counts, too. Shorter names do not count, because ordinary headers have
 *            names such as __T
 * Threading  plain values
 */
#include "common/base/bytes.h"

#include <stdbool.h>

/* |words| ends with NULL.  The words must be identifiers. */
bool pasted_words_possible(struct bytes text, const char *const *words);
