/* SPDX-License-Identifier: MIT */
#include "common/fs.h"
#include "engine/compile/code_object.h"
#include "engine/compile/compiler.h"
#include "engine/compile/headers.h"
#include "engine/compile/process_limits.h"
#include "engine/compile/scratch.h"
#include "engine/compile/worker_packet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define EXIT_DONE 0
#define EXIT_WIRE 3 /* the daemon sent what is no job, or cannot be answered */
#define ARGUMENTS_MAX 12

struct job_files {
    int job_fd;
    int object_fd;
    int log_fd;
};

#define NO_FILES ((struct job_files){ -1, -1, -1 })

struct worker {
    const struct compiler_worker_options *options; /* borrowed */
    struct compiler *opened[COMPILERS];            /* owned; in the order of compilers[] */
    struct digest identity[COMPILERS];             /* of those opened */
    bool identified[COMPILERS];
    bool afresh;          /* this process was started for the job being served */
    int own_out, own_err; /* owned: where output goes between jobs */
    unsigned jobs_left;   /* with the one being served; 0: no end */
};

static void worker_done(struct worker *w)
{
    for (size_t i = 0; i < COMPILERS; i++) {
        if (w->opened[i])
            w->opened[i]->ops->close(w->opened[i]);
    }
    fd_auto(&w->own_out);
    fd_auto(&w->own_err);
}

static void files_done(struct job_files *f)
{
    fd_auto(&f->job_fd);
    fd_auto(&f->object_fd);
    fd_auto(&f->log_fd);
}

static void take_files(struct msghdr *message, struct job_files *ret_files)
{
    int fds[WORKER_JOB_FILES];
    struct cmsghdr *c = CMSG_FIRSTHDR(message);
    if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(fds)))
        return;
    memcpy(fds, CMSG_DATA(c), sizeof(fds));
    *ret_files = (struct job_files){ fds[0], fds[1], fds[2] };
}

/* KILN_NOT_FOUND when the daemon closed its end: there is nothing left to do. */
static enum kiln_code wait_for_job(int socket_fd, struct job_files *ret_files, struct kiln_err *err)
{
    uint8_t packet[2];
    struct iovec part = { .iov_base = packet, .iov_len = sizeof(packet) };
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * WORKER_JOB_FILES)];
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };
    ssize_t got;
    do
        got = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got == 0 || (got < 0 && errno == ECONNRESET))
        return KILN_NOT_FOUND;
    if (got < 0)
        return kiln_fail_errno(err, errno, "cannot wait for a job");
    take_files(&message, ret_files);
    if (got != 1 || packet[0] != WORKER_JOB || ret_files->job_fd < 0)
        return kiln_fail(err, KILN_INVALID, "the daemon sent %zd bytes that are no job", got);
    return KILN_OK;
}

