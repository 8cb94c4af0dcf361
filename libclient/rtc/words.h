/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Searches a text for words that make a compile depend on the time.
 *
 * Threading  plain values
 */
#include "common/base/bytes.h"

#include <stdbool.h>

/* Looks for __TIME__ and similar macros, and for parts of these names outside comments. */
bool words_have_time(struct bytes text);
