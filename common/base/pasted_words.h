/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds texts in which C's preprocessor may put a word together from parts.  A plain search for the
 * word misses such texts.
 *
 * Role       looks for parts of a word such as __TIME__, as in "#define JOIN(a, b) a##b",
 *            "JOIN(__TI, ME__)".  A name in the text is a part if the word contains the name, and
 *            the name has an underscore and at least four characters.  Shorter names do not count,
 *            because ordinary headers have names such as __T.  If the text contains "##", the word
 *            without its outer underscores counts as a part, too
 * Threading  plain values
 */
#include "common/base/bytes.h"

#include <stdbool.h>

/* |words| ends with NULL.  The words must be identifiers. */
bool pasted_words_possible(struct bytes text, const char *const *words);
