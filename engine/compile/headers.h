/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Names of a source and of its headers.  The names become file names in a compiler's private
 * directory, so a name that could refer outside that directory is rejected.
 *
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "common/protocol/limits.h"

/* Returns whether |name| is a relative path without an empty part, "." or "..", each part of which
 * has only letters, digits and the characters _ . + - . */
bool header_name_is_fine(struct bytes name);

KILN_MUST_CHECK enum kiln_code program_name_check(struct bytes name, struct kiln_err *err);

/* Returns KILN_INVALID unless |records| has exactly |count| records of message_header, at most
 * LIMIT_HEADERS, with valid and distinct names. */
KILN_MUST_CHECK enum kiln_code headers_check(struct bytes records, uint32_t count,
                                             struct kiln_err *err);
