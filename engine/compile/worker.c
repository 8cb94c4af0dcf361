/* SPDX-License-Identifier: MIT */
#include "common/base/fd_message.h"
#include "common/base/fs.h"
#include "engine/compile/code_object.h"
#include "engine/compile/compiler.h"
#include "engine/compile/headers.h"
#include "engine/compile/process_limits.h"
#include "engine/compile/scratch.h"
#include "engine/compile/toolchain.h"
#include "engine/compile/worker_packet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define EXIT_DONE 0
#define EXIT_WIRE 3
#define ARGUMENTS_MAX 12

struct job_files {
    int job_fd;
    int object_fd;
    int log_fd;
};

#define NO_FILES ((struct job_files){ -1, -1, -1 })

struct worker {
    const struct compiler_worker_options *options;
    struct compiler *opened[COMPILERS]; /* in the order of compilers[] */
    struct digest identity[COMPILERS];
    bool identified[COMPILERS];
    bool restarted; /* kiln-compiler has re-executed itself for the current job (restart_worker) */
    /* Owned copies of the standard output and error with which the process started. The job's log
     * replaces them while a job runs. */
    int worker_out, worker_err;
    unsigned jobs_left; /* including the current job; 0: unlimited */
};

struct current_job {
    const struct job_files *files;
    struct compile_job job;
    struct target target;
    size_t place;
};

static void worker_done(struct worker *w)
{
    for (size_t i = 0; i < COMPILERS; i++) {
        if (w->opened[i])
            w->opened[i]->ops->close(w->opened[i]);
    }
    fd_auto(&w->worker_out);
    fd_auto(&w->worker_err);
}

static void files_done(struct job_files *f)
{
    fd_auto(&f->job_fd);
    fd_auto(&f->object_fd);
    fd_auto(&f->log_fd);
}

static enum kiln_code wait_for_job(int socket_fd, struct job_files *ret_files, struct kiln_err *err)
{
    uint8_t packet[2];
    struct iovec space = { .iov_base = packet, .iov_len = sizeof(packet) };
    int fds[WORKER_JOB_FILES], flags = 0;
    ssize_t got = fd_message_receive(socket_fd, space, fds, WORKER_JOB_FILES, &flags);
    if (got == 0 || (got < 0 && errno == ECONNRESET))
        return KILN_NOT_FOUND;
    if (got < 0)
        return kiln_fail_errno(err, errno, "cannot wait for a job");
    *ret_files = (struct job_files){ fds[0], fds[1], fds[2] };
    if (got != 1 || packet[0] != WORKER_JOB || ret_files->log_fd < 0)
        return kiln_fail(err, KILN_INVALID, "the daemon sent %zd bytes that are not a job", got);
    return KILN_OK;
}

