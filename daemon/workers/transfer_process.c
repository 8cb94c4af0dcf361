/* SPDX-License-Identifier: MIT */
#include "daemon/workers/transfer_process.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "common/log/log.h"
#include "engine/transfer/transfer_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct kiln_err *err_of(struct transfer_process *p) { return &p->task->result.err; }

static bool is_launched(const struct transfer_process *p) { return *p->options->service != '\0'; }

static void say_stop(struct transfer_process *p, enum transfer_stop stop)
{
    struct kiln_err *err = err_of(p);
    switch (stop) {
    case STOP_CANCELLED: kiln_fail(err, KILN_CANCELLED, "the transfer was cancelled"); break;
    case STOP_SHUTDOWN: kiln_fail(err, KILN_UNAVAILABLE, "kilnd is shutting down"); break;
    case STOP_DEADLINE:
        kiln_fail(err, KILN_TIMED_OUT, "the transfer took longer than %.1f hours",
                  (double)p->options->timeout_ms / 3.6e6);
        break;
    case STOP_SILENCE:
        kiln_fail(err, KILN_TIMED_OUT,
                  "kiln-transfer made no progress for %.0f seconds while %s, and was killed: check "
                  "the disk of kilnd's state directory and the filesystem of the file",
                  (double)p->options->silence_ms / 1e3, p->stage);
        break;
    default:
        kiln_fail(err, KILN_IO, "kiln-transfer sent an invalid answer while %s", p->stage);
        break;
    }
}

/* Removes |path|.  If that fails, records the reason: kilnd may lack the rights to remove files
 * that another user created in |path|. */
static void remove_it(struct transfer_process *p, const char *path)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (fs_remove(AT_FDCWD, path, &err))
        p->kept = err;
}

static void say_kept(const struct transfer_process *p)
{
    if (p->kept.code)
        log_event(LOG_EVENT_directory_left, NULL,
                  "files of kiln-transfer cannot be removed; kilnd tries again when it starts: %s",
                  p->kept.text);
}

/* Prepares to copy the file that the process made. kilnd does not use the original, because a
 * process that still runs may have it open and could truncate it while kilnd has it mapped. */
static enum kiln_code prepare_copy(struct transfer_process *p)
{
    struct transfer_result *o = &p->task->result;
    if ((size_t)snprintf(o->path, sizeof(o->path), "%s.file", p->directory) >= sizeof(o->path))
        return kiln_fail(&o->err, KILN_INVALID, "the directory '%s' is too long", p->directory);
    snprintf(p->made, sizeof(p->made), "%s/%s", p->directory, o->name);
    p->take = (struct file_take){ .from = p->made,
                                  .to = o->path,
                                  .size_max = p->task->job.size_limit,
                                  .is_synced = !p->task->job.of_user,
                                  .stopped = &p->unwanted };
    return KILN_OK;
}

static enum kiln_code take_file(struct transfer_process *p)
{
    struct transfer_result *o = &p->task->result;
    enum kiln_code rc = p->take.has_begun ? KILN_OK : prepare_copy(p);
    if (!rc)
        rc = take_copy(&p->take, &p->takes_more, &o->err);
    o->size = p->take.size;
    o->err.code = rc;
    return rc;
}

/* Reads the package's manifest.  If the manifest is missing or incomplete, the package has no
 * signature. */
static void take_manifest(struct transfer_process *p)
{
    struct transfer_result *o = &p->task->result;
    char path[TRANSFER_DIRECTORY_MAX + sizeof(TRANSFER_MANIFEST)];
    struct stat seen;
    struct kiln_err ignored = KILN_ERR_INIT;
    struct buffer content;
    snprintf(path, sizeof(path), "%s/" TRANSFER_MANIFEST, p->directory);
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &seen) != 0 || !S_ISREG(seen.st_mode))
        return;
    buffer_init(&content, TRANSFER_MANIFEST_MAX);
    if (fs_read_fd(fd, TRANSFER_MANIFEST_MAX, &content, &ignored)) {
        buffer_done(&content);
        return;
    }
    o->manifest_size = content.size;
    o->manifest = content.data;
}

