/* SPDX-License-Identifier: MIT */
#include "daemon/workers/worker.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/log/log.h"
#include "daemon/workers/worker_end.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LEAVE_MS 5000
#define HANG_UP_MS 1000

static struct worker *worker_of_watch(struct loop_watch *watch)
{
    return LOOP_OWNER_OF(struct worker, watch, watch);
}

#define TO(state) (1u << WORKER_##state)

static void move_to_state(struct worker *w, enum worker_state to)
{
    static const unsigned allowed[] = {
        [WORKER_STARTING] = TO(IDLE) | TO(KILLED) | TO(GONE),
        [WORKER_IDLE] = TO(BUSY) | TO(KILLED) | TO(GONE),
        [WORKER_BUSY] = TO(IDLE) | TO(LEAVING) | TO(KILLED) | TO(GONE),
        [WORKER_LEAVING] = TO(KILLED) | TO(GONE),
        [WORKER_KILLED] = TO(GONE),
        [WORKER_GONE] = 0,
    };
    (void)allowed;
    assert(allowed[w->state] & (1u << to));
    w->state = to;
}

static void close_socket(struct worker *w)
{
    loop_watch_close(&w->watch);
    if (w->socket >= 0)
        close(w->socket);
    w->socket = -1;
}

static void kill_for(struct worker *w, enum worker_blame blame)
{
    if (w->blame || w->state == WORKER_GONE)
        return;
    w->blame = blame;
    if (w->state != WORKER_STARTING)
        move_to_state(w, WORKER_KILLED);
    loop_timer_stop(&w->deadline);
    worker_process_kill(&w->process);
}

static void on_deadline(struct loop_timer *timer)
{
    struct worker *w = LOOP_OWNER_OF(struct worker, deadline, timer);
    if (w->hung_up)
        kill_for(w, BLAME_CLOSED);
    else if (w->state == WORKER_STARTING)
        kill_for(w, BLAME_SLOW_START);
    else
        kill_for(w, w->state == WORKER_LEAVING ? BLAME_LINGERED : BLAME_DEADLINE);
}

/* Gives the process time to exit instead of killing it: its own exit status says more than
 * SIGKILL. */
static void on_hang_up(struct worker *w)
{
    w->hung_up = true;
    loop_watch_set(&w->watch, 0);
    loop_timer_start(&w->deadline, HANG_UP_MS, 0);
}

/* Removes the job from the worker first, because the done callback may free the task. */
static void finish_job(struct worker *w, enum compile_end end, const char *text,
                       const struct worker_result *result)
{
    struct compile_task *task = w->task;
    w->task = NULL;
    worker_collect(&w->files, end, text, result, &task->result);
    task->result.wall_ns = clock_monotonic_ns() - w->started_ns;
    w->options->events.finished(w, task);
}

/* Kills the process if it ran a job of a client, who may control the process. */
static void on_result(struct worker *w, const struct worker_result *result)
{
    loop_timer_stop(&w->deadline);
    if (w->is_spent) {
        kill_for(w, BLAME_RETIRED);
    } else if (w->jobs < w->options->limits.jobs) {
        move_to_state(w, WORKER_IDLE);
    } else {
        move_to_state(w, WORKER_LEAVING);
        loop_timer_start(&w->deadline, LEAVE_MS, 0);
        close_socket(w);
    }
    finish_job(w, result->end, result->text, result);
}

static void on_ready_message(struct worker *w, const struct worker_result *handshake)
{
    w->sandbox = handshake->sandbox;
    if (w->options->require_sandbox && w->sandbox.has != LAYERS_ALL) {
        kill_for(w, BLAME_UNCONFINED);
        return;
    }
    loop_timer_stop(&w->deadline);
    move_to_state(w, WORKER_IDLE);
    w->options->events.ready(w, &w->sandbox);
}

static bool read_message(struct worker *w)
{
    enum worker_message message;
    struct worker_result result;
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = worker_receive(w->socket, &message, &result, &err);
    if (rc == KILN_BUSY)
        return false;
    if (!rc && message == WORKER_READY && w->state == WORKER_STARTING && !w->blame)
        on_ready_message(w, &result);
    else if (!rc && message == WORKER_RESULT && w->state == WORKER_BUSY)
        on_result(w, &result);
    else if (rc == KILN_UNAVAILABLE)
        on_hang_up(w);
    else
        kill_for(w, BLAME_NONSENSE);
    return !rc && w->socket >= 0;
}

static void on_socket(struct loop_watch *watch, unsigned events)
{
    struct worker *w = worker_of_watch(watch);
    if (events & WATCH_BROKEN)
        on_hang_up(w);
    else
        read_message(w);
}

static void end_job(struct worker *w, int status, int signal)
{
    char text[sizeof(((struct kiln_err *)0)->text)];
    enum compile_end end = worker_end_of_job(w, status, signal, text, sizeof(text));
    finish_job(w, end, text, NULL);
}

static void on_exit_status(struct worker_process *process, int status, int signal)
{
    struct worker *w = LOOP_OWNER_OF(struct worker, process, process);
    w->hung_up = true;
    /* Reads messages that the process sent before its exit. */
    while (w->socket >= 0 && w->state == WORKER_BUSY && read_message(w)) {
    }
    worker_process_kill(process); /* processes of its group may still run */
    struct kiln_err err = KILN_ERR_INIT;
    worker_end_text(w, status, signal, &err);
    move_to_state(w, WORKER_GONE);
    close_socket(w);
    loop_timer_close(&w->deadline);
    worker_process_close(process);
    w->options->events.exited(w, &err);
    if (w->task)
        end_job(w, status, signal);
}

static void drop_directory(const struct worker *w)
{
    if (w->temp[0])
        fs_remove_tree(AT_FDCWD, w->temp);
}

