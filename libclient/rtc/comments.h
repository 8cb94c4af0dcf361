/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Joins the lines and removes the comments of a C or C++ source, as a compiler does.
 *
 * Threading  plain values
 */
#include "common/base/bytes.h"

#include <stdbool.h>

/* Appends |text| without the backslash and the newline at the end of each continued line. */
void comments_join_lines(struct bytes text, struct buffer *to);
/* Appends |text| with its lines joined, and without its comments, each of which becomes a blank.
 * Returns false if it is not certain where a comment begins or ends, as after a raw string. */
bool comments_remove(struct bytes text, struct buffer *to);