static void clear_directory(struct task *task)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, work, task);
    if (p->directory[0] == '\0')
        return;
    if (p->task && (err_of(p)->code || take_file(p)))
        p->task->result.path[0] = '\0';
    else if (p->takes_more)
        return;
    else if (p->task)
        take_manifest(p);
    remove_it(p, p->directory);
}

static void run_clearing(struct transfer_process *p);

static void on_cleared(struct task *task)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, work, task);
    if (p->takes_more) {
        run_clearing(p);
        return;
    }
    say_kept(p);
    if (p->task && err_of(p)->code == KILN_CANCELLED && atomic_load(&p->unwanted))
        say_stop(p, (enum transfer_stop)atomic_load(&p->unwanted));
    if (!p->is_stuck)
        p->options->ended(p);
    p->options->gone(p);
    free(p);
}

static void run_clearing(struct transfer_process *p)
{
    p->work = (struct task){ .work = clear_directory, .done = on_cleared, .uid = p->uid };
    work_queues_run(p->options->work_queues, WORK_QUEUE_READ, &p->work);
}

static void start_clearing(struct transfer_process *p)
{
    p->running = false;
    run_clearing(p);
}

static void on_handles_closed(struct loop_owner *owner)
{
    start_clearing(LOOP_OWNER_OF(struct transfer_process, owner, owner));
}

static void close_handles(struct transfer_process *p)
{
    loop_watch_close(&p->watch);
    loop_timer_close(&p->deadline);
    loop_timer_close(&p->silence);
    loop_timer_close(&p->killed);
    if (!p->is_stuck)
        worker_process_close(&p->process);
    fd_auto(&p->socket);
    p->socket = -1;
}

static void say_death(struct transfer_process *p, int status, int number)
{
    const char *name = number ? sigabbrev_np(number) : NULL;
    if (status == WORKER_PROCESS_NOT_STARTED)
        kiln_fail(err_of(p), KILN_UNAVAILABLE, "cannot run '%s': %s (setting transfer)",
                  p->options->program, strerror(p->process.start_errnum));
    else if (status == WORKER_PROCESS_LOST && !is_launched(p))
        kiln_fail(err_of(p), KILN_IO,
                  "kiln-transfer ended while %s, with the kiln-launch that supervised it",
                  p->stage);
    else if (status == WORKER_PROCESS_LOST)
        kiln_fail(err_of(p), KILN_IO,
                  "kiln-transfer was not started, or ended, by the service manager while %s: see "
                  "'journalctl -u \"kiln-transfer@*\"'",
                  p->stage);
    else if (name)
        kiln_fail(err_of(p), KILN_IO, "kiln-transfer died of SIG%s (%s) while %s", name,
                  sigdescr_np(number), p->stage);
    else
        kiln_fail(err_of(p), KILN_IO, "kiln-transfer exited with status %d while %s",
                  number ? 128 + number : status, p->stage);
}

static void say_orphan(struct transfer_process *p)
{
    if (p->stop == STOP_CANCELLED || p->stop == STOP_SHUTDOWN)
        say_stop(p, p->stop);
    else
        kiln_fail(err_of(p), KILN_TIMED_OUT,
                  "kiln-transfer was killed while %s but has not ended, because the filesystem of "
                  "the file does not respond: copy the file to another filesystem",
                  p->stage);
}

static void on_still_there(struct loop_timer *timer)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, killed, timer);
    const uint32_t uid = (uint32_t)p->uid;
    const struct log_fields fields = { .uid = &uid };
    if (p->process.is_starting) { /* the process will be killed once it has started */
        loop_timer_start(timer, p->options->exit_ms, 0);
        return;
    }
    say_orphan(p);
    log_event(LOG_EVENT_transfer_stuck, &fields,
              "kiln-transfer, pid %d, cannot be ended: the filesystem of a file from user %u does "
              "not respond",
              (int)p->process.child.pid, (unsigned)p->uid);
    p->is_stuck = true;
    close_handles(p);
    p->options->ended(p);
    p->task = NULL;
}

