/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What kilnctl top knows at a moment, and how it turns into rates.
 *
 * Ownership  a sample owns its answers (top_sample_done); lines point into them
 * Threading  one thread
 */
#include "cli/kilnctl/command.h"

enum top_tier { TOP_HOT, TOP_DISK, TOP_PACKAGE, TOP_TIERS };
extern const char *const top_tier_names[TOP_TIERS];

struct top_sample {
    struct json *stats, *activity, *status; /* owned; kilnd's answers */
    double at_s;                            /* of a monotonic clock */
};
#define TOP_SAMPLE_AUTO __attribute__((cleanup(top_sample_done)))

struct top_rates { /* between two samples of the same kilnd */
    bool known;
    double requests_s, fetches_s, compiles_s;
    double hits_share[TOP_TIERS], misses_share; /* of the look-ups; all 0 where there were none */
    bool has_lookups;
};

/* KILN_E_UNAVAILABLE and the like: no sample, |ret_sample| is left alone. */
CLI_MUST_CHECK int top_sample_take(const struct invocation *invocation, int timeout_ms,
                                   struct top_sample *ret_sample, struct kiln_error *err);
void top_sample_done(struct top_sample *sample); /* accepts a zeroed one */
/* Not known where |before| is zeroed, or of a kilnd that was another. */
struct top_rates top_rates_of(const struct top_sample *before, const struct top_sample *now);
/* The same since kilnd started, for one look without a second. */
struct top_rates top_rates_since_start(const struct top_sample *now);
/* {"rates", "compiles", "users", ...}; the caller owns it. */
struct json *top_to_json(const struct top_sample *now, const struct top_rates *rates);
