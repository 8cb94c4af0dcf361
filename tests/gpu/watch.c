/* SPDX-License-Identifier: MIT */
#include "tests/gpu/watch.h"

#include "tests/gpu/report.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A trial that takes longer is stuck; even the slowest reference takes far less than a second. */
#define STUCK_SECONDS 30.0
#define POLL_NS 1000000L
#define NOTHING_POSSIBLE 2

struct watch {
    struct trials *trials;
    const struct watch_options *options;
    pid_t compilers[TRIAL_COMPILERS_MAX];
    pid_t runner;
    size_t started;
    size_t next; /* the first trial that is not reported yet */
    double begin, since, compiled;
    bool is_hopeless;
};

double watch_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void nap(void) { nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL); }

static void start_compiler(struct watch *w, unsigned compiler)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(trials_compile(w->trials, compiler));
    w->compilers[compiler] = pid;
    w->is_hopeless |= pid < 0;
}

static void start_runner(struct watch *w)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(trials_run(w->trials, w->next, &w->options->run));
    w->runner = pid;
    w->started = w->next;
    w->since = watch_now();
    w->is_hopeless |= pid < 0;
}

static void stop(pid_t pid)
{
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void start_compilers(struct watch *w)
{
    unsigned count = w->options->compilers;
    for (unsigned i = 0; i < count && i < TRIAL_COMPILERS_MAX; i++)
        start_compiler(w, i);
}

/* Starts crashed compilers again. Returns true if at least one compiler still runs. */
static bool look_after_compilers(struct watch *w)
{
    bool any = false;
    for (unsigned i = 0; i < TRIAL_COMPILERS_MAX; i++) {
        int status = 0;
        if (w->compilers[i] > 0 && waitpid(w->compilers[i], &status, WNOHANG) == w->compilers[i]) {
            w->compilers[i] = 0;
            w->is_hopeless |= WIFEXITED(status) && WEXITSTATUS(status) == NOTHING_POSSIBLE;
            if (WIFSIGNALED(status) && trials_compiler_died(w->trials, i))
                start_compiler(w, i);
        }
        any |= w->compilers[i] > 0;
    }
    if (!any && w->compiled == 0) {
        w->compiled = watch_now();
        fprintf(stderr, "compiled %zu programs in %.1f s\n", w->trials->pool.count,
                w->compiled - w->begin);
    }
    return any;
}

static int state_of(const struct watch *w)
{
    return atomic_load(&trial_result(w->trials, w->next)->state);
}

static void report_finished(struct watch *w)
{
    while (w->next < w->trials->count && state_of(w) > TRIAL_RUNS) {
        if (!w->options->quiet || state_of(w) > TRIAL_SLOW)
            report_row(w->trials, w->next);
        if (w->options->json)
            report_json(w->options->json, w->trials, w->next);
        w->next++;
        w->since = watch_now();
    }
}

static void end_trial(struct watch *w, enum trial_state state, const char *text)
{
    struct trial_result *r = trial_result(w->trials, w->next);
    snprintf(r->text, sizeof(r->text), "%s", text);
    atomic_store(&r->state, state);
    report_finished(w);
}

/* Called when the runner has ended. Trials are left if one of them has crashed the runner or made
 * the CUDA context unusable. Starts a new runner for them. Gives up if no trial can run on this
 * machine. */
static void runner_ended(struct watch *w, int status)
{
    char text[64];
    w->runner = 0;
    report_finished(w);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOTHING_POSSIBLE) {
        w->is_hopeless = true;
        return;
    }
    if (w->next >= w->trials->count)
        return;
    snprintf(text, sizeof(text), "the process died of signal %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    if (WIFSIGNALED(status) || w->next == w->started)
        end_trial(w, TRIAL_FAILED, text);
    start_runner(w);
}

static void look(struct watch *w)
{
    int status;
    report_finished(w);
    (void)look_after_compilers(w);
    if (w->runner > 0 && waitpid(w->runner, &status, WNOHANG) == w->runner)
        runner_ended(w, status);
    if (w->next < w->trials->count && watch_now() - w->since > STUCK_SECONDS &&
        state_of(w) == TRIAL_RUNS) {
        stop(w->runner);
        end_trial(w, TRIAL_STUCK, "no end in sight");
        start_runner(w);
    }
}

static bool goes_on(const struct watch *w)
{
    double limit = w->options->seconds;
    return w->next < w->trials->count && !w->is_hopeless &&
           (limit <= 0 || watch_now() - w->begin < limit);
}

static void end_all(struct watch *w)
{
    bool is_done = w->next >= w->trials->count;
    if (is_done && w->runner > 0)
        waitpid(w->runner, NULL, 0);
    else
        stop(w->runner);
    for (unsigned i = 0; i < TRIAL_COMPILERS_MAX; i++)
        stop(w->compilers[i]);
    while (w->next < w->trials->count)
        end_trial(w, w->is_hopeless ? TRIAL_FAILED : TRIAL_OUT_OF_TIME, "");
    if (w->options->json)
        fflush(w->options->json);
}

int watch_trials(struct trials *trials, const struct watch_options *options)
{
    struct watch w = { .trials = trials, .options = options, .begin = watch_now() };
    start_compilers(&w);
    start_runner(&w);
    while (goes_on(&w)) {
        look(&w);
        nap();
    }
    end_all(&w);
    bool right = report_summary(trials);
    printf("%.1f s in all\n", watch_now() - w.begin);
    return w.is_hopeless ? NOTHING_POSSIBLE : !right;
}

static void settle(struct trials *t, size_t index)
{
    struct trial_result *r = trial_result(t, index);
    enum trial_state state = TRIAL_RIGHT;
    for (uint32_t i = 0; i < t->trials[index].program_count; i++) {
        const struct shared_object *o = trial_object(t, t->trials[index].programs[i]);
        if (atomic_load(&o->state) == OBJECT_MADE)
            continue;
        snprintf(r->text, sizeof(r->text), "%.199s", (const char *)trial_object_data(t, o));
        state = TRIAL_UNCOMPILED;
    }
    atomic_store(&r->state, state);
}

int watch_compilers(struct trials *trials, const struct watch_options *options)
{
    struct watch w = { .trials = trials, .options = options, .begin = watch_now() };
    start_compilers(&w);
    while (look_after_compilers(&w))
        nap();
    if (w.is_hopeless)
        return NOTHING_POSSIBLE;
    for (size_t i = 0; i < trials->count; i++)
        settle(trials, i);
    report_finished(&w);
    return !report_summary(trials);
}

struct answer {
    char text[256]; /* the target, or an error message */
    int compute_units;
};

static int say_target(int fd)
{
    struct cuda cuda;
    struct kiln_err err = KILN_ERR_INIT;
    struct answer answer = { .compute_units = 0 };
    enum kiln_code rc = cuda_open(&cuda, &err);
    snprintf(answer.text, sizeof(answer.text), "%.255s", rc ? err.text : cuda.target);
    if (!rc) {
        answer.compute_units = cuda.compute_units;
        printf("%s, %s, %d multiprocessors, L2 %d MiB, %d MHz\n", cuda.name, cuda.target,
               cuda.compute_units, cuda.l2_bytes >> 20, cuda.clock_khz / 1000);
    }
    fflush(stdout);
    return write(fd, &answer, sizeof(answer)) != (ssize_t)sizeof(answer) || rc;
}

enum kiln_code watch_target(struct target *ret_target, struct kiln_err *err)
{
    struct answer answer = { .text = "the process that asked died" };
    char full[16];
    int fds[2], status = 1;
    if (pipe(fds))
        return kiln_fail_errno(err, errno, "cannot make a pipe");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(say_target(fds[1]));
    close(fds[1]);
    ssize_t got = read(fds[0], &answer, sizeof(answer));
    close(fds[0]);
    waitpid(pid, &status, 0);
    if (got != (ssize_t)sizeof(answer) || status)
        return kiln_fail(err, KILN_UNAVAILABLE, "%s", answer.text);
    cuda_full_target(answer.text, full);
    enum kiln_code rc = target_parse(bytes_of_text(full), ret_target, err);
    ret_target->processors = (uint32_t)answer.compute_units;
    return rc;
}
