/* SPDX-License-Identifier: MIT */
#include "daemon/built_in/one_compiler.h"

#include "common/base/clock.h"
#include "common/base/detached.h"
#include "common/base/fs.h"
#include "daemon/built_in/programs.h"
#include "daemon/programs/launch.h"
#include "daemon/workers/temp_directory.h"
#include "engine/compile/worker_wire.h"
#include "engine/embed/defaults.h"
#include "engine/sandbox/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define MS 1000000ull
#define PROBE_MS 60000u /* time limit of jobs that compile no kernel */
#define START_MS 30000u
#define END_MS 5000u
#define EXIT_USAGE 2

enum process_state { PROCESS_NONE, PROCESS_STARTING, PROCESS_IDLE, PROCESS_BUSY };

struct one_compiler {
    struct embed_compiler base;
    struct built_in_programs programs;
    struct temp_root temp;
    int wake_fd; /* owned; -1: none */
    int launch;  /* owned connection to kiln-launch; -1 if it does not run */
    enum process_state state;
    bool has_hung_up;
    int socket, control; /* owned; -1: none */
    unsigned jobs;
    uint64_t deadline_ns;
    char directory[PATH_TEXT_MAX];
    const struct compile_job *job; /* borrowed; NULL if no job is running */
    struct compile_result *result;
    struct worker_files files; /* owned while |state| is PROCESS_BUSY */
    uint64_t started_ns;
};

static struct one_compiler *self_of(struct embed_compiler *base)
{
    return (struct one_compiler *)base;
}

static uint64_t in_ms(unsigned ms) { return clock_monotonic_ns() + ms * MS; }

static bool await_end(struct one_compiler *c, struct launch_report *ret_report)
{
    uint64_t end = in_ms(END_MS);
    for (uint64_t now = clock_monotonic_ns(); now < end; now = clock_monotonic_ns()) {
        struct pollfd polled = { .fd = c->control, .events = POLLIN };
        (void)poll(&polled, 1, (int)((end - now) / MS) + 1);
        enum kiln_code rc = launch_receive_report(c->control, ret_report);
        if (!rc && ret_report->kind == LAUNCH_ENDED)
            return true;
        if (rc && rc != KILN_BUSY)
            return false;
    }
    return false;
}

static void end_process(struct one_compiler *c)
{
    struct launch_report unused;
    if (c->control >= 0) {
        shutdown(c->control, SHUT_WR);
        (void)await_end(c, &unused);
    }
    fd_close(&c->control);
    fd_close(&c->socket);
    if (c->directory[0])
        fs_remove_tree(AT_FDCWD, c->directory);
    c->directory[0] = '\0';
    c->has_hung_up = false;
    c->state = PROCESS_NONE;
}

static void finish_job(struct one_compiler *c, enum compile_end end, const char *text,
                       const struct worker_result *collected)
{
    struct compile_result *result = c->result;
    if (c->state == PROCESS_BUSY) {
        worker_collect(&c->files, end, text, collected, result);
        result->wall_ns = clock_monotonic_ns() - c->started_ns;
    } else {
        *result = COMPILE_RESULT_INIT;
        result->end = end;
        kiln_fail(&result->err, KILN_UNAVAILABLE, "%s", text);
    }
    c->job = NULL;
    c->result = NULL;
}

static void fail_job(struct one_compiler *c, enum compile_end end, const char *how)
{
    struct kiln_err said = KILN_ERR_INIT;
    const struct compile_job *job = c->job;
    if (c->state != PROCESS_BUSY)
        kiln_fail(&said, KILN_UNAVAILABLE, "'%s' %s", c->programs.compiler, how);
    else if (job->kind == COMPILE_DESCRIBE)
        kiln_fail(&said, KILN_UNAVAILABLE, "kiln-compiler %s while looking for compilers", how);
    else
        kiln_fail(&said, KILN_UNAVAILABLE,
                  "kiln-compiler %s while compiling '%.*s' with %.*s for %.*s", how,
                  (int)job->program.size, (const char *)job->program.data, (int)job->toolchain.size,
                  (const char *)job->toolchain.data, (int)job->target.size,
                  (const char *)job->target.data);
    finish_job(c, c->state == PROCESS_BUSY ? end : COMPILE_UNAVAILABLE, said.text, NULL);
    end_process(c);
}

