/* SPDX-License-Identifier: MIT */
#include "daemon/workers/transfer_process.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/log.h"
#include "engine/transfer/transfer_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct kiln_err *err_of(struct transfer_process *p) { return &p->task->outcome.err; }

/* ---- the end: one file out of the folder, or nothing ---- */

/* The folder was the process's to fill: what lies there need not be a file. */
static enum kiln_code take_file(struct transfer_process *p)
{
    struct transfer_outcome *o = &p->task->outcome;
    char made[TRANSFER_FOLDER_MOST + sizeof(o->name) + 1];
    struct stat seen;
    snprintf(made, sizeof(made), "%s/%s", p->folder, o->name);
    if (lstat(made, &seen) != 0 || !S_ISREG(seen.st_mode))
        return kiln_fail(&o->err, KILN_IO, "kiln-transfer left no file '%s'", made);
    if ((size_t)snprintf(o->path, sizeof(o->path), "%s.file", p->folder) >= sizeof(o->path))
        return kiln_fail(&o->err, KILN_INVALID, "the folder '%s' is too long", p->folder);
    if (rename(made, o->path) != 0)
        return kiln_fail_errno(&o->err, errno, "cannot move '%s' to '%s'", made, o->path);
    o->size = (uint64_t)seen.st_size;
    return KILN_OK;
}

static void clear(struct task *task)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, work, task);
    if (p->folder[0] == '\0')
        return;
    if (err_of(p)->code || take_file(p))
        p->task->outcome.path[0] = '\0';
    fs_remove_tree(AT_FDCWD, p->folder);
}

static void on_cleared(struct task *task)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, work, task);
    p->options->ended(p);
    free(p);
}

static void start_clearing(struct transfer_process *p)
{
    p->running = false;
    p->work = (struct task){ .work = clear, .done = on_cleared };
    lanes_run(p->options->lanes, LANE_READ, &p->work);
}

static void on_handles_closed(struct loop_owner *owner)
{
    start_clearing(LOOP_OWNER_OF(struct transfer_process, owner, owner));
}

/* ---- the process ---- */

static void close_handles(struct transfer_process *p)
{
    loop_watch_close(&p->watch);
    loop_timer_close(&p->deadline);
    loop_process_close(&p->process);
    fd_auto(&p->socket);
    p->socket = -1;
}

static void say_stop(struct transfer_process *p)
{
    struct kiln_err *err = err_of(p);
    switch (p->stop) {
    case STOP_CANCELLED: kiln_fail(err, KILN_CANCELLED, "the transfer was cancelled"); break;
    case STOP_SHUTDOWN: kiln_fail(err, KILN_UNAVAILABLE, "kilnd is shutting down"); break;
    case STOP_DEADLINE:
        kiln_fail(err, KILN_TIMED_OUT, "the transfer took longer than %.1f hours",
                  (double)p->options->timeout_ms / 3.6e6);
        break;
    default:
        kiln_fail(err, KILN_IO, "kiln-transfer answered what is not an answer while %s", p->stage);
        break;
    }
}

static void say_death(struct transfer_process *p, int status, int number)
{
    const char *name = number ? sigabbrev_np(number) : NULL;
    if (name)
        kiln_fail(err_of(p), KILN_IO, "kiln-transfer died of SIG%s (%s) while %s", name,
                  sigdescr_np(number), p->stage);
    else
        kiln_fail(err_of(p), KILN_IO, "kiln-transfer exited with status %d while %s",
                  number ? 128 + number : status, p->stage);
}

void transfer_process_stop(struct transfer_process *p, enum transfer_stop why)
{
    if (p->stop || p->told)
        return;
    p->stop = why;
    if (p->running)
        loop_process_kill(&p->process);
}

static void on_deadline(struct loop_timer *timer)
{
    transfer_process_stop(LOOP_OWNER_OF(struct transfer_process, deadline, timer), STOP_DEADLINE);
}

static void on_progress(struct transfer_process *p, const struct transfer_progress *progress)
{
    snprintf(p->stage, sizeof(p->stage), "%s", progress->stage);
    if (p->task->progress && !p->stop)
        p->task->progress(p->task, progress);
}

