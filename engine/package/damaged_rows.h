/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Rows of one package that are no good, by what was asked for: so that none is unpacked again and
 * again.  They failed their check, or are shunned.  Bounded: one more takes the place of the
 * oldest, which is looked at once more.
 *
 * Ownership  a plain value; zeroed: empty
 * Threading  the caller's lock
 */
#include "common/digest.h"

#define DAMAGED_ROWS_MAX 256

struct damaged_rows {
    struct digest asked[DAMAGED_ROWS_MAX];
    size_t count, next;
};

/* What a look-up by name asks for. */
struct digest damaged_rows_name(struct bytes name, struct bytes args);
bool damaged_rows_has(const struct damaged_rows *rows, const struct digest *asked);
/* Once for each. */
void damaged_rows_add(struct damaged_rows *rows, const struct digest *asked);