static void end_process(struct transfer_process *p)
{
    if (!p->running)
        return;
    worker_process_kill(&p->process);
    loop_timer_start(&p->killed, p->options->exit_ms, 0);
}

void transfer_process_stop(struct transfer_process *p, enum transfer_stop why)
{
    bool asked = why == STOP_CANCELLED || why == STOP_SHUTDOWN;
    if (asked && !atomic_load(&p->unwanted))
        atomic_store(&p->unwanted, (int)why);
    if (p->stop)
        return;
    p->stop = why;
    end_process(p);
}

void transfer_process_abandon(struct transfer_process *p) { worker_process_close(&p->process); }

static void on_deadline(struct loop_timer *timer)
{
    transfer_process_stop(LOOP_OWNER_OF(struct transfer_process, deadline, timer), STOP_DEADLINE);
}

static void on_silence(struct loop_timer *timer)
{
    transfer_process_stop(LOOP_OWNER_OF(struct transfer_process, silence, timer), STOP_SILENCE);
}

static void on_progress(struct transfer_process *p, const struct transfer_progress *progress)
{
    loop_timer_start(&p->silence, p->options->silence_ms, 0);
    snprintf(p->stage, sizeof(p->stage), "%s", progress->stage);
    if (p->task->progress && !p->stop)
        p->task->progress(p->task, progress);
}

static bool read_report(struct transfer_process *p)
{
    struct transfer_report report;
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = transfer_receive_report(p->socket, &report, &err);
    if (rc == KILN_UNAVAILABLE)
        loop_watch_set(&p->watch, 0);
    else if (rc && rc != KILN_BUSY)
        transfer_process_stop(p, STOP_NONSENSE);
    if (rc)
        return false;
    if (!report.ended) {
        on_progress(p, &report.progress);
        return true;
    }
    if (report.notice[0])
        log_event(LOG_EVENT_transfer_notice, NULL, "%s", report.notice);
    p->task->result = report.result;
    p->reported = true;
    snprintf(p->stage, sizeof(p->stage), "closing files");
    loop_watch_set(&p->watch, 0);
    loop_timer_start(&p->silence, p->options->exit_ms, 0);
    return false;
}

static void on_socket(struct loop_watch *watch, unsigned events)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, watch, watch);
    if (events & WATCH_READ)
        read_report(p);
    else
        loop_watch_set(&p->watch, 0);
}

static void on_exit_status(struct worker_process *process, int status, int number)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, process, process);
    p->running = false;
    worker_process_kill(process); /* processes of its group may still run */
    if (p->is_stuck) {
        worker_process_close(process);
        return;
    }
    while (!p->reported && !p->stop && read_report(p)) {
    }
    if (p->stop && !p->reported)
        say_stop(p, p->stop);
    else if (!p->reported)
        say_death(p, status, number);
    close_handles(p);
}

/* Gives the process access to the directory: a child as its owner, a process in a unit by its
 * group. kilnd needs no special rights to set a group that it is a member of. */
static void give_directory(struct transfer_process *p)
{
    const struct worker_user *user = &p->options->user;
    if (user->other && chown(p->directory, user->uid, user->gid) != 0)
        kiln_fail_errno(err_of(p), errno, "cannot give '%s' to user %u (setting transfer_user)",
                        p->directory, (unsigned)user->uid);
    else if (is_launched(p) &&
             (chown(p->directory, (uid_t)-1, user->gid) != 0 || chmod(p->directory, 0770) != 0))
        kiln_fail_errno(err_of(p), errno,
                        "cannot give '%s' to group %u: kilnd must be a member of it "
                        "(SupplementaryGroups= of its unit)",
                        p->directory, (unsigned)user->gid);
    if (err_of(p)->code)
        rmdir(p->directory);
}

