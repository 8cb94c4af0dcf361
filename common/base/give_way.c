/* SPDX-License-Identifier: MIT */
#include "common/base/give_way.h"

#include "common/base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define NICENESS 10

/* Linux gives each session the same share of processor time, whatever the nice values in it
 * (CONFIG_SCHED_AUTOGROUP, sched(7)).  Many compilers or transfers would thus take most of the time
 * from kilnd and its clients, so the session gets a nice value, too.  Setting this value fails if
 * Linux has no autogroups, or if many processes without CAP_SYS_ADMIN set one at the same time. */
void give_way_to_kilnd(int session)
{
    (void)setpriority(PRIO_PROCESS, 0, NICENESS);
    KILN_AUTO(fd) int group = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (group >= 0 && getsid(0) == getpid())
        dprintf(group, "%d", session);
}
