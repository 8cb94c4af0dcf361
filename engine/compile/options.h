/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compile options: an allow-list, and a canonical order.
 *
 * Allowed: -D -U (macro names must be identifiers), -O0..-O3, -Os, -std=, and by name:
 * floating-point, vectorising, target and -cl-* mathematics switches.  Everything else, especially
 * -I and -include, is refused by name.
 *
 * Canonical: one blank between options.  -D and -U come first, sorted by macro name, with only the
 * last of each name.  The others follow in their given order, without exact repeats.  So equivalent
 * texts give the same key.
 *
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

/* KILN_DENIED, with the refused option in the message;  KILN_INVALID when the text is too long
 * or has control characters.  Appends to |ret_canonical|. */
KILN_MUST_CHECK enum kiln_code options_canonicalise(struct bytes text, struct buffer *ret_canonical,
                                                    struct kiln_err *err);