static enum kiln_code send_packet(int socket_fd, const struct buffer *packet, struct kiln_err *err)
{
    ssize_t sent;
    do
        sent = send(socket_fd, packet->data, packet->size, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? kiln_fail_errno(err, errno, "cannot answer the daemon") : KILN_OK;
}

static void direct_output(int out_fd, int err_fd)
{
    fflush(stdout);
    fflush(stderr);
    dup2(out_fd, STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
}

static bool is_taken(const struct worker *w, const struct compiler_ops *ops)
{
    for (size_t i = 0; i < COMPILERS; i++) {
        if (w->opened[i] && compilers[i] != ops && compilers[i]->needs_own_process)
            return ops->needs_own_process;
    }
    return false;
}

/* What the wrong compiler said. */
static void forget_log(int log_fd)
{
    if (ftruncate(log_fd, 0) == 0)
        lseek(log_fd, 0, SEEK_SET);
}

static bool hand_down(int fd) { return fcntl(fd, F_SETFD, 0) == 0; }

/* Behind those that are there; the last place stays free for the end. */
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

/* Becomes a new kiln-compiler that does this job first: same process, same socket, none of the
 * libraries.  Returns only when that fails. */
static enum compile_end start_afresh(const struct worker *w, const struct job_files *files,
                                     struct kiln_err *err)
{
    char jobs[16], numbers[48];
    const char *arguments[ARGUMENTS_MAX] = { "kiln-compiler", "--temp", ".", "--max-jobs", jobs,
                                             "--resume",      numbers };
    snprintf(jobs, sizeof(jobs), "%u", w->jobs_left);
    snprintf(numbers, sizeof(numbers), "%d,%d,%d", files->job_fd, files->object_fd, files->log_fd);
    add_argument(arguments, "--limits", w->options->limits);
    add_argument(arguments, "--user", w->options->user);
    forget_log(files->log_fd);
    direct_output(w->own_out, w->own_err);
    /* By this path: the user that we became may not enter the directories of the real one. */
    if (hand_down(w->options->socket_fd) && hand_down(files->job_fd) &&
        hand_down(files->object_fd) && hand_down(files->log_fd))
        execv("/proc/self/exe", (char *const *)(uintptr_t)arguments);
    kiln_fail_errno(err, errno, "kiln-compiler cannot start afresh for another toolchain");
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

static enum kiln_code identify(struct worker *w, size_t place, struct kiln_err *err)
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

static bool any_will_do(const struct compile_job *job)
{
    static const struct digest any;
    return digest_equal(&job->toolchain_id, &any);
}

/* A library that was upgraded stays as it was in a process that has it loaded: that process starts
 * afresh.  When even the new one is not what the daemon knows of, the daemon must ask again. */
static enum compile_end check_identity(struct worker *w, const struct job_files *files,
                                       const struct compile_job *job, size_t place,
                                       struct kiln_err *err)
{
    if (any_will_do(job))
        return COMPILE_DONE;
    if (identify(w, place, err))
        return COMPILE_UNAVAILABLE;
    if (digest_equal(&job->toolchain_id, &w->identity[place]))
        return COMPILE_DONE;
    if (!w->afresh)
        return start_afresh(w, files, err);
    kiln_fail(err, KILN_UNAVAILABLE,
              "%s was upgraded since kilnd looked at it: ask again in a moment",
              compilers[place]->name);
    return COMPILE_OUTDATED;
}

static enum kiln_code check_job(const struct compile_job *job, const struct compiler_ops *ops,
                                struct target *ret_target, struct kiln_err *err)
{
    enum kiln_code rc = target_parse(job->target, ret_target, err);
    if (rc)
        return rc;
    if (ret_target->family != ops->family)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s does not build for %s", ops->name,
                         ret_target->text);
    if (job->kind == COMPILE_PROBE)
        return KILN_OK;
    rc = program_name_check(job->program, err);
    return rc ? rc : headers_check(job->headers, job->header_count, err);
}

/* A probe's log is read by nobody, and not every failure has one. */
static void point_to_log(const struct compile_job *job, int log_fd, struct kiln_err *err)
{
    size_t used = strlen(err->text);
    if (job->kind == COMPILE_KERNEL && lseek(log_fd, 0, SEEK_END) > 0)
        snprintf(err->text + used, sizeof(err->text) - used, ": see the log");
}

static enum compile_end compile_with(struct compiler *compiler, const struct job_files *files,
                                     const struct compile_job *job, const struct target *target,
                                     struct buffer *object, struct kiln_err *err)
{
    const struct compile_job probe = compiler_probe_job(compiler->ops->family);
    enum compile_end end = compiler->ops->compile(
        compiler, job->kind == COMPILE_PROBE ? &probe : job, target, object, err);
    if (end == COMPILE_REFUSED || end == COMPILE_CRASHED)
        point_to_log(job, files->log_fd, err);
    if (end == COMPILE_DONE && code_object_check(buffer_view(object), target, err))
        return COMPILE_REFUSED;
    return end;
}

/* Which compiler it is can be told once its libraries are open.  The first job of a process opens
 * them, so there it is told afterwards: before, it would cost a compile for that alone. */
static enum compile_end compile_checked(struct worker *w, const struct job_files *files,
                                        const struct compile_job *job, const struct target *target,
                                        struct buffer *object, struct kiln_err *err)
{
    size_t place = place_of(compiler_find(job->toolchain));
    enum compile_end known = COMPILE_DONE;
    bool is_first = !w->identified[place];
    if (!is_first)
        known = check_identity(w, files, job, place, err);
    if (known != COMPILE_DONE)
        return known;
    enum compile_end end = compile_with(w->opened[place], files, job, target, object, err);
    if (!is_first || (end != COMPILE_DONE && end != COMPILE_REFUSED && end != COMPILE_CRASHED))
        return end; /* short of memory or time, which looking takes, too */
    struct kiln_err other = KILN_ERR_INIT;
    known = check_identity(w, files, job, place, &other);
    if (known == COMPILE_DONE)
        return end;
    *err = other; /* nobody knows whose failure it would be */
    return known;
}

static enum compile_end compile(struct worker *w, const struct job_files *files,
                                const struct compile_job *job, struct buffer *object,
                                struct kiln_err *err)
{
    const struct compiler_ops *ops = compiler_find(job->toolchain);
    struct target target;
    if (!ops) {
        kiln_fail(err, KILN_UNAVAILABLE, "this kiln-compiler has no such toolchain");
        return COMPILE_UNAVAILABLE;
    }
    if (check_job(job, ops, &target, err))
        return COMPILE_REFUSED;
    if (is_taken(w, ops))
        return start_afresh(w, files, err);
    if (open_compiler(w, place_of(ops), err))
        return COMPILE_UNAVAILABLE;
    return compile_checked(w, files, job, &target, object, err);
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
        kiln_while(err, "handing over the code object");
        return COMPILE_MEMORY; /* a memfd takes what it is given, but for lack of memory */
    }
    return COMPILE_DONE;
}

static enum compile_end perform(struct worker *w, const struct job_files *files,
                                struct kiln_err *err)
{
    BUFFER_AUTO struct buffer content, object;
    struct compile_job job;
    buffer_init(&content, WORKER_JOB_MAX);
    buffer_init(&object, LIMIT_CODE_OBJECT);
    enum kiln_code rc = fs_read_fd(files->job_fd, WORKER_JOB_MAX, &content, err);
    if (!rc)
        rc = worker_job_read(buffer_view(&content), &job, err);
    if (rc)
        return rc == KILN_NO_MEMORY ? COMPILE_MEMORY : COMPILE_REFUSED;
    enum compile_end end = COMPILE_DONE;
    if (job.kind != COMPILE_DESCRIBE)
        end = compile(w, files, &job, &object, err);
    else if (compilers_describe(&object, err))
        end = COMPILE_MEMORY;
    fs_empty_directory("pocl"); /* PoCL leaves a file or two each time */
    if (end != COMPILE_DONE || job.kind == COMPILE_PROBE)
        return end;
    return write_object(&object, files->object_fd, err);
}

static uint64_t cpu_of(const struct rusage *r)
{
    return ((uint64_t)r->ru_utime.tv_sec + (uint64_t)r->ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)r->ru_utime.tv_usec + (uint64_t)r->ru_stime.tv_usec) * 1000u;
}

