/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Names of a source and of its headers.  They become file names in a compiler's private directory,
 * so names that could refer outside that directory are rejected.
 *
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "common/protocol/limits.h"

/* Returns whether |name| is a relative path without '.', '..' or empty parts, and has only letters,
 * digits and _ . + - in each part. */
bool header_name_is_fine(struct bytes name);

/* Checks a program's name, which must be a valid header name without directories.  Returns
 * KILN_INVALID if it is not; the message has the name. */
KILN_MUST_CHECK enum kiln_code program_name_check(struct bytes name, struct kiln_err *err);

/* Checks that |records| has exactly |count| records of message_header, at most LIMIT_HEADERS, with
 * valid and distinct names.  Returns KILN_INVALID otherwise; the message names the header. */
KILN_MUST_CHECK enum kiln_code headers_check(struct bytes records, uint32_t count,
                                             struct kiln_err *err);
