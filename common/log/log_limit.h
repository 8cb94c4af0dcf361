/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A rate limit for log lines of one kind: a burst, then one line every few seconds.
 *
 * Ownership  a plain value; a zeroed limit allows a whole burst
 * Threading  the caller synchronises access
 */
#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_BURST 20u
#define LOG_LIMIT_EVERY_NS 3000000000ull

struct log_limit {
    unsigned used;
    /* |used| decreases by one for each LOG_LIMIT_EVERY_NS that has passed since this time. */
    uint64_t since_ns;
    uint64_t withheld;
};

bool log_limit_take(struct log_limit *limit, uint64_t now_ns);
/* Returns the number of lines withheld since the last report.  Returns 0 if the limit does not
 * allow a line for the report now. */
uint64_t log_limit_report(struct log_limit *limit, uint64_t now_ns);
