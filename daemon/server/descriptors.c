/* SPDX-License-Identifier: MIT */
#include "daemon/server/descriptors.h"

#include "common/log/log.h"

#include <stdint.h>
#include <sys/resource.h>

#define RESERVE 512u
#define MIN 64u

static uint64_t raise_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return 1024;
    if (files.rlim_cur == files.rlim_max)
        /* do not call setrlimit: a unit's system-call filter may forbid it */
        return files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        log_event(LOG_EVENT_descriptors_few, NULL, "cannot raise the limit of open files to %llu",
                  (unsigned long long)files.rlim_max);
    getrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_cur;
}

static unsigned min_of(uint64_t a, uint64_t b) { return (unsigned)(a < b ? a : b); }

struct descriptor_shares descriptors_share(struct descriptor_shares wanted)
{
    uint64_t limit = raise_limit();
    uint64_t reserve = RESERVE + (uint64_t)wanted.workers * DESCRIPTORS_A_WORKER;
    uint64_t left = limit > reserve + 2 * MIN ? limit - reserve : 2 * MIN;
    if ((uint64_t)wanted.connections + wanted.hot_count <= left)
        return wanted;
    struct descriptor_shares got = { .connections = min_of(wanted.connections, left / 2),
                                     .workers = wanted.workers };
    got.hot_count = min_of(wanted.hot_count, left - got.connections);
    log_event(
        LOG_EVENT_descriptors_few, NULL,
        "the limit of %llu open files leaves %u connections and %u code objects in memory "
        "(settings connections and hot_count ask for %u and %u, and %u workers take %u): raise "
        "LimitNOFILE",
        (unsigned long long)limit, got.connections, got.hot_count, wanted.connections,
        wanted.hot_count, wanted.workers, wanted.workers * DESCRIPTORS_A_WORKER);
    return got;
}
