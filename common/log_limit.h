/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How often lines of one kind are written: a burst, then one every few seconds.
 *
 * Ownership  a plain value; zeroed, it has its whole burst
 * Threading  none of its own
 */
#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_BURST 20u
#define LOG_LIMIT_EVERY_NS 3000000000ull

struct log_limit {
    unsigned used;     /* of the burst */
    uint64_t since_ns; /* until then what was earned back is counted */
    uint64_t withheld; /* since it was last told */
};

/* Whether one more may be written now; else it is counted as withheld. */
bool log_limit_take(struct log_limit *limit, uint64_t now_ns);
/* How many were withheld, and forgets them; 0 also while no line may be written about it. */
uint64_t log_limit_report(struct log_limit *limit, uint64_t now_ns);