/* Ends a kiln-compiler that belongs to another build of kiln.  Such a kiln-compiler sends an
 * invalid message before it is ready, or exits with a usage error. */
static void fail_other_build(struct one_compiler *c, const char *how)
{
    struct kiln_err said = KILN_ERR_INIT;
    kiln_fail(&said, KILN_UNAVAILABLE,
              "'%s' belongs to another build of kiln, because it %s: set KILN_COMPILER to the "
              "kiln-compiler of this build (" KILN_VERSION ")",
              c->programs.compiler, how);
    finish_job(c, COMPILE_UNAVAILABLE, said.text, NULL);
    end_process(c);
}

static enum compile_end end_of_signal(int signal)
{
    switch (signal) {
    case SIGXCPU: return COMPILE_TIMED_OUT;
    case SIGXFSZ: return COMPILE_OUTPUT;
    case SIGKILL:
        return COMPILE_UNAVAILABLE; /* sent by the OOM killer or a person */
    /* For other signals, worker_collect may find a better cause in the compiler's log, such as a
     * lack of memory. */
    default: return COMPILE_CRASHED;
    }
}

static void fail_ended(struct one_compiler *c, const struct launch_report *report)
{
    char how[160];
    int signal = report->signal_;
    if (c->state == PROCESS_STARTING && !signal && report->status == EXIT_USAGE) {
        fail_other_build(c, "does not know its flags");
        return;
    }
    if (signal)
        snprintf(how, sizeof(how), "died of signal %d (%s)", signal, strsignal(signal));
    else
        snprintf(how, sizeof(how), "exited with status %d%s", report->status,
                 c->state == PROCESS_STARTING ? " before it was ready" : "");
    fail_job(c, signal ? end_of_signal(signal) : COMPILE_CRASHED, how);
}

static void fail_late(struct one_compiler *c)
{
    char how[80];
    if (c->has_hung_up)
        fail_job(c, COMPILE_CRASHED, "closed its connection during the job");
    else if (c->state == PROCESS_STARTING)
        fail_job(c, COMPILE_UNAVAILABLE, "was not ready within 30 s");
    else {
        snprintf(how, sizeof(how), "took longer than %u s",
                 (c->job->kind == COMPILE_KERNEL ? DEFAULT_COMPILE_MS : PROBE_MS) / 1000);
        fail_job(c, COMPILE_TIMED_OUT, how);
    }
}

static enum kiln_code start_launch(struct one_compiler *c, struct kiln_err *err)
{
    static char name[] = "kiln-launch", flag[] = "--keep";
    char *const arguments[] = { name, flag, NULL };
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return kiln_fail_errno(err, errno, "cannot make a socket for '%s'", c->programs.launch);
    const int files[] = { -1, -1, ends[1] };
    const struct detached launch = { .program = c->programs.launch,
                                     .arguments = arguments,
                                     .environment = environ,
                                     .files = files,
                                     .file_count = 3 };
    int errnum = detached_start(&launch);
    close(ends[1]);
    c->launch = ends[0];
    if (!errnum)
        return KILN_OK;
    fd_close(&c->launch);
    return kiln_fail_errno(err, errnum, "cannot run '%s'", c->programs.launch);
}

static enum kiln_code prepare_programs(struct one_compiler *c, struct kiln_err *err)
{
    const struct worker_user user = { .uid = geteuid(), .gid = getegid() };
    if (c->wake_fd < 0)
        c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake_fd < 0)
        return kiln_fail_errno(err, errno, "cannot make an eventfd");
    if (c->temp.fd >= 0)
        return KILN_OK;
    enum kiln_code rc = built_in_programs_find(&c->programs, err);
    if (rc)
        return rc;
    rc = temp_root_open(c->programs.temp, &user, &c->temp, err);
    if (rc)
        c->temp.fd = -1;
    return rc;
}

