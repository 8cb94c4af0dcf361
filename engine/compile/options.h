/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compile options: an allow-list, and a canonical order.
 *
 * Allowed: -D -U (macro names must be identifiers), -O0..-O3, -Os, -std=, and a list of switches
 * for floating point, vectorisation, the target and OpenCL's mathematics (-cl-*).
 *
 * In the canonical form, one blank separates options. -D and -U come first, sorted by macro name;
 * of several with the same name, only the last one remains. The other options follow in the order
 * in which they were given, without repetitions. So texts with the same meaning give the same key.
 *
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

/* Returns KILN_DENIED if an option, such as -I, is not allowed; the message names the option.
 * Returns KILN_INVALID if the text is too long or has control characters. */
KILN_MUST_CHECK enum kiln_code options_canonicalise(struct bytes text, struct buffer *ret_canonical,
                                                    struct kiln_err *err);
