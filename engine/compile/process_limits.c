/* SPDX-License-Identifier: MIT */
#include "engine/compile/process_limits.h"

#include "common/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILES_MAX 1024
/* The oom_score_adj of this process (at most 1000). When memory runs out, Linux should kill
 * compiles before training jobs, because compiles can be repeated. */
#define OOM_SCORE "500"

/* Whether the address space is limited. Sanitizers reserve terabytes of it, so they cannot run with
 * a limit. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMIT_ADDRESSES 0
#else
#define LIMIT_ADDRESSES 1
#endif

static enum kiln_code set_limit(int resource, const char *name, uint64_t soft, uint64_t hard,
                                struct kiln_err *err)
{
    struct rlimit now;
    if (getrlimit(resource, &now) < 0)
        return kiln_fail_errno(err, errno, "cannot read %s", name);
    /* Does not exceed the current hard limit, which only root may raise. */
    struct rlimit want = { .rlim_cur = soft, .rlim_max = hard };
    if (want.rlim_max > now.rlim_max)
        want.rlim_max = now.rlim_max;
    if (want.rlim_cur > want.rlim_max)
        want.rlim_cur = want.rlim_max;
    if (setrlimit(resource, &want) < 0)
        return kiln_fail_errno(err, errno, "cannot set %s", name);
    return KILN_OK;
}

static void prefer_for_oom(void)
{
    KILN_AUTO(fd) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    ssize_t done = fd >= 0 ? write(fd, OOM_SCORE, sizeof(OOM_SCORE) - 1) : 0;
    (void)done;
}

enum kiln_code process_limits_apply(const struct process_limits *limits, struct kiln_err *err)
{
    uint64_t life = limits->jobs ? limits->cpu_s * (limits->jobs + 1ull) : RLIM_INFINITY;
    enum kiln_code rc = set_limit(RLIMIT_CPU, "RLIMIT_CPU", limits->cpu_s, life, err);
    if (!rc && LIMIT_ADDRESSES)
        rc = set_limit(RLIMIT_AS, "RLIMIT_AS", limits->memory, limits->memory, err);
    if (!rc)
        rc = set_limit(RLIMIT_FSIZE, "RLIMIT_FSIZE", limits->output, limits->output, err);
    if (!rc)
        rc = set_limit(RLIMIT_NOFILE, "RLIMIT_NOFILE", FILES_MAX, FILES_MAX, err);
    if (!rc)
        rc = set_limit(RLIMIT_CORE, "RLIMIT_CORE", 0, 0, err);
    if (rc)
        return rc;
    prefer_for_oom();
    return KILN_OK;
}

void process_limits_next_job(uint64_t cpu_s)
{
    struct rlimit limit;
    struct rusage used;
    if (getrlimit(RLIMIT_CPU, &limit) != 0 || getrusage(RUSAGE_SELF, &used) != 0)
        return;
    rlim_t spent = (rlim_t)used.ru_utime.tv_sec + (rlim_t)used.ru_stime.tv_sec +
                   2; /* more than the tv_usec of both times */
    limit.rlim_cur = spent + cpu_s < limit.rlim_max ? spent + cpu_s : limit.rlim_max;
    setrlimit(RLIMIT_CPU, &limit);
}
