/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The list of requests (kernel keys, or digests of a name and arguments) whose rows in one package
 * are unusable, so that no such row is unpacked twice. A row is unusable if it failed its check, or
 * if package_shun excluded it.
 *
 * Ownership  a plain value; a zeroed list is empty
 * Threading  the caller holds a lock
 */
#include "common/base/digest.h"
#include "engine/miopen/kern_db.h"

#define DAMAGED_ROWS_MAX 256

struct damaged_rows {
    struct digest requests[DAMAGED_ROWS_MAX];
    size_t count, next;
};

struct digest damaged_rows_name(const struct kern_name *name);
bool damaged_rows_has(const struct damaged_rows *rows, const struct digest *request);
void damaged_rows_add(struct damaged_rows *rows, const struct digest *request);
