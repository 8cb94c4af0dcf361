/* SPDX-License-Identifier: MIT */
#include "cli/tiers.h"

#include "common/base/units.h"

#define TIERS (KILN_TIER_PROCESS + 1)

static const char *const names[TIERS] = {
    [KILN_TIER_HOT] = "hot",     [KILN_TIER_DISK] = "disk",         [KILN_TIER_PACKAGE] = "package",
    [KILN_TIER_FLEET] = "fleet", [KILN_TIER_COMPILED] = "compiled", [KILN_TIER_PROCESS] = "table",
};

const char *tier_name(int tier)
{
    return tier >= 0 && tier < TIERS && names[tier] ? names[tier] : "unknown";
}

void tier_count(struct tier_counts *counts, int tier)
{
    counts->kernels++;
    if (tier == KILN_TIER_COMPILED)
        counts->compiles++;
    else if (tier >= 0 && tier < TIERS)
        counts->hits[tier]++;
}

size_t tier_hits(const struct tier_counts *counts)
{
    size_t sum = 0;
    for (int tier = 0; tier < TIERS; tier++)
        sum += counts->hits[tier];
    return sum;
}

void tier_rows(const struct tier_counts *counts, struct table *table)
{
    table_count(table, "kernels", counts->kernels);
    table_count(table, "compiles", counts->compiles);
    table_count(table, "hits", tier_hits(counts));
    for (int tier = 0; tier < TIERS; tier++) {
        char name[32];
        snprintf(name, sizeof(name), "  %s", tier_name(tier));
        if (counts->hits[tier] > 0)
            table_count(table, name, counts->hits[tier]);
    }
}

void tier_json(const struct tier_counts *counts, struct json *json)
{
    struct json *tiers = json_object();
    for (int tier = KILN_TIER_HOT; tier < TIERS; tier++)
        if (tier != KILN_TIER_COMPILED && names[tier])
            json_set_u64(tiers, tier_name(tier), counts->hits[tier]);
    json_set_u64(json, "kernels", counts->kernels);
    json_set_u64(json, "compiles", counts->compiles);
    json_set_u64(json, "hits", tier_hits(counts));
    json_set(json, "hits_by_tier", tiers);
}
