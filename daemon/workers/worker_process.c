/* SPDX-License-Identifier: MIT */
#include "daemon/workers/worker_process.h"

#include "daemon/loop/spawn.h"
#include "daemon/programs/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOST_MS 5000

static void on_child_exit(struct loop_process *child, int status, int signal)
{
    struct worker_process *p = LOOP_OWNER_OF(struct worker_process, child, child);
    p->exited(p, status, signal);
}

struct start {
    struct task task;
    struct loop *loop;
    struct loop_owner *owner;
    struct worker_process *process;
    struct loop_spawn spawn; /* owns its descriptors; its texts are in |texts| */
    const char *arguments[LAUNCH_ARGUMENTS_MAX + 1];
    int errnum;
    pid_t pid;
    char texts[LAUNCH_PACKET_MAX];
};

static void run_start(struct task *task)
{
    struct start *s = LOOP_OWNER_OF(struct start, task, task);
    s->errnum = spawn_process(&s->spawn, &s->pid);
}

static void free_start(struct start *s)
{
    if (s->spawn.fd_2 >= 0)
        close(s->spawn.fd_2);
    if (s->spawn.fd_3 >= 0)
        close(s->spawn.fd_3);
    free(s);
}

static void on_started(struct task *task)
{
    struct start *s = LOOP_OWNER_OF(struct start, task, task);
    struct worker_process *p = s->process;
    p->is_starting = false;
    p->start_errnum = s->errnum;
    if (!s->errnum)
        loop_process_watch(s->loop, &p->child, s->owner, s->pid);
    free_start(s);
    if (p->start_errnum)
        p->exited(p, WORKER_PROCESS_NOT_STARTED, 0);
    else if (p->is_killed)
        loop_process_kill(&p->child);
}

static bool copy_arguments(struct start *s, const char *const *arguments)
{
    size_t used = 0;
    for (size_t i = 0; arguments[i]; i++) {
        size_t size = strlen(arguments[i]) + 1;
        if (i == LAUNCH_ARGUMENTS_MAX || size > sizeof(s->texts) - used)
            return false;
        s->arguments[i] = memcpy(s->texts + used, arguments[i], size);
        used += size;
    }
    s->spawn.arguments = s->arguments;
    return true;
}

static enum kiln_code prepare_start(struct start *s, const struct worker_spawn *spawn,
                                    struct kiln_err *err)
{
    if (!copy_arguments(s, spawn->arguments))
        return kiln_fail(err, KILN_INVALID, "the arguments of '%s' are too long", spawn->program);
    s->spawn.fd_3 = fcntl(spawn->fd_3, F_DUPFD_CLOEXEC, 0);
    if (s->spawn.fd_3 < 0)
        return kiln_fail_errno(err, errno, "cannot run '%s'", spawn->program);
    return process_stderr_open(s->loop, &s->process->output, s->owner, &s->spawn.fd_2, err);
}

static enum kiln_code start_child(struct loop *loop, struct worker_process *p,
                                  struct loop_owner *owner, const struct worker_spawn *spawn,
                                  struct kiln_err *err)
{
    struct start *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot run '%s'", spawn->program);
    s->loop = loop;
    s->owner = owner;
    s->process = p;
    s->spawn = (struct loop_spawn){ .program = spawn->program, .fd_2 = -1, .fd_3 = -1 };
    s->task = (struct task){ .work = run_start, .done = on_started, .uid = spawn->uid };
    p->child.exited = on_child_exit;
    p->output.program = spawn->arguments[0];
    enum kiln_code rc = prepare_start(s, spawn, err);
    p->is_starting = !rc;
    if (rc)
        free_start(s);
    else
        work_queues_run(spawn->work_queues, WORK_QUEUE_READ, &s->task);
    return rc;
}

static void end_process(struct worker_process *p, int status, int signal)
{
    loop_watch_set(&p->watch, 0);
    loop_timer_stop(&p->lost);
    p->exited(p, status, signal);
}

static void on_lost(struct loop_timer *timer)
{
    end_process(LOOP_OWNER_OF(struct worker_process, lost, timer), WORKER_PROCESS_LOST, 0);
}

static void on_control(struct loop_watch *watch, unsigned events)
{
    struct worker_process *p = LOOP_OWNER_OF(struct worker_process, watch, watch);
    struct launch_report report;
    enum kiln_code rc = launch_receive_report(p->control, &report);
    (void)events;
    if (rc == KILN_BUSY)
        return;
    if (rc)
        end_process(p, WORKER_PROCESS_LOST, 0);
    else if (report.kind == LAUNCH_STARTED)
        p->uid = (uid_t)report.uid;
    else
        end_process(p, (int)report.status, (int)report.signal_);
}

static enum kiln_code ask_service(struct loop *loop, struct worker_process *p,
                                  struct loop_owner *owner, const struct worker_spawn *spawn,
                                  struct kiln_err *err)
{
    const struct launch_request request = { .arguments = spawn->arguments,
                                            .fd_3 = spawn->fd_3,
                                            .directory = spawn->directory };
    enum kiln_code rc = launch_send_request(p->control, &request, err);
    p->watch.ready = on_control;
    if (!rc)
        rc = loop_watch_init(loop, &p->watch, owner, p->control, err);
    if (rc) {
        close(p->control);
        return rc;
    }
    p->launched = true;
    loop_timer_init(loop, &p->lost, owner, on_lost);
    loop_watch_set(&p->watch, WATCH_READ);
    return KILN_OK;
}

static enum kiln_code start_launched(struct loop *loop, struct worker_process *p,
                                     struct loop_owner *owner, const struct worker_spawn *spawn,
                                     struct kiln_err *err)
{
    enum kiln_code rc = launch_connect(spawn->service, &p->control, err);
    return rc ? rc : ask_service(loop, p, owner, spawn, err);
}

enum kiln_code worker_process_start(struct loop *loop, struct worker_process *process,
                                    struct loop_owner *owner, const struct worker_spawn *spawn,
                                    struct kiln_err *err)
{
    *process = (struct worker_process){ .control = -1,
                                        .uid = (uid_t)-1,
                                        .lost_ms = spawn->lost_ms ? spawn->lost_ms : LOST_MS };
    return *spawn->service ? start_launched(loop, process, owner, spawn, err)
                           : start_child(loop, process, owner, spawn, err);
}

void worker_process_kill(struct worker_process *p)
{
    p->is_killed = true;
    if (!p->launched) {
        loop_process_kill(&p->child);
        return;
    }
    shutdown(p->control, SHUT_WR);
    if (p->watch.events)
        loop_timer_start(&p->lost, p->lost_ms, 0);
}

void worker_process_close(struct worker_process *p)
{
    process_stderr_close(&p->output);
    if (!p->launched) {
        loop_process_close(&p->child);
        return;
    }
    p->launched = false;
    loop_watch_close(&p->watch);
    loop_timer_close(&p->lost);
    close(p->control);
}
