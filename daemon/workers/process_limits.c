/* SPDX-License-Identifier: MIT */
#include "daemon/workers/process_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* A compiler opens its libraries, headers and a few pipes. */
#define FILES_MOST 1024
#define NICENESS 10
/* Halfway to "first": a compile can be repeated, a training job cannot. */
#define OOM_SCORE "500"

/* The sanitizers reserve terabytes of addresses, which no limit of use would allow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMIT_ADDRESSES 0
#else
#define LIMIT_ADDRESSES 1
#endif

static enum kiln_code set_limit(pid_t pid, int resource, const char *name, uint64_t soft,
                                uint64_t hard, struct kiln_err *err)
{
    struct rlimit now;
    if (prlimit(pid, resource, NULL, &now) < 0)
        return kiln_fail_errno(err, errno, "cannot read %s of compiler process %d", name, (int)pid);
    /* Only root may raise a hard limit; one that is tighter already is kept. */
    struct rlimit want = { .rlim_cur = soft, .rlim_max = hard };
    if (want.rlim_max > now.rlim_max)
        want.rlim_max = now.rlim_max;
    if (want.rlim_cur > want.rlim_max)
        want.rlim_cur = want.rlim_max;
    if (prlimit(pid, resource, &want, NULL) < 0)
        return kiln_fail_errno(err, errno, "cannot set %s of compiler process %d", name, (int)pid);
    return KILN_OK;
}

/* The default of 0 stays where /proc is absent; nothing depends on it. */
static void prefer_for_oom(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t done = write(fd, OOM_SCORE, sizeof(OOM_SCORE) - 1);
    (void)done;
    close(fd);
}

static uint64_t cpu_used_s(pid_t pid)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) < 0)
        return 0;
    return (uint64_t)used.tv_sec + 1;
}

enum kiln_code process_limits_next_job(const struct process_limits *limits, pid_t pid,
                                       struct kiln_err *err)
{
    uint64_t life = limits->cpu_s * (limits->jobs + 1ull);
    return set_limit(pid, RLIMIT_CPU, "RLIMIT_CPU", cpu_used_s(pid) + limits->cpu_s, life, err);
}

enum kiln_code process_limits_apply(const struct process_limits *limits, pid_t pid,
                                    struct kiln_err *err)
{
    enum kiln_code rc = process_limits_next_job(limits, pid, err);
    if (!rc && LIMIT_ADDRESSES)
        rc = set_limit(pid, RLIMIT_AS, "RLIMIT_AS", limits->memory, limits->memory, err);
    if (!rc)
        rc = set_limit(pid, RLIMIT_FSIZE, "RLIMIT_FSIZE", limits->output, limits->output, err);
    if (!rc)
        rc = set_limit(pid, RLIMIT_NOFILE, "RLIMIT_NOFILE", FILES_MOST, FILES_MOST, err);
    if (!rc)
        rc = set_limit(pid, RLIMIT_CORE, "RLIMIT_CORE", 0, 0, err);
    if (rc)
        return rc;
    setpriority(PRIO_PROCESS, (id_t)pid, NICENESS);
    prefer_for_oom(pid);
    return KILN_OK;
}