static void usage(uint64_t *ret_cpu_ns, uint64_t *ret_peak_rss)
{
    struct rusage self = { 0 }, children = { 0 };
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    long peak = self.ru_maxrss > children.ru_maxrss ? self.ru_maxrss : children.ru_maxrss;
    *ret_cpu_ns = cpu_of(&self) + cpu_of(&children);
    *ret_peak_rss = (uint64_t)peak * 1024u; /* Linux counts KiB */
}

static enum kiln_code serve_one(struct worker *w, const struct job_files *files,
                                struct kiln_err *err)
{
    struct worker_result result = { .end = COMPILE_DONE };
    struct kiln_err message = KILN_ERR_INIT;
    uint64_t cpu_before, ignored;
    if (w->options->cpu_s)
        process_limits_next_job(w->options->cpu_s);
    usage(&cpu_before, &ignored);
    direct_output(files->log_fd, files->log_fd);
    result.end = perform(w, files, &message);
    direct_output(w->own_out, w->own_err);
    usage(&result.cpu_ns, &result.peak_rss);
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

/* |first| is a job that has been received already, or holds no files. */
static enum kiln_code serve(struct worker *w, struct job_files first, struct kiln_err *err)
{
    bool endless = w->jobs_left == 0;
    enum kiln_code rc = KILN_OK;
    while (!rc && (endless || w->jobs_left > 0)) {
        __attribute__((cleanup(files_done))) struct job_files files = first;
        first = NO_FILES;
        if (files.job_fd < 0)
            rc = wait_for_job(w->options->socket_fd, &files, err);
        if (!rc)
            rc = serve_one(w, &files, err);
        w->afresh = false;
        w->jobs_left -= endless ? 0 : 1;
    }
    return rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

/* |first| as for serve; the daemon knows already that whoever has it is ready. */
static int run(const struct compiler_worker_options *options, struct job_files first)
{
    struct kiln_err err = KILN_ERR_INIT;
    __attribute__((cleanup(worker_done))) struct worker w = {
        .options = options,
        .own_out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0),
        .own_err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0),
        .jobs_left = options->max_jobs,
        .afresh = first.job_fd >= 0,
    };
    enum kiln_code rc = w.afresh ? KILN_OK : send_ready(options, &err);
    if (!rc)
        rc = serve(&w, first, &err);
    if (!rc)
        return EXIT_DONE;
    fprintf(stderr, "kiln-compiler: %s\n", err.text);
    return EXIT_WIRE;
}

int compiler_worker_serve(const struct compiler_worker_options *options)
{
    return run(options, NO_FILES);
}

int compiler_worker_resume(const struct compiler_worker_options *options, const int files[3])
{
    for (size_t i = 0; i < WORKER_JOB_FILES; i++)
        fcntl(files[i], F_SETFD, FD_CLOEXEC);
    return run(options, (struct job_files){ files[0], files[1], files[2] });
}
