/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_series.h"

#include "engine/digest/sha256.h"

#include <string.h>

#define DAY_S 86400u

bool fleet_shard_has_series(const struct fleet_shard *shard)
{
    return bytes_equal_text(shard->toolchain, FLEET_TUNING) ||
           bytes_equal_text(shard->toolchain, FLEET_TRACES);
}

struct fleet_shard fleet_shard_named(struct bytes target, const char *toolchain, struct bytes name)
{
    return (struct fleet_shard){ target, bytes_of_text(toolchain), sha256_of(name) };
}

static int compare_series(const struct fleet_claim *a, const struct fleet_claim *b)
{
    int order = memcmp(a->builder, b->builder, FLEET_KEY_ID_SIZE);
    return order ? order : bytes_compare(a->options, b->options);
}

int fleet_series_compare(const struct fleet_claim *a, const struct fleet_claim *b)
{
    int order = compare_series(a, b);
    if (order)
        return order;
    if (a->time != b->time)
        return a->time > b->time ? -1 : 1;
    return memcmp(a->key.bytes, b->key.bytes, DIGEST_SIZE);
}

/* Keeps the order of records that are too early, because this host's own clock may be late. */
uint64_t fleet_series_time(const struct fleet_claim *claim, uint64_t now)
{
    uint64_t early = claim->time > now ? claim->time - now : 0;
    if (early <= DAY_S)
        return claim->time;
    return early < now / 2 ? early : 0;
}

bool fleet_series_equal(const struct fleet_claim *a, const struct fleet_claim *b)
{
    return compare_series(a, b) == 0;
}
