/* SPDX-License-Identifier: MIT */
/* Describes the state of the fleet tier in the answer to a status request. */
#include "common/base/clock.h"
#include "common/base/hex.h"
#include "engine/fleet/fleet_series.h"
#include "engine/service/fleet/fleet_parts.h"
#include "engine/service/fleet/fleet_records.h"

/* Adds the number of seconds since |when_ns|, unless |when_ns| is 0. */
static void add_age(struct json *json, const char *name, uint64_t when_ns)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (when_ns)
        json_set_u64(json, name, now_ns > when_ns ? (now_ns - when_ns) / 1000000000u : 0);
}

static void add_time_left(struct json *json, const char *name, uint64_t until_ns)
{
    uint64_t now_ns = clock_monotonic_ns();
    json_set_u64(json, name, until_ns > now_ns ? (until_ns - now_ns) / 1000000000u : 0);
}

struct json *fleet_describe_ends(const uint64_t counts[FLEET_ENDS])
{
    struct json *json = json_object();
    for (int i = 0; i < FLEET_ENDS; i++)
        if (counts[i])
            json_set_u64(json, fleet_end_label((enum fleet_end)i), counts[i]);
    return json;
}

static struct json *describe_faults(const uint64_t counts[FLEET_FAULTS])
{
    struct json *json = json_object();
    for (int i = 0; i < FLEET_FAULTS; i++)
        if (counts[i])
            json_set_u64(json, fleet_fault_label((enum fleet_fault)i), counts[i]);
    return json;
}

struct json *fleet_keys_describe(const struct fleet_tier *tier)
{
    const struct fleet_trust *keys = tier->trusted->keys;
    const char *first_bad = "";
    struct json *json = json_object();
    unsigned bad = fleet_trust_bad(keys, &first_bad);
    json_set_text(json, "directory", tier->keys);
    json_set_u64(json, "trusted", fleet_trust_count(keys));
    json_set_u64(json, "for_indices", fleet_trust_index_keys(keys));
    json_set_u64(json, "revoked", fleet_trust_revoked(keys));
    json_set_u64(json, "bad", bad);
    if (bad)
        json_set_text(json, "first_bad", first_bad);
    return json;
}

static void add_index(struct json *json, const struct fleet_index *index)
{
    char signer[2 * FLEET_KEY_ID_SIZE + 1];
    const struct fleet_shard shard = fleet_index_shard(index);
    const char *what = fleet_shard_has_series(&shard) ? "blocks" : "kernels";
    hex_write(fleet_index_signer(index), FLEET_KEY_ID_SIZE, signer);
    json_set_u64(json, "epoch", fleet_index_epoch(index));
    json_set_u64(json, "time", fleet_index_time(index));
    json_set_text(json, "signer", signer);
    json_set_u64(json, what, fleet_index_count(index));
    json_set_u64(json, "packs", fleet_index_packs(index));
    json_set_u64(json, "memory_bytes", fleet_index_bytes(index));
}

static const char *trouble_of(const struct shard *shard)
{
    if (shard->load_fault)
        return fleet_fault_text(shard->load_fault);
    return shard->load_end ? fleet_end_text(shard->load_end) : NULL;
}

static struct json *describe_shard(const struct shard *shard)
{
    char toolchain_id[DIGEST_HEX_SIZE];
    struct json *json = json_object();
    digest_to_hex(&shard->toolchain_id, toolchain_id);
    json_set_text(json, "target", shard->target);
    json_set_text(json, "toolchain", shard->toolchain);
    json_set_text(json, "toolchain_id", toolchain_id);
    json_set_text(json, "shard", shard->id);
    if (shard->index)
        add_index(json, shard->index);
    add_age(json, "used_s", shard->asked_ns);
    add_age(json, "checked_s", shard->refreshed_ns);
    if (trouble_of(shard))
        json_set_text(json, "trouble", trouble_of(shard));
    return json;
}

static void add_leases(struct json *json, const struct fleet_tier *tier)
{
    const struct fleet_leases *leases = &tier->leases;
    bool has_failed = leases->probe_end != FLEET_END_DONE && leases->probe_end != FLEET_END_EXISTS;
    json_set_text(json, "leases", fleet_tier_leases(tier));
    if (leases->state == LEASES_UNKNOWN && leases->has_probe_ended && has_failed)
        json_set_text(json, "leases_trouble", fleet_end_text(leases->probe_end));
    if (leases->resume_ns > clock_monotonic_ns())
        add_time_left(json, "leases_resume_s", leases->resume_ns);
}

static void add_store(struct json *json, const struct fleet_tier *tier)
{
    json_set_bool(json, "up", !tier->is_broken);
    add_age(json, "answered_s", tier->answered_ns);
    if (tier->is_broken) {
        add_age(json, "broken_s", tier->broken_ns);
        add_time_left(json, "retry_s", tier->retry_ns);
    }
    if (tier->last_error[0]) {
        json_set_text(json, "last_error", tier->last_error);
        add_age(json, "last_error_s", tier->last_error_ns);
    }
}

struct json *fleet_tier_describe(const struct fleet_tier *tier)
{
    struct json *json = json_object();
    add_store(json, tier);
    add_leases(json, tier);
    json_set(json, "keys", fleet_keys_describe(tier));
    json_set(json, "requests", fleet_describe_ends(tier->ends));
    json_set(json, "refused", describe_faults(tier->faults));
    json_set_u64(json, "late", tier->late);
    if (tier->pull)
        json_set(json, "pull", fleet_pull_describe(tier->pull));
    json_set(json, "tuning", fleet_records_describe(tier->records));
    struct json *shards = json_set_array(json, "shards");
    LIST_EACH (&tier->shards, struct shard, link, shard)
        json_append(shards, describe_shard(shard));
    return json;
}
