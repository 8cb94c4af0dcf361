/* SPDX-License-Identifier: MIT */
#include "daemon/workers/worker_end.h"

#include "common/base/cleanup.h"
#include "common/base/units.h"
#include "engine/compile/worker_log.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define EXIT_USAGE 2

/* Looks for the cause in the compiler's log: for example, a compiler that runs out of memory prints
 * a message and aborts. */
static enum compile_end end_by_log(const struct worker *w)
{
    const char *unused;
    KILN_AUTO(mem) char *log = worker_log_read(w->files.log_fd);
    return worker_log_cause(log, COMPILE_CRASHED, &unused);
}

static enum compile_end end_of_signal(const struct worker *w, int signal)
{
    switch (signal) {
    case SIGXCPU: return COMPILE_TIMED_OUT;
    case SIGXFSZ: return COMPILE_OUTPUT;
    case SIGKILL:
        /* Linux's OOM killer or a person sent the signal, so the job is not the cause. */
        return COMPILE_UNAVAILABLE;
    default: return end_by_log(w);
    }
}

static enum compile_end end_of(const struct worker *w, int status, int signal)
{
    switch (w->blame) {
    case BLAME_DEADLINE: return COMPILE_TIMED_OUT;
    case BLAME_STOPPED:
    case BLAME_YIELDED: return COMPILE_UNAVAILABLE;
    case BLAME_NONSENSE: return COMPILE_CRASHED;
    case BLAME_CLOSED:
        if (signal == SIGKILL)
            return COMPILE_CRASHED;
        break;
    default: break;
    }
    if (status == WORKER_PROCESS_LOST)
        return COMPILE_UNAVAILABLE;
    return signal ? end_of_signal(w, signal) : COMPILE_CRASHED;
}

#define HOW_MAX 160

static void describe_exit(const struct worker *w, int status, int signal, char how[HOW_MAX])
{
    const char *name = signal ? sigabbrev_np(signal) : NULL;
    if (status == WORKER_PROCESS_NOT_STARTED)
        snprintf(how, HOW_MAX, "cannot be run: %s", strerror(w->process.start_errnum));
    else if (status == WORKER_PROCESS_LOST && !*w->options->service)
        snprintf(how, HOW_MAX, "ended with the kiln-launch that supervised it");
    else if (status == WORKER_PROCESS_LOST)
        snprintf(how, HOW_MAX,
                 "was not started, or was ended, by the service manager (see the journal)");
    else if (name)
        snprintf(how, HOW_MAX, "died of SIG%s (%s)", name, sigdescr_np(signal));
    else if (signal)
        snprintf(how, HOW_MAX, "died of signal %d", signal);
    else
        snprintf(how, HOW_MAX, "exited with status %d", status);
}

static void describe_end(const struct worker *w, enum compile_end end, int status, int signal,
                         char how[HOW_MAX])
{
    const struct process_limits *limits = &w->options->limits;
    char size[UNITS_TEXT_MAX];
    if (end == COMPILE_UNAVAILABLE && w->blame == BLAME_STOPPED)
        snprintf(how, HOW_MAX, "was stopped because kilnd is shutting down");
    else if (w->blame == BLAME_YIELDED)
        snprintf(how, HOW_MAX, "was stopped for another job (try again)");
    else if (end == COMPILE_UNAVAILABLE && signal == SIGKILL)
        snprintf(how, HOW_MAX,
                 "was killed by another process, or by the kernel for lack of memory (see the "
                 "kernel's log, then try again)");
    else if (end == COMPILE_TIMED_OUT && signal == SIGXCPU)
        snprintf(how, HOW_MAX, "used more than %llu s of processor time (setting compile_cpu)",
                 (unsigned long long)limits->cpu_s);
    else if (end == COMPILE_TIMED_OUT)
        snprintf(how, HOW_MAX, "took longer than %.1f s (setting compile_timeout)",
                 (double)w->time_ms / 1e3);
    else if (end == COMPILE_OUTPUT)
        snprintf(how, HOW_MAX, "wrote more than %s (setting compile_output)",
                 units_exact_size(limits->output, size));
    else if (end == COMPILE_MEMORY)
        snprintf(how, HOW_MAX, "ran out of memory (setting compile_memory is %s)",
                 units_exact_size(limits->memory, size));
    else if (w->blame == BLAME_NONSENSE)
        snprintf(how, HOW_MAX, "sent an invalid answer");
    else if (w->blame == BLAME_CLOSED && signal == SIGKILL)
        snprintf(how, HOW_MAX, "closed its connection during the job");
    else
        describe_exit(w, status, signal, how);
}

enum compile_end worker_end_of_job(const struct worker *w, int status, int signal, char *text,
                                   size_t size)
{
    enum compile_end end = end_of(w, status, signal);
    char how[HOW_MAX];
    describe_end(w, end, status, signal, how);
    const struct compile_job *job = &w->task->job;
    if (job->kind == COMPILE_DESCRIBE) {
        snprintf(text, size, "kiln-compiler %s while looking for compilers", how);
        return end;
    }
    int used = snprintf(text, size, "kiln-compiler %s while trying", how);
    if (job->kind == COMPILE_KERNEL)
        used = snprintf(text, size, "kiln-compiler %s while compiling '%.*s' with", how,
                        (int)job->program.size, (const char *)job->program.data);
    if (used >= 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, " %.*s for %.*s", (int)job->toolchain.size,
                 (const char *)job->toolchain.data, (int)job->target.size,
                 (const char *)job->target.data);
    return end;
}

static void say_lack(const struct sandbox_report *sandbox, struct kiln_err *ret_err)
{
    char missing[LAYERS_TEXT_MAX];
    report_missing(sandbox, missing);
    kiln_fail(ret_err, KILN_UNAVAILABLE,
              "this host lacks layers of the compilers' sandbox, and the setting sandbox is "
              "'require'; missing: %s; to do: %s, or set sandbox to 'warn' (%s)",
              missing, report_advice(sandbox), sandbox->why);
}

static bool is_of_another_build(const struct worker *w, int status, int signal)
{
    return w->state == WORKER_STARTING &&
           (w->blame == BLAME_NONSENSE || (!w->blame && !signal && status == EXIT_USAGE));
}

static void say_other_build(const struct worker *w, struct kiln_err *ret_err)
{
    kiln_fail(
        ret_err, KILN_UNAVAILABLE,
        "'%s' belongs to another build of kiln, because it %s: set KILN_COMPILER (in a job) or "
        "the setting compiler (of kilnd) to the kiln-compiler of this build (" KILN_VERSION ")",
        w->options->program,
        w->blame == BLAME_NONSENSE ? "sent another handshake" : "does not know its flags");
}

void worker_end_text(const struct worker *w, int status, int signal, struct kiln_err *ret_err)
{
    char how[HOW_MAX];
    describe_exit(w, status, signal, how);
    if (w->blame == BLAME_UNCONFINED)
        say_lack(&w->sandbox, ret_err);
    else if (w->blame == BLAME_SLOW_START)
        kiln_fail(ret_err, KILN_UNAVAILABLE, "'%s' was not ready within %.1f s",
                  w->options->program, (double)w->options->start_timeout_ms / 1e3);
    else if (is_of_another_build(w, status, signal))
        say_other_build(w, ret_err);
    else if (w->state == WORKER_STARTING && status != WORKER_PROCESS_NOT_STARTED)
        kiln_fail(ret_err, KILN_UNAVAILABLE, "'%s' %s before it was ready", w->options->program,
                  how);
    else
        kiln_fail(ret_err, KILN_UNAVAILABLE, "'%s' %s", w->options->program, how);
}
