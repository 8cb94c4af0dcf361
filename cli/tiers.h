/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Counts kernels by the tier that served them.
 *
 * Ownership  plain values
 * Threading  one thread for each struct tier_counts
 */
#include "cli/output.h"
#include "common/base/json.h"

#include <kiln/kernel.h>

/* Returns a static text such as "hot" or "disk", or "unknown" for a number that is not a
 * KILN_TIER_*. */
const char *tier_name(int tier);

struct tier_counts {
    size_t kernels, compiles;
    size_t hits[KILN_TIER_PROCESS + 1];
};

void tier_count(struct tier_counts *counts, int tier);
size_t tier_hits(const struct tier_counts *counts);
void tier_rows(const struct tier_counts *counts, struct table *table);
void tier_json(const struct tier_counts *counts, struct json *json);
