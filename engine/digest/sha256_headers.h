/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The headers of a source as part of a digest: their number, then name and text of each, in the
 * order of the names, so that the order in which they came does not matter.
 *
 * Threading  as sha256
 */
#include "engine/digest/sha256.h"

/* As one field. */
void sha256_put_number(struct sha256 *s, uint32_t value);
/* |records| is |count| x message_header.  False, and nothing put, unless they are whole and at most
 * LIMIT_HEADERS. */
bool sha256_put_headers(struct sha256 *s, struct bytes records, uint32_t count);
