/* SPDX-License-Identifier: MIT */
/*
 * Not libuv's processes: those take SIGCHLD, which a job may have a handler of its own for.
 */
#include "daemon/loop/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Without descriptors of processes (an old kernel, a filter of system calls) we look now and then:
 * much less than a compile takes. */
#define LOOK_MS 10

/* ---- its end ---- */

/* Its pid stays its own until it was waited for, which nobody but us does by the descriptor. */
static bool take_status(const struct loop_process *p, int options, siginfo_t *ret_info)
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

/* What it left behind is killed while its number, which is theirs as a group, is still its own. */
static void look(struct loop_process *p)
{
    siginfo_t info, same;
    if (!take_status(p, WNOWAIT, &info))
        return;
    loop_watch_want(&p->watch, 0);
    loop_timer_stop(&p->look);
    if (info.si_pid == 0) {
        p->exited(p, LOOP_PROCESS_UNKNOWN, 0);
        return;
    }
    loop_process_kill(p);
    take_status(p, 0, &same);
    p->pid = 0;
    if (info.si_code == CLD_EXITED)
        p->exited(p, info.si_status, 0);
    else
        p->exited(p, 0, info.si_status);
}

static void on_ready(struct loop_watch *watch, unsigned events)
{
    (void)events;
    look(LOOP_OWNER_OF(struct loop_process, watch, watch));
}

static void on_look(struct loop_timer *timer)
{
    look(LOOP_OWNER_OF(struct loop_process, look, timer));
}

static bool watch_descriptor(struct loop *loop, struct loop_process *p, struct loop_owner *owner)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    p->pid_fd = pidfd_open(p->pid, 0);
    if (p->pid_fd < 0)
        return false;
    p->watch.ready = on_ready;
    if (loop_watch_init(loop, &p->watch, owner, p->pid_fd, &ignored)) {
        close(p->pid_fd);
        return false;
    }
    loop_watch_want(&p->watch, WATCH_READ);
    return true;
}

/* ---- its beginning and end ---- */

enum kiln_code loop_process_start(struct loop *loop, struct loop_process *process,
                                  struct loop_owner *owner, const struct loop_spawn *spawn,
                                  struct kiln_err *err)
{
    *process = (struct loop_process){ .pid_fd = -1 };
    int errnum = spawn_process(spawn, &process->pid);
    if (errnum) {
        process->pid = 0;
        return kiln_fail_errno(err, errnum, "cannot run '%s'", spawn->program);
    }
    if (!watch_descriptor(loop, process, owner)) {
        loop_timer_init(loop, &process->look, owner, on_look);
        loop_timer_start(&process->look, 0, LOOK_MS);
    }
    return KILN_OK;
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
    loop_timer_close(&process->look);
    if (has_fd)
        close(process->pid_fd);
}
