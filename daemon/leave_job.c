/* SPDX-License-Identifier: MIT */
#include "daemon/leave_job.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

/* Size of the set of processors, larger than Linux supports. Linux ignores processors that do not
 * exist. */
#define PROCESSORS_MAX 16384

/* Does not raise RLIMIT_CORE, nor RLIMIT_STACK, which is the size of each thread's stack.
 * server/descriptors.c raises RLIMIT_NOFILE. */
static void raise_limits(void)
{
    static const __rlimit_resource_t raised[] = { RLIMIT_AS,    RLIMIT_CPU,     RLIMIT_DATA,
                                                  RLIMIT_FSIZE, RLIMIT_MEMLOCK, RLIMIT_NPROC };
    for (size_t i = 0; i < sizeof(raised) / sizeof(raised[0]); i++) {
        struct rlimit limit;
        if (getrlimit(raised[i], &limit) != 0 || limit.rlim_cur == limit.rlim_max)
            continue;
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(raised[i], &limit);
    }
}

void leave_job(void)
{
    unsigned char all[PROCESSORS_MAX / 8];
    memset(all, 0xff, sizeof(all));
    (void)sched_setaffinity(0, sizeof(all), (const cpu_set_t *)(const void *)all);
    raise_limits();
    (void)setpriority(PRIO_PROCESS, 0, 0);
}