static void make_directory(struct task *task)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, work, task);
    const char *staging = p->task->job.staging;
    if (fs_make_directories(staging, err_of(p)))
        return;
    int size = snprintf(p->directory, sizeof(p->directory), "%s/transfer-XXXXXX", staging);
    if (size < 0 || (size_t)size >= sizeof(p->directory))
        kiln_fail(err_of(p), KILN_INVALID, "the directory '%.100s...' is too long", staging);
    else if (!mkdtemp(p->directory))
        kiln_fail_errno(err_of(p), errno, "cannot make a directory in '%s'", staging);
    else
        give_directory(p);
    if (err_of(p)->code)
        p->directory[0] = '\0';
}

static enum kiln_code give_job(struct transfer_process *p)
{
    struct transfer_job job = p->task->job;
    job.staging = is_launched(p) ? "." : p->directory;
    job.disk_part = p->options->disk_part;
    return transfer_send_job(p->socket, &job, err_of(p));
}

static enum kiln_code run_program(struct transfer_process *p, int their_fd)
{
    const struct transfer_process_options *o = p->options;
    char user[32];
    snprintf(user, sizeof(user), "%u:%u", (unsigned)o->user.uid, (unsigned)o->user.gid);
    const char *const arguments[] = { "kiln-transfer", o->user.other ? "--user" : NULL, user,
                                      NULL };
    static const char *const launched[] = { "kiln-transfer", "--launched", NULL };
    KILN_AUTO(fd) int directory = -1;
    if (is_launched(p))
        directory = open(p->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct worker_spawn spawn = { .program = o->program,
                                        .service = o->service,
                                        .arguments = is_launched(p) ? launched : arguments,
                                        .fd_3 = their_fd,
                                        .directory = directory,
                                        .work_queues = o->work_queues,
                                        .uid = p->uid };
    if (is_launched(p) && directory < 0)
        return kiln_fail_errno(err_of(p), errno, "cannot open the directory '%s'", p->directory);
    loop_timer_init(o->loop, &p->deadline, &p->owner, on_deadline);
    loop_timer_init(o->loop, &p->silence, &p->owner, on_silence);
    loop_timer_init(o->loop, &p->killed, &p->owner, on_still_there);
    p->watch.ready = on_socket;
    enum kiln_code rc = loop_watch_init(o->loop, &p->watch, &p->owner, p->socket, err_of(p));
    if (!rc)
        rc = worker_process_start(o->loop, &p->process, &p->owner, &spawn, err_of(p));
    if (rc)
        return rc;
    p->process.exited = on_exit_status;
    p->running = true;
    return KILN_OK;
}

static void start_process(struct transfer_process *p)
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
    if (give_job(p)) { /* do not report the failure: the process's exit explains it */
        p->reported = true;
        end_process(p);
        return;
    }
    loop_watch_set(&p->watch, WATCH_READ);
    loop_timer_start(&p->deadline, p->options->timeout_ms, 0);
    loop_timer_start(&p->silence, p->options->silence_ms, 0);
}

static void on_directory_made(struct task *task)
{
    struct transfer_process *p = LOOP_OWNER_OF(struct transfer_process, work, task);
    if (p->stop)
        say_stop(p, p->stop);
    if (err_of(p)->code)
        start_clearing(p);
    else
        start_process(p);
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
        .uid = task->uid,
        .work = { .work = make_directory, .done = on_directory_made, .uid = task->uid },
        .owner = { .gone = on_handles_closed },
        .socket = -1,
        .stage = "starting",
    };
    task->result = (struct transfer_result){ .err = KILN_ERR_INIT };
    work_queues_run(options->work_queues, WORK_QUEUE_READ, &p->work);
    return p;
}
