/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Removes the comments of a C or C++ source.
 *
 * Threading  plain values
 */
#include "common/base/bytes.h"

#include <stdbool.h>

/* Appends |text| without its comments, each of which becomes a blank.  Returns false if it is not
 * certain where a comment begins or ends, as after a raw string. */
bool comments_remove(struct bytes text, struct buffer *to);