static enum kiln_code send_packet(int socket_fd, const struct buffer *packet, struct kiln_err *err)
{
    ssize_t sent;
    do
        sent = send(socket_fd, packet->data, packet->size, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? kiln_fail_errno(err, errno, "cannot send to the daemon") : KILN_OK;
}

static void direct_output(int out_fd, int err_fd)
{
    fflush(stdout);
    fflush(stderr);
    dup2(out_fd, STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
}

static bool needs_restart(const struct worker *w, const struct compiler_ops *ops)
{
    for (size_t i = 0; i < COMPILERS; i++) {
        if (w->opened[i] && compilers[i] != ops && compilers[i]->needs_own_process)
            return ops->needs_own_process;
    }
    return false;
}

static void clear_log(int log_fd)
{
    if (ftruncate(log_fd, 0) == 0)
        lseek(log_fd, 0, SEEK_SET);
}

static bool keep_across_exec(int fd) { return fcntl(fd, F_SETFD, 0) == 0; }

static void add_argument(const char *arguments[ARGUMENTS_MAX], const char *flag, const char *value)
{
    size_t count = 0;
    while (arguments[count])
        count++;
    if (!value || count + 2 >= ARGUMENTS_MAX)
        return;
    arguments[count] = flag;
    arguments[count + 1] = value;
}

/* Re-executes kiln-compiler, so that no compiler library is loaded. Process, socket and sandbox
 * remain the same. Returns only on failure. */
static enum compile_end restart_worker(const struct worker *w, const struct job_files *files,
                                       struct kiln_err *err)
{
    char jobs[16], numbers[48];
    const char *arguments[ARGUMENTS_MAX] = { "kiln-compiler", "--temp", ".", "--max-jobs", jobs,
                                             "--resume",      numbers };
    snprintf(jobs, sizeof(jobs), "%u", w->jobs_left);
    snprintf(numbers, sizeof(numbers), "%d,%d,%d", files->job_fd, files->object_fd, files->log_fd);
    add_argument(arguments, "--limits", w->options->limits);
    add_argument(arguments, "--user", w->options->user);
    clear_log(files->log_fd);
    direct_output(w->worker_out, w->worker_err);
    if (keep_across_exec(w->options->socket_fd) && keep_across_exec(files->job_fd) &&
        keep_across_exec(files->object_fd) && keep_across_exec(files->log_fd))
        execv("/proc/self/exe", (char *const *)(uintptr_t)arguments);
    kiln_fail_errno(err, errno, "kiln-compiler cannot restart itself for another toolchain");
    return COMPILE_UNAVAILABLE;
}

static size_t place_of(const struct compiler_ops *ops)
{
    size_t i = 0;
    while (compilers[i] != ops)
        i++;
    return i;
}

static enum kiln_code open_compiler(struct worker *w, size_t place, struct kiln_err *err)
{
    return w->opened[place] ? KILN_OK : compilers[place]->open(&w->opened[place], err);
}

static enum kiln_code identify_compiler(struct worker *w, size_t place, struct kiln_err *err)
{
    struct toolchain tc = { 0 };
    if (w->identified[place])
        return KILN_OK;
    enum kiln_code rc = compilers[place]->describe(w->opened[place], &tc, err);
    if (rc)
        return rc;
    w->identity[place] = tc.identity;
    w->identified[place] = true;
    return KILN_OK;
}

static bool accepts_any_version(const struct compile_job *job)
{
    static const struct digest any;
    return digest_equal(&job->toolchain_id, &any);
}

/* Compares the compiler's identity with the one that kilnd expects. If they differ, the process
 * restarts once, because after an upgrade it still uses the old libraries that it has loaded. If
 * the identities still differ after the restart, returns COMPILE_OUTDATED, and kilnd must request a
 * new description. Returns COMPILE_UNAVAILABLE if a compiler cannot be identified. */
static enum compile_end check_identity(struct worker *w, const struct current_job *current,
                                       struct kiln_err *err)
{
    if (accepts_any_version(&current->job))
        return COMPILE_DONE;
    if (identify_compiler(w, current->place, err)) {
        kiln_while(err, "identifying the installed %s", compilers[current->place]->name);
        return COMPILE_UNAVAILABLE;
    }
    if (digest_equal(&current->job.toolchain_id, &w->identity[current->place]))
        return COMPILE_DONE;
    if (!w->restarted)
        return restart_worker(w, current->files, err);
    kiln_fail(err, KILN_UNAVAILABLE,
              "the installed %s is not the version that kilnd found earlier: repeat the request in "
              "a few seconds",
              compilers[current->place]->name);
    return COMPILE_OUTDATED;
}

static enum kiln_code check_job(const struct compile_job *job, const struct compiler_ops *ops,
                                struct target *ret_target, struct kiln_err *err)
{
    enum kiln_code rc = target_parse(job->target, ret_target, err);
    if (rc)
        return rc;
    if (ret_target->family != ops->family)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s does not compile for %s", ops->name,
                         ret_target->text);
    if (job->kind == COMPILE_PROBE)
        return KILN_OK;
    if (job->is_program && !ops->compiles_programs)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s compiles no whole programs", ops->name);
    rc = program_name_check(job->program, err);
    return rc ? rc : headers_check(job->headers, job->header_count, err);
}

/* Appends to the message of a failed kernel that the errors are in the kernel's log. The log of a
 * probe is never shown, so a probe's message stays as it is. The message names the language,
 * because OpenCL C source for an AMD GPU is a common mistake. */
static void refer_to_log(const struct compiler_ops *ops, const struct compile_job *job, int log_fd,
                         struct kiln_err *err)
{
    size_t used = strlen(err->text);
    if (job->kind == COMPILE_KERNEL && lseek(log_fd, 0, SEEK_END) > 0)
        snprintf(err->text + used, sizeof(err->text) - used,
                 ": its log has them (%s compiles %s for this target)", ops->name,
                 toolchain_language(ops->family));
}

static enum compile_end compile_with(struct compiler *compiler, const struct current_job *current,
                                     struct buffer *object, struct kiln_err *err)
{
    const struct compile_job probe = compiler_probe_job(compiler->ops->family);
    const struct compile_job *job = current->job.kind == COMPILE_PROBE ? &probe : &current->job;
    enum compile_end end = compiler->ops->compile(compiler, job, &current->target, object, err);
    if (end == COMPILE_REFUSED || end == COMPILE_CRASHED)
        refer_to_log(compiler->ops, &current->job, current->files->log_fd, err);
    if (end == COMPILE_DONE && !job->is_program &&
        code_object_check(buffer_view(object), &current->target, err))
        return COMPILE_REFUSED;
    return end;
}

/* Compiles, and checks the compiler's identity. The first compile in a process loads the libraries
 * that identify the compiler, so the identity is checked after the first compile. Later, it is
 * checked before each compile. */
static enum compile_end compile_checked(struct worker *w, const struct current_job *current,
                                        struct buffer *object, struct kiln_err *err)
{
    enum compile_end checked = COMPILE_DONE;
    bool is_first = !w->identified[current->place];
    if (!is_first)
        checked = check_identity(w, current, err);
    if (checked != COMPILE_DONE)
        return checked;
    enum compile_end end = compile_with(w->opened[current->place], current, object, err);
    if (!is_first || (end != COMPILE_DONE && end != COMPILE_REFUSED && end != COMPILE_CRASHED))
        return end; /* identifying the compiler would need even more memory or time */
    struct kiln_err mismatch = KILN_ERR_INIT;
    checked = check_identity(w, current, &mismatch);
    if (checked == COMPILE_DONE)
        return end;
    *err = mismatch; /* the compiler that kilnd expects may accept this source */
    return checked;
}

static enum compile_end compile_job(struct worker *w, struct current_job *current,
                                    struct buffer *object, struct kiln_err *err)
{
    const struct compiler_ops *ops = compiler_find(current->job.toolchain);
    if (!ops) {
        kiln_fail(err, KILN_UNAVAILABLE, "this kiln-compiler has no such toolchain");
        return COMPILE_UNAVAILABLE;
    }
    if (check_job(&current->job, ops, &current->target, err))
        return COMPILE_REFUSED;
    if (needs_restart(w, ops))
        return restart_worker(w, current->files, err);
    current->place = place_of(ops);
    if (open_compiler(w, current->place, err))
        return COMPILE_UNAVAILABLE;
    return compile_checked(w, current, object, err);
}

static enum compile_end write_object(const struct buffer *object, int object_fd,
                                     struct kiln_err *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && object->size > limit.rlim_cur) {
        kiln_fail(err, KILN_FULL,
                  "the code object of %zu bytes exceeds the limit of %llu (setting compile_output)",
                  object->size, (unsigned long long)limit.rlim_cur);
        return COMPILE_OUTPUT;
    }
    if (fs_write_all(object_fd, buffer_view(object), err)) {
        kiln_while(err, "writing the code object");
        return COMPILE_MEMORY;
    }
    return COMPILE_DONE;
}

