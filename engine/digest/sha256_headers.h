/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Adds the headers of a source to a digest: their number, then the name and text of each, sorted by
 * name. So the order of the headers in the request does not matter.
 *
 * Threading  see engine/digest/sha256.h
 */
#include "engine/digest/sha256.h"

void sha256_put_number(struct sha256 *s, uint32_t value);
/* Adds the headers in |records|, which contains |count| structs message_header. Returns false, and
 * adds nothing, if the records are incomplete or more than LIMIT_HEADERS. */
bool sha256_put_headers(struct sha256 *s, struct bytes records, uint32_t count);
