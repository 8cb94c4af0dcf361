/* SPDX-License-Identifier: MIT */
#include "cli/tiers.h"

#include <kiln/kernel.h>

#include <stddef.h>

const char *tier_name(int tier)
{
    static const char *const names[] = {
        [KILN_TIER_HOT] = "hot",           [KILN_TIER_DISK] = "disk",
        [KILN_TIER_PACKAGE] = "package",   [KILN_TIER_REMOTE] = "remote",
        [KILN_TIER_COMPILED] = "compiled", [KILN_TIER_TABLE] = "table",
    };
    if (tier < 0 || (size_t)tier >= sizeof(names) / sizeof(names[0]) || !names[tier])
        return "unknown";
    return names[tier];
}