static enum compile_end run_job(struct worker *w, const struct job_files *files,
                                struct kiln_err *err)
{
    BUFFER_AUTO struct buffer content, object;
    struct current_job current = { .files = files };
    buffer_init(&content, WORKER_JOB_MAX);
    buffer_init(&object, LIMIT_CODE_OBJECT);
    enum kiln_code rc = fs_read_fd(files->job_fd, WORKER_JOB_MAX, &content, err);
    if (!rc)
        rc = worker_job_read(buffer_view(&content), &current.job, err);
    if (rc)
        return rc == KILN_NO_MEMORY ? COMPILE_MEMORY : COMPILE_REFUSED;
    enum compile_end end = COMPILE_DONE;
    if (current.job.kind != COMPILE_DESCRIBE)
        end = compile_job(w, &current, &object, err);
    else if (compilers_describe(&object, err))
        end = COMPILE_MEMORY;
    fs_empty_directory("pocl");
    if (end != COMPILE_DONE || current.job.kind == COMPILE_PROBE)
        return end;
    return write_object(&object, files->object_fd, err);
}

static uint64_t cpu_time_ns(const struct rusage *r)
{
    return ((uint64_t)r->ru_utime.tv_sec + (uint64_t)r->ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)r->ru_utime.tv_usec + (uint64_t)r->ru_stime.tv_usec) * 1000u;
}

