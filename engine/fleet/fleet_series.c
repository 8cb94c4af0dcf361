/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_series.h"

#include "engine/digest/sha256.h"

#include <string.h>

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

bool fleet_series_equal(const struct fleet_claim *a, const struct fleet_claim *b)
{
    return compare_series(a, b) == 0;
}
