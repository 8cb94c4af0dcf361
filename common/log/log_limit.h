/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A rate limit for log lines of one kind: a burst, then one line every few seconds.
 *
 * Ownership  a plain value; a zeroed one has its whole burst
 * Threading  the caller synchronises access
 */
#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_BURST 20u
#define LOG_LIMIT_EVERY_NS 3000000000ull

struct log_limit {
    unsigned used;     /* of the burst */
    uint64_t since_ns; /* time up to which earned lines are counted */
    uint64_t withheld; /* since the last report */
};

/* Whether one more line may be written now; if not, it is counted as withheld. */
bool log_limit_take(struct log_limit *limit, uint64_t now_ns);
/* Returns the number of withheld lines and resets it.  Returns 0 while no line may be written about
 * it. */
uint64_t log_limit_report(struct log_limit *limit, uint64_t now_ns);