static void measure_usage(uint64_t *ret_cpu_ns, uint64_t *ret_peak_rss)
{
    struct rusage self = { 0 }, children = { 0 };
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    long peak = self.ru_maxrss > children.ru_maxrss ? self.ru_maxrss : children.ru_maxrss;
    *ret_cpu_ns = cpu_time_ns(&self) + cpu_time_ns(&children);
    *ret_peak_rss = (uint64_t)peak * 1024u; /* Linux reports KiB */
}

static enum kiln_code serve_job(struct worker *w, const struct job_files *files,
                                struct kiln_err *err)
{
    struct worker_result result = { .end = COMPILE_DONE };
    struct kiln_err message = KILN_ERR_INIT;
    uint64_t cpu_before, ignored;
    if (w->options->cpu_s)
        process_limits_next_job(w->options->cpu_s);
    measure_usage(&cpu_before, &ignored);
    direct_output(files->log_fd, files->log_fd);
    result.end = run_job(w, files, &message);
    direct_output(w->worker_out, w->worker_err);
    measure_usage(&result.cpu_ns, &result.peak_rss);
    result.cpu_ns -= cpu_before;
    if (result.end != COMPILE_DONE)
        snprintf(result.text, sizeof(result.text), "%s", message.text);
    BUFFER_AUTO struct buffer packet;
    buffer_init(&packet, WORKER_PACKET_MAX);
    worker_result_write(&packet, &result);
    return send_packet(w->options->socket_fd, &packet, err);
}

static enum kiln_code send_ready(const struct compiler_worker_options *options,
                                 struct kiln_err *err)
{
    BUFFER_AUTO struct buffer ready;
    buffer_init(&ready, WORKER_PACKET_MAX);
    worker_ready_write(&ready, options->sandbox);
    return send_packet(options->socket_fd, &ready, err);
}

static enum kiln_code serve_jobs(struct worker *w, struct job_files first, struct kiln_err *err)
{
    bool endless = w->jobs_left == 0;
    enum kiln_code rc = KILN_OK;
    while (!rc && (endless || w->jobs_left > 0)) {
        __attribute__((cleanup(files_done))) struct job_files files = first;
        first = NO_FILES;
        if (files.job_fd < 0)
            rc = wait_for_job(w->options->socket_fd, &files, err);
        if (!rc)
            rc = serve_job(w, &files, err);
        w->restarted = false;
        w->jobs_left -= endless ? 0 : 1;
    }
    return rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

static int run_worker(const struct compiler_worker_options *options, struct job_files first)
{
    struct kiln_err err = KILN_ERR_INIT;
    __attribute__((cleanup(worker_done))) struct worker w = {
        .options = options,
        .worker_out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0),
        .worker_err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0),
        .jobs_left = options->max_jobs,
        .restarted = first.job_fd >= 0,
    };
    enum kiln_code rc = w.restarted ? KILN_OK : send_ready(options, &err);
    if (!rc)
        rc = serve_jobs(&w, first, &err);
    if (!rc)
        return EXIT_DONE;
    fprintf(stderr, "kiln-compiler: %s\n", err.text);
    return EXIT_WIRE;
}

int compiler_worker_serve(const struct compiler_worker_options *options)
{
    return run_worker(options, NO_FILES);
}

int compiler_worker_resume(const struct compiler_worker_options *options, const int files[3])
{
    for (size_t i = 0; i < WORKER_JOB_FILES; i++)
        fcntl(files[i], F_SETFD, FD_CLOEXEC);
    return run_worker(options, (struct job_files){ files[0], files[1], files[2] });
}