static enum kiln_code pass_launch_request(struct one_compiler *c,
                                          const struct launch_request *request,
                                          struct kiln_err *err)
{
    if (c->launch >= 0 && launch_send_request(c->launch, request, err) == KILN_OK)
        return KILN_OK;
    fd_close(&c->launch);
    enum kiln_code rc = start_launch(c, err);
    return rc ? rc : launch_send_request(c->launch, request, err);
}

/* Asks kiln-launch to start the compiler: passes it one end of a new connection. kiln-launch forks
 * a child, which waits on this connection until run_compiler sends the compiler's arguments. */
static enum kiln_code reach_launch(struct one_compiler *c, struct kiln_err *err)
{
    const char *const arguments[] = { c->programs.compiler, NULL };
    int ends[2], nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0)
        return kiln_fail_errno(err, errno, "cannot open /dev/null");
    enum kiln_code rc = KILN_OK;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        rc = kiln_fail_errno(err, errno, "cannot make a socket for '%s'", c->programs.compiler);
    if (!rc) {
        const struct launch_request request = { arguments, ends[1], nothing };
        rc = pass_launch_request(c, &request, err);
        close(ends[1]);
        c->control = ends[0]; /* end_process closes it, even after a failure */
    }
    close(nothing);
    return rc;
}

static enum kiln_code run_compiler(struct one_compiler *c, struct kiln_err *err)
{
    char outside[NAMESPACE_TEXT_MAX];
    struct namespace_ids own;
    int ends[2];
    namespaces_read(&own);
    namespaces_to_text(&own, outside);
    const char *const arguments[] = {
        "kiln-compiler",     "--temp",    c->directory, "--max-jobs", DEFAULT_JOBS_TEXT, "--limits",
        DEFAULT_LIMITS_TEXT, "--outside", outside,      NULL
    };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return kiln_fail_errno(err, errno, "cannot make a socket for a compiler process");
    const struct launch_request request = { arguments, ends[1], -1 };
    enum kiln_code rc = launch_send_request(c->control, &request, err);
    close(ends[1]);
    c->socket = ends[0];
    return rc;
}

static enum kiln_code start_process(struct one_compiler *c, struct kiln_err *err)
{
    enum kiln_code rc = prepare_programs(c, err);
    if (!rc)
        rc = temp_directory_make(&c->temp, c->directory, err);
    if (!rc)
        rc = reach_launch(c, err);
    if (!rc)
        rc = run_compiler(c, err);
    if (rc) {
        end_process(c);
        return rc;
    }
    c->state = PROCESS_STARTING;
    c->jobs = 0;
    c->deadline_ns = in_ms(START_MS);
    return KILN_OK;
}

static void give_job(struct one_compiler *c)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (worker_send_job(c->socket, c->job, &c->files, &err)) {
        finish_job(c, COMPILE_UNAVAILABLE, err.text, NULL);
        end_process(c);
        return;
    }
    c->state = PROCESS_BUSY;
    c->jobs++;
    c->started_ns = clock_monotonic_ns();
    c->deadline_ns = in_ms(c->job->kind == COMPILE_KERNEL ? DEFAULT_COMPILE_MS : PROBE_MS);
}

static void take_result(struct one_compiler *c, const struct worker_result *result)
{
    bool is_spent = c->job->origin == COMPILE_OF_CLIENT || c->jobs >= DEFAULT_JOBS_MAX;
    finish_job(c, result->end, result->text, result);
    if (is_spent)
        end_process(c);
    else
        c->state = PROCESS_IDLE;
}

static void read_message(struct one_compiler *c)
{
    enum worker_message message;
    struct worker_result result;
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = worker_receive(c->socket, &message, &result, &err);
    if (rc == KILN_BUSY)
        return;
    if (!rc && message == WORKER_READY && c->state == PROCESS_STARTING) {
        give_job(c);
    } else if (!rc && message == WORKER_RESULT && c->state == PROCESS_BUSY) {
        take_result(c, &result);
    } else if (rc == KILN_UNAVAILABLE) { /* probably exiting */
        c->has_hung_up = true;
        c->deadline_ns = in_ms(END_MS);
    } else if (c->state == PROCESS_STARTING) {
        fail_other_build(c, "greets otherwise");
    } else {
        fail_job(c, COMPILE_CRASHED, "sent an invalid answer");
    }
}

