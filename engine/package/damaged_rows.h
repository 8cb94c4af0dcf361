/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests whose rows in one package are unusable, so that no such row is unpacked repeatedly. A
 * row is unusable if it failed its check or is shunned. The list is bounded: a new entry replaces
 * the oldest one, whose row is then checked once more.
 *
 * Ownership  a plain value; zeroed: empty
 * Threading  the caller's lock
 */
#include "common/base/digest.h"
#include "engine/miopen/kern_db.h"

#define DAMAGED_ROWS_MAX 256

struct damaged_rows {
    struct digest requests[DAMAGED_ROWS_MAX];
    size_t count, next;
};

/* The identity of a lookup by name. */
struct digest damaged_rows_name(const struct kern_name *name);
bool damaged_rows_has(const struct damaged_rows *rows, const struct digest *request);
/* Does nothing if |request| is already in the list. */
void damaged_rows_add(struct damaged_rows *rows, const struct digest *request);