static void remove_directory(struct task *task)
{
    drop_directory(LOOP_OWNER_OF(struct worker, removal, task));
}

static void on_removed(struct task *task)
{
    struct worker *w = LOOP_OWNER_OF(struct worker, removal, task);
    if (!w->failed_to_start)
        w->options->events.gone(w);
    free(w);
}

static void on_handles_closed(struct loop_owner *owner)
{
    struct worker *w = LOOP_OWNER_OF(struct worker, owner, owner);
    /* no job ran in the process, so removing its directory takes little time */
    if (w->failed_to_start) {
        drop_directory(w);
        free(w);
        return;
    }
    w->removal = (struct task){ .work = remove_directory, .done = on_removed, .uid = getuid() };
    work_queues_run(w->options->work_queues, WORK_QUEUE_READ, &w->removal);
}

static enum kiln_code run_program(struct worker *w, int their_fd, struct kiln_err *err)
{
    const struct process_limits *limits = &w->options->limits;
    const struct worker_user *user = &w->options->temp->user;
    char jobs[16], bounds[80], who[32];
    snprintf(jobs, sizeof(jobs), "%u", limits->jobs);
    snprintf(bounds, sizeof(bounds), "%" PRIu64 ",%" PRIu64 ",%" PRIu64, limits->cpu_s,
             limits->memory, limits->output);
    snprintf(who, sizeof(who), "%u:%u", (unsigned)user->uid, (unsigned)user->gid);
    const char *const arguments[] = {
        "kiln-compiler",
        "--temp",
        w->temp[0] ? w->temp : ".",
        "--max-jobs",
        jobs,
        "--limits",
        bounds,
        "--outside",
        w->options->outside,
        user->other ? "--user" : NULL,
        who,
        NULL,
    };
    const struct worker_spawn spawn = {
        .program = w->options->program,
        .service = w->options->service,
        .arguments = arguments,
        .fd_3 = their_fd,
        .directory = -1,
        .work_queues = w->options->work_queues,
        /* charge kilnd's user, because the jobs of this process may belong to several users */
        .uid = getuid(),
    };
    return worker_process_start(w->options->loop, &w->process, &w->owner, &spawn, err);
}

static enum kiln_code open_handles(struct worker *w, int their_fd, struct kiln_err *err)
{
    loop_timer_init(w->options->loop, &w->deadline, &w->owner, on_deadline);
    w->watch.ready = on_socket;
    enum kiln_code rc = loop_watch_init(w->options->loop, &w->watch, &w->owner, w->socket, err);
    if (!rc)
        rc = run_program(w, their_fd, err);
    if (!rc) {
        w->process.exited = on_exit_status;
        loop_watch_set(&w->watch, WATCH_READ);
        loop_timer_start(&w->deadline, w->options->start_timeout_ms, 0);
        return KILN_OK;
    }
    w->failed_to_start = true;
    close_socket(w);
    loop_timer_close(&w->deadline);
    return rc;
}

static enum kiln_code open_sockets(int pair[2], struct kiln_err *err)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return kiln_fail_errno(err, errno, "cannot make a socket pair for a compiler process");
    return KILN_OK;
}

enum kiln_code worker_start(const struct worker_options *options, void *context,
                            struct worker **ret_worker, struct kiln_err *err)
{
    KILN_AUTO(mem) struct worker *w = calloc(1, sizeof(*w));
    if (!w)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot start a compiler process");
    *w = (struct worker){ .options = options, .context = context, .socket = -1 };
    w->owner.gone = on_handles_closed;
    enum kiln_code rc = KILN_OK;
    if (!*options->service)
        rc = temp_directory_make(options->temp, w->temp, err);
    if (rc)
        return rc;
    int pair[2];
    rc = open_sockets(pair, err);
    if (rc) {
        drop_directory(w);
        return rc;
    }
    w->socket = pair[0];
    struct worker *started = KILN_TAKE(w);
    rc = open_handles(started, pair[1], err);
    close(pair[1]);
    if (rc)
        return rc;
    *ret_worker = started;
    return KILN_OK;
}

static void remember_toolchain(struct worker *w, const struct compile_job *job)
{
    struct bytes name = job->toolchain;
    size_t size = name.size < sizeof(w->toolchain) ? name.size : sizeof(w->toolchain) - 1;
    memcpy(w->toolchain, name.data, size);
    w->toolchain[size] = '\0';
    w->toolchain_id = job->toolchain_id;
}

enum kiln_code worker_run_job(struct worker *w, struct compile_task *task, struct kiln_err *err)
{
    enum kiln_code rc = worker_send_job(w->socket, &task->job, &w->files, err);
    if (rc == KILN_UNAVAILABLE)
        kill_for(w, BLAME_CLOSED);
    if (rc)
        return rc;
    move_to_state(w, WORKER_BUSY);
    w->jobs++;
    w->is_spent = task->job.origin == COMPILE_OF_CLIENT;
    w->task = task;
    w->started_ns = clock_monotonic_ns();
    if (task->job.toolchain.size > 0)
        remember_toolchain(w, &task->job);
    /* a warm-up always has the shortest time limit, because other jobs may wait for it */
    bool prepares = task == &w->warmup.task;
    w->time_ms = prepares ? WORKER_PROBE_MIN_MS : worker_time_ms(w->options, task->job.kind);
    loop_timer_start(&w->deadline, w->time_ms, 0);
    return KILN_OK;
}

void worker_retire(struct worker *w) { kill_for(w, BLAME_RETIRED); }

void worker_stop(struct worker *w) { kill_for(w, BLAME_STOPPED); }

void worker_yield(struct worker *w) { kill_for(w, BLAME_YIELDED); }
