/* SPDX-License-Identifier: MIT */
/* libuv's process handles are not used: they need a handler for SIGCHLD and reap by pid. */
#include "daemon/loop/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_MS 10

static bool get_status(const struct loop_process *p, int options, siginfo_t *ret_info)
{
    bool has_fd = loop_handle_is_open(&p->watch.handle);
    int rc;
    memset(ret_info, 0, sizeof(*ret_info));
    do {
        rc = has_fd ? waitid(P_PIDFD, (id_t)p->pid_fd, ret_info, WEXITED | WNOHANG | options)
                    : waitid(P_PID, (id_t)p->pid, ret_info, WEXITED | WNOHANG | options);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 || ret_info->si_pid != 0;
}

/* If the process has ended, kills its process group and then reaps it.  Until it is reaped, Linux
 * cannot reuse the group's number. */
static void check_end(struct loop_process *p)
{
    siginfo_t info, same;
    if (!get_status(p, WNOWAIT, &info))
        return;
    loop_watch_set(&p->watch, 0);
    loop_timer_stop(&p->poll);
    loop_process_kill(p);
    get_status(p, 0, &same);
    p->pid = 0;
    if (info.si_code == CLD_EXITED)
        p->exited(p, info.si_status, 0);
    else
        p->exited(p, 0, info.si_status);
}

static void on_ready(struct loop_watch *watch, unsigned events)
{
    (void)events;
    check_end(LOOP_OWNER_OF(struct loop_process, watch, watch));
}

static void on_poll(struct loop_timer *timer)
{
    check_end(LOOP_OWNER_OF(struct loop_process, poll, timer));
}

static bool watch_descriptor(struct loop *loop, struct loop_process *p, struct loop_owner *owner)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    p->pid_fd = (int)syscall(SYS_pidfd_open, p->pid, 0); /* glibc has it since 2.36 */
    if (p->pid_fd < 0)
        return false;
    p->watch.ready = on_ready;
    if (loop_watch_init(loop, &p->watch, owner, p->pid_fd, &ignored)) {
        close(p->pid_fd);
        return false;
    }
    loop_watch_set(&p->watch, WATCH_READ);
    return true;
}

void loop_process_watch(struct loop *loop, struct loop_process *process, struct loop_owner *owner,
                        pid_t pid)
{
    process->pid = pid;
    if (!watch_descriptor(loop, process, owner)) {
        loop_timer_init(loop, &process->poll, owner, on_poll);
        loop_timer_start(&process->poll, 0, POLL_MS);
    }
}

void loop_process_kill(const struct loop_process *process)
{
    if (process->pid > 0)
        kill(-process->pid, SIGKILL);
}

void loop_process_close(struct loop_process *process)
{
    bool has_fd = loop_handle_is_open(&process->watch.handle);
    loop_watch_close(&process->watch);
    loop_timer_close(&process->poll);
    if (has_fd)
        close(process->pid_fd);
}