/* One packet; false when there is no more to read now. */
static bool read_report(struct transfer_process *p)
{
    struct transfer_report report;
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = transfer_receive_report(p->socket, &report, &err);
    if (rc == KILN_UNAVAILABLE)
        loop_watch_want(&p->watch, 0); /* its exit will say more */
    else if (rc && rc != KILN_BUSY)
        transfer_process_stop(p, STOP_NONSENSE);
    if (rc)
        return false;
    if (!report.ended) {
        on_progress(p, &report.progress);
        return true;
    }
    if (report.notice[0])
        log_warning("%s", report.notice);
    p->task->outcome = report.outcome;
    p->told = true;
    return false;
}

static void on_socket(struct loop_watch *watch, unsigned events)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, watch, watch);
    if (events & WATCH_READ)
        read_report(p);
    else
        loop_watch_want(&p->watch, 0);
}

static void on_exit_status(struct loop_process *process, int status, int number)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, process, process);
    while (!p->told && !p->stop && read_report(p)) {
    }
    if (p->stop)
        say_stop(p);
    else if (!p->told)
        say_death(p, status, number);
    close_handles(p);
}

/* ---- the start ---- */

static void make_folder(struct task *task)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, work, task);
    const char *staging = p->task->job.staging;
    if (fs_make_folders(staging, err_of(p)))
        return;
    int size = snprintf(p->folder, sizeof(p->folder), "%s/transfer-XXXXXX", staging);
    if (size < 0 || (size_t)size >= sizeof(p->folder))
        kiln_fail(err_of(p), KILN_INVALID, "the folder '%.100s...' is too long", staging);
    else if (!mkdtemp(p->folder))
        kiln_fail_errno(err_of(p), errno, "cannot make a folder in '%s'", staging);
    if (err_of(p)->code)
        p->folder[0] = '\0';
}

static enum kiln_code give_job(struct transfer_process *p)
{
    struct transfer_job job = p->task->job;
    job.staging = p->folder;
    return transfer_send_job(p->socket, &job, err_of(p));
}

static enum kiln_code run_program(struct transfer_process *p, int their_fd)
{
    static const char *const arguments[] = { "kiln-transfer", NULL };
    const struct transfer_process_options *o = p->options;
    const struct loop_spawn spawn = { .program = o->program,
                                      .arguments = arguments,
                                      .fd_3 = their_fd };
    loop_timer_init(o->loop, &p->deadline, &p->owner, on_deadline);
    enum kiln_code rc =
        loop_watch_init(o->loop, &p->watch, &p->owner, p->socket, on_socket, err_of(p));
    if (!rc)
        rc = loop_process_start(o->loop, &p->process, &p->owner, &spawn, err_of(p));
    if (rc)
        return rc;
    p->process.exited = on_exit_status;
    p->running = true;
    return KILN_OK;
}

/* From the first handle on, all goes by closing what is open. */
static void start(struct transfer_process *p)
{
    int pair[2];
    struct kiln_err why;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        kiln_fail_errno(err_of(p), errno, "cannot make a socket pair for kiln-transfer");
        start_clearing(p);
        return;
    }
    p->socket = pair[0];
    enum kiln_code rc = run_program(p, pair[1]);
    close(pair[1]);
    if (rc) {
        kiln_fail(&why, KILN_UNAVAILABLE, "%s (setting transfer)", err_of(p)->text);
        *err_of(p) = why;
        close_handles(p);
        return;
    }
    if (give_job(p)) { /* what it has to say to that comes with its exit */
        p->told = true;
        loop_process_kill(&p->process);
        return;
    }
    loop_watch_want(&p->watch, WATCH_READ);
    loop_timer_start(&p->deadline, p->options->timeout_ms, 0);
}

static void on_folder_made(struct task *task)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, work, task);
    if (p->stop)
        say_stop(p);
    if (err_of(p)->code)
        start_clearing(p);
    else
        start(p);
}

struct transfer_process *transfer_process_start(const struct transfer_process_options *options,
                                                void *context, struct transfer_task *task)
{
    struct transfer_process *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    *p = (struct transfer_process){
        .options = options,
        .context = context,
        .task = task,
        .work = { .work = make_folder, .done = on_folder_made },
        .owner = { .gone = on_handles_closed },
        .socket = -1,
        .stage = "starting",
    };
    task->outcome = (struct transfer_outcome){ .err = KILN_ERR_INIT };
    lanes_run(options->lanes, LANE_READ, &p->work);
    return p;
}
