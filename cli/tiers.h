/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Counts kernels by the tier that served them, and shows the counts in tables and JSON the same way
 * in every program.
 *
 * Ownership  plain values
 * Threading  one thread for each struct tier_counts
 */
#include "cli/output.h"
#include "common/base/json.h"

#include <kiln/kernel.h>

/* Returns the name of a tier (KILN_TIER_*): "hot", "disk", ..., or "unknown" for any other number.
 * The text is static. */
const char *tier_name(int tier);

struct tier_counts {
    size_t kernels, compiles;
    /* Number of hits of each tier; always 0 for KILN_TIER_COMPILED. */
    size_t hits[KILN_TIER_PROCESS + 1];
};

void tier_count(struct tier_counts *counts, int tier);
size_t tier_hits(const struct tier_counts *counts); /* sum over all tiers */
/* Adds rows of two cells: kernels, compiles, hits, and one row for each tier with hits. */
void tier_rows(const struct tier_counts *counts, struct table *table);
/* Adds "kernels", "compiles", "hits" and "hits_by_tier". */
void tier_json(const struct tier_counts *counts, struct json *json);
