/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/top_sample.h"

#include "cli/kilnctl/admin.h"
#include "common/base/clock.h"

#include <string.h>

const char *const top_tier_names[TOP_TIERS] = { "hot", "disk", "package", "fleet" };

void top_sample_done(struct top_sample *sample)
{
    json_destroy(sample->stats);
    json_destroy(sample->activity);
    json_destroy(sample->status);
    *sample = (struct top_sample){ 0 };
}

int top_sample_take(const struct invocation *invocation, int timeout_ms,
                    struct top_sample *ret_sample, struct kiln_error *err)
{
    TOP_SAMPLE_AUTO struct top_sample sample = { 0 };
    int rc = admin_ask_within(invocation, "stats", timeout_ms, &sample.stats, err);
    if (!rc)
        rc = admin_ask_within(invocation, "activity", timeout_ms, &sample.activity, err);
    if (!rc)
        rc = admin_ask_within(invocation, "status", timeout_ms, &sample.status, err);
    if (rc)
        return rc;
    sample.at_s = (double)clock_monotonic_ns() / 1e9;
    *ret_sample = sample;
    sample = (struct top_sample){ 0 };
    return KILN_E_OK;
}

static uint64_t growth_of(const struct json *before, const struct json *now, const char *name)
{
    uint64_t old = json_get_u64(before, name, 0), new = json_get_u64(now, name, 0);
    return new > old ? new - old : 0;
}

static struct top_rates rates_over(const struct json *before, const struct json *now,
                                   double seconds)
{
    struct top_rates r = { .known = true };
    const struct json *hits_before = json_get(before, "hits"), *hits = json_get(now, "hits");
    double sum = (double)growth_of(before, now, "misses");
    double found[TOP_TIERS];
    for (int i = 0; i < TOP_TIERS; i++)
        sum += found[i] = (double)growth_of(hits_before, hits, top_tier_names[i]);
    for (int i = 0; i < TOP_TIERS && sum > 0; i++)
        r.hits_share[i] = found[i] / sum;
    r.has_lookups = sum > 0;
    r.misses_share = sum > 0 ? (double)growth_of(before, now, "misses") / sum : 0;
    r.requests_s = (double)growth_of(before, now, "requests") / seconds;
    r.fetches_s = (double)growth_of(before, now, "fetches") / seconds;
    r.compiles_s = (double)growth_of(before, now, "compiles") / seconds;
    return r;
}

struct top_rates top_rates_of(const struct top_sample *before, const struct top_sample *now)
{
    bool same = before->status &&
                json_get_u64(before->status, "pid", 0) == json_get_u64(now->status, "pid", 1);
    double seconds = now->at_s - before->at_s;
    if (!same || seconds <= 0)
        return (struct top_rates){ .known = false };
    return rates_over(before->stats, now->stats, seconds);
}

struct top_rates top_rates_since_start(const struct top_sample *now)
{
    double uptime = json_get_number(now->status, "uptime_s", 0);
    return rates_over(NULL, now->stats, uptime > 1 ? uptime : 1);
}

static struct json *copy_member(const struct json *from, const char *name)
{
    const struct json *member = json_get(from, name);
    if (!member)
        return json_array();
    KILN_AUTO(mem) char *text = json_print(member, false);
    struct json *copy = NULL;
    struct kiln_err ignored = KILN_ERR_INIT;
    if (!text || json_parse(bytes_of_text(text), name, &copy, &ignored))
        return NULL;
    return copy;
}

static struct json *rates_to_json(const struct top_rates *r)
{
    struct json *j = json_object(), *hits = json_object();
    json_set_number(j, "requests_per_s", r->requests_s);
    json_set_number(j, "fetches_per_s", r->fetches_s);
    json_set_number(j, "compiles_per_s", r->compiles_s);
    for (int i = 0; i < TOP_TIERS && r->has_lookups; i++)
        json_set_number(hits, top_tier_names[i], r->hits_share[i]);
    json_set(j, "hit_ratio", hits);
    if (r->has_lookups)
        json_set_number(j, "miss_ratio", r->misses_share);
    return j;
}

struct json *top_to_json(const struct top_sample *now, const struct top_rates *rates)
{
    static const char *const counts[] = { "compiling",      "queued",        "clients",
                                          "store_bytes",    "store_objects", "hot_bytes",
                                          "hot_objects",    "client_hits",   "client_compiles",
                                          "client_saved_ms" };
    struct json *j = json_object();
    json_set(j, "rates", rates_to_json(rates));
    json_set_u64(j, "uptime_s", json_get_u64(now->status, "uptime_s", 0));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        json_set_u64(j, counts[i], json_get_u64(now->stats, counts[i], 0));
    json_set(j, "compiles", copy_member(now->activity, "compiles"));
    json_set(j, "users", copy_member(now->activity, "users"));
    json_set(j, "others", copy_member(now->activity, "others"));
    return j;
}