static void read_report(struct one_compiler *c)
{
    struct launch_report report;
    enum kiln_code rc = launch_receive_report(c->control, &report);
    if (rc == KILN_BUSY || (!rc && report.kind == LAUNCH_STARTED))
        return;
    if (!c->has_hung_up && c->state == PROCESS_BUSY)
        read_message(c); /* reads messages that the process sent before its exit */
    if (!c->job)
        return;
    if (rc)
        fail_job(c, COMPILE_UNAVAILABLE, "ended with the kiln-launch that started it");
    else
        fail_ended(c, &report);
}

static bool is_alive(struct one_compiler *c)
{
    struct pollfd polled = { .fd = c->socket, .events = POLLIN };
    struct launch_report report;
    if (poll(&polled, 1, 0) > 0)
        return false;
    enum kiln_code rc = launch_receive_report(c->control, &report);
    while (!rc && report.kind == LAUNCH_STARTED)
        rc = launch_receive_report(c->control, &report);
    return rc == KILN_BUSY;
}

static void begin_job(struct embed_compiler *base, const struct compile_job *job,
                      struct compile_result *result)
{
    struct one_compiler *c = self_of(base);
    struct kiln_err err = KILN_ERR_INIT;
    c->job = job;
    c->result = result;
    if (c->state == PROCESS_IDLE && !is_alive(c))
        end_process(c);
    if (c->state == PROCESS_IDLE)
        give_job(c);
    else if (start_process(c, &err))
        finish_job(c, COMPILE_UNAVAILABLE, err.text, NULL);
}

static bool wait_for_job(struct embed_compiler *base, uint64_t deadline_ns)
{
    struct one_compiler *c = self_of(base);
    while (c->job) {
        uint64_t now = clock_monotonic_ns();
        if (now >= c->deadline_ns)
            fail_late(c);
        if (!c->job || now >= deadline_ns)
            break;
        uint64_t until = deadline_ns < c->deadline_ns ? deadline_ns : c->deadline_ns;
        struct pollfd polled[] = { { .fd = c->has_hung_up ? -1 : c->socket, .events = POLLIN },
                                   { .fd = c->control, .events = POLLIN },
                                   { .fd = c->wake_fd, .events = POLLIN } };
        if (poll(polled, 3, (int)((until - now) / MS) + 1) <= 0)
            continue;
        if (polled[0].revents)
            read_message(c);
        else if (polled[1].revents)
            read_report(c);
        uint64_t count;
        if (polled[2].revents && read(c->wake_fd, &count, sizeof(count)) > 0)
            break;
    }
    return !c->job;
}

static void wake_waiter(struct embed_compiler *base)
{
    const uint64_t one = 1;
    (void)!write(self_of(base)->wake_fd, &one, sizeof(one));
}

static void stop_all(struct embed_compiler *base)
{
    struct one_compiler *c = self_of(base);
    if (c->job)
        finish_job(c, COMPILE_UNAVAILABLE, "kiln-compiler was stopped: the last client is closed",
                   NULL);
    end_process(c);
    fd_close(&c->launch);
    if (c->temp.fd >= 0)
        temp_root_close(&c->temp);
    c->temp.fd = -1;
    fd_close(&c->wake_fd);
}

static void forget_all(struct embed_compiler *base)
{
    struct one_compiler *c = self_of(base);
    int *const fds[] = { &c->socket, &c->control, &c->launch, &c->wake_fd, &c->temp.fd };
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        fd_close(fds[i]);
    if (c->state == PROCESS_BUSY && c->job) {
        fd_close(&c->files.object_fd);
        fd_close(&c->files.log_fd);
    }
    c->directory[0] = '\0';
    c->has_hung_up = false;
    c->job = NULL;
    c->state = PROCESS_NONE;
}

static const struct embed_compiler_ops ops = {
    .begin = begin_job,
    .wait = wait_for_job,
    .wake = wake_waiter,
    .stop = stop_all,
    .forget = forget_all,
};

struct embed_compiler *one_compiler(void)
{
    static struct one_compiler it = {
        .base.ops = &ops, .temp.fd = -1, .wake_fd = -1, .launch = -1, .socket = -1, .control = -1
    };
    return &it.base;
}
