/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A sample of kilnd's counters, and the rates between two samples.
 *
 * Ownership  a sample owns its answers (top_sample_done)
 * Threading  one thread
 */
#include "cli/kilnctl/command.h"

enum top_tier { TOP_HOT, TOP_DISK, TOP_PACKAGE, TOP_FLEET, TOP_TIERS };
extern const char *const top_tier_names[TOP_TIERS];

struct top_sample {
    struct json *stats, *activity, *status;
    double at_s;
};
#define TOP_SAMPLE_AUTO __attribute__((cleanup(top_sample_done)))

struct top_rates {
    bool known;
    double requests_s, fetches_s, compiles_s;
    /* Shares of the look-ups; all 0 if there were none. */
    double hits_share[TOP_TIERS], misses_share;
    bool has_lookups;
};

/* On failure, such as KILN_E_UNAVAILABLE, |ret_sample| is not changed. */
CLI_MUST_CHECK int top_sample_take(const struct invocation *invocation, int timeout_ms,
                                   struct top_sample *ret_sample, struct kiln_error *err);
void top_sample_done(struct top_sample *sample);
/* The rates are not known if |before| is zeroed or comes from an earlier kilnd. */
struct top_rates top_rates_of(const struct top_sample *before, const struct top_sample *now);
struct top_rates top_rates_since_start(const struct top_sample *now);
struct json *top_to_json(const struct top_sample *now, const struct top_rates *rates);
