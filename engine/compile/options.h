/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compile options: an allow-list, and a canonical order.
 *
 * Allowed: -D -U (no macro may hold a path-like #include trick: names are identifiers), -O0..-O3,
 * -Os, -std=, floating-point and vectorising switches by name, target switches by name, -cl-*
 * mathematics switches.  Everything else, -I and -include first of all, is refused by name.
 *
 * Canonical: one blank between options; -D/-U sorted by macro name with the last of each name
 * kept, the others after them in the order given with exact repeats dropped.  Two texts that mean
 * the same therefore make the same key.
 */
#include "common/bytes.h"
#include "common/err.h"

/* KILN_DENIED with the refused option in the sentence; KILN_INVALID when the text is too long
 * or holds control characters.  Appends to |ret_canonical|. */
KILN_MUST_CHECK enum kiln_code options_canonicalise(struct bytes text, struct buffer *ret_canonical,
                                                    struct kiln_err *err);
