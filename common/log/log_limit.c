/* SPDX-License-Identifier: MIT */
#include "common/log/log_limit.h"

static void earn_lines(struct log_limit *limit, uint64_t now_ns)
{
    if (limit->used == 0) {
        limit->since_ns = now_ns;
        return;
    }
    uint64_t earned = (now_ns - limit->since_ns) / LOG_LIMIT_EVERY_NS;
    limit->since_ns += earned * LOG_LIMIT_EVERY_NS;
    limit->used -= earned < limit->used ? (unsigned)earned : limit->used;
}

bool log_limit_take(struct log_limit *limit, uint64_t now_ns)
{
    earn_lines(limit, now_ns);
    if (limit->used >= LOG_LIMIT_BURST) {
        limit->withheld++;
        return false;
    }
    limit->used++;
    return true;
}

uint64_t log_limit_report(struct log_limit *limit, uint64_t now_ns)
{
    earn_lines(limit, now_ns);
    if (limit->withheld == 0 || limit->used >= LOG_LIMIT_BURST)
        return 0;
    uint64_t withheld = limit->withheld;
    limit->withheld = 0;
    return withheld;
}
