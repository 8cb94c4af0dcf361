/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Searches a header for words that make a compile depend on more than its inputs.
 *
 * Threading  plain values
 */
#include "common/base/bytes.h"

#include <stdbool.h>

/* Looks for __TIME__ and similar macros, and for parts of these names outside comments. */
bool words_have_time(struct bytes text);
/* Looks for __FILE__ and other words that stand for a file's name. */
bool words_have_name(struct bytes header);
/* Returns whether |source| uses a macro of |header|.  The result of such a compile may depend on
 * the program's name, if |header| has the word __FILE__. */
bool words_expand_name(struct bytes header, const char *source);
