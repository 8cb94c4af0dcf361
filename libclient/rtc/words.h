/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Searches a header for words that make a compile depend on more than its inputs.
 *
 * Threading  plain values
 */
#include "common/base/bytes.h"

#include <stdbool.h>

/* Returns whether |header| contains __DATE__, __TIME__ or __TIMESTAMP__. */
bool words_have_time(struct bytes header);
/* Returns whether |source| may use a macro of |header| that contains __FILE__, so that the result
 * depends on the name of the program that is made from |source|. */
bool words_expand_name(struct bytes header, const char *source);
