/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Names that come with a source: its own and those of its headers.  They become names of files
 * in a compiler's private directory, so nothing that could leave that directory is let through.
 */
#include "common/bytes.h"
#include "common/err.h"
#include "common/limits.h"

/* |name| is a relative path without '.', '..' or empty parts, of letters, digits and _ . + - */
bool header_name_is_fine(struct bytes name);

/* A program's name: as a header's, without directories.  KILN_INVALID with the name. */
KILN_MUST_CHECK enum kiln_code program_name_check(struct bytes name, struct kiln_err *err);

/* |records| holds exactly |count| message_header, at most LIMIT_HEADERS, each with a fine name
 * that no other has.  KILN_INVALID naming the header. */
KILN_MUST_CHECK enum kiln_code headers_check(struct bytes records, uint32_t count,
                                             struct kiln_err *err);
