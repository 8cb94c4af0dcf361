/* SPDX-License-Identifier: MIT */
#include "daemon/workers/worker_process.h"

#include "daemon/programs/launch.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* Maximum time from a kill to the report that the process ended.  The service manager may be busy
 * or stopping. */
#define LOST_MS 5000

static void on_child_exit(struct loop_process *child, int status, int signal)
{
    struct worker_process *p = LOOP_OWNER_OF(struct worker_process, child, child);
    p->exited(p, status, signal);
}

static enum kiln_code start_child(struct loop *loop, struct worker_process *p,
                                  struct loop_owner *owner, const struct worker_spawn *spawn,
                                  struct kiln_err *err)
{
    struct loop_spawn child = { .program = spawn->program,
                                .arguments = spawn->arguments,
                                .fd_3 = spawn->fd_3 };
    p->output.program = spawn->arguments[0];
    enum kiln_code rc = process_stderr_open(loop, &p->output, owner, &child.fd_2, err);
    if (rc)
        return rc;
    rc = loop_process_start(loop, &p->child, owner, &child, err);
    close(child.fd_2);
    if (rc)
        process_stderr_close(&p->output);
    else
        p->child.exited = on_child_exit;
    return rc;
}

/* ---- launched and kept processes ---- */

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

/* Reads a report of kiln-launch: the first one names the user, the second one reports the end. */
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

/* Asks the service manager's unit to start the process, and watches |control| for the reports of
 * kiln-launch. */
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
