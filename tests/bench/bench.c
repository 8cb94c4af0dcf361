/* SPDX-License-Identifier: MIT */
#include "tests/bench/bench.h"

#include "common/base/fs.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define CLIENTS_MAX 64

static enum kiln_code own_directory(char path[BENCH_PATH_MAX], struct kiln_err *err)
{
    ssize_t n = readlink("/proc/self/exe", path, BENCH_PATH_MAX - 1);
    if (n < 0)
        return kiln_fail_errno(err, errno, "cannot find this program's directory");
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    return KILN_OK;
}

static enum kiln_code copy_path(const char *from, char to[BENCH_PATH_MAX], struct kiln_err *err)
{
    if (strlen(from) >= BENCH_PATH_MAX)
        return kiln_fail(err, KILN_INVALID, "path is longer than %d bytes: '%.60s...'",
                         BENCH_PATH_MAX - 1, from);
    strcpy(to, from);
    return KILN_OK;
}

static void count_cpus(struct bench_options *o)
{
    cpu_set_t set;
    o->cpus = 1;
    if (sched_getaffinity(0, sizeof(set), &set))
        return;
    o->cpus = (unsigned)CPU_COUNT(&set);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        o->last_cpu = CPU_ISSET(cpu, &set) ? cpu : o->last_cpu;
    o->first_cpu = o->last_cpu;
    for (unsigned cpu = o->last_cpu; cpu-- > 0;)
        o->first_cpu = CPU_ISSET(cpu, &set) ? cpu : o->first_cpu;
}

enum kiln_code bench_parse(int argc, char **argv, struct bench_options *ret_options,
                           struct kiln_err *err)
{
    static const struct option flags[] = {
        { "bin", required_argument, NULL, 'b' },
        { "work", required_argument, NULL, 'w' },
        { "quick", no_argument, NULL, 'q' },
        { NULL, 0, NULL, 0 },
    };
    struct bench_options o = { .quick = false };
    count_cpus(&o);
    enum kiln_code rc = own_directory(o.bin, err);
    int flag;
    while (!rc && (flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
        if (flag == 'b')
            rc = copy_path(optarg, o.bin, err);
        else if (flag == 'w')
            rc = copy_path(optarg, o.work, err);
        else if (flag == 'q')
            o.quick = true;
        else
            rc = kiln_fail(err, KILN_INVALID, "usage: --work DIR [--bin DIR] [--quick]");
    }
    if (!rc && (!o.work[0] || optind < argc))
        rc = kiln_fail(err, KILN_INVALID, "usage: --work DIR [--bin DIR] [--quick]");
    if (!rc)
        *ret_options = o;
    return rc;
}

/* Raises the limit of open descriptors, because benchmarks hold hundreds of objects, each with a
 * descriptor. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int bench_main(int argc, char **argv, const char *name,
               enum kiln_code (*body)(const struct bench_options *options, struct kiln_err *err))
{
    struct bench_options options;
    struct kiln_err err = KILN_ERR_INIT;
    allow_descriptors();
    enum kiln_code rc = bench_parse(argc, argv, &options, &err);
    if (!rc)
        rc = fs_make_directories(options.work, &err);
    if (!rc)
        rc = body(&options, &err);
    if (rc)
        fprintf(stderr, "%s: %s\n", name, err.text[0] ? err.text : kiln_code_text(rc));
    return rc ? 1 : 0;
}

enum kiln_code bench_path(const char *work, const char *name, char path[BENCH_PATH_MAX],
                          struct kiln_err *err)
{
    int n = snprintf(path, BENCH_PATH_MAX, "%s/%s", work, name);
    if (n < 0 || n >= BENCH_PATH_MAX)
        return kiln_fail(err, KILN_INVALID, "path of '%s' below the work directory is too long",
                         name);
    return KILN_OK;
}

enum kiln_code bench_pin(pid_t tid, unsigned cpu, struct kiln_err *err)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(tid, sizeof(set), &set))
        return kiln_fail_errno(err, errno, "cannot keep a thread on CPU %u", cpu);
    return KILN_OK;
}

const char *bench_cpus_name(enum bench_cpus cpus)
{
    static const char *const names[] = { "any", "two", "one" };
    return names[cpus];
}

enum kiln_code bench_shared(size_t size, void **ret_memory, struct kiln_err *err)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot share %zu bytes between processes", size);
    *ret_memory = at;
    return KILN_OK;
}

void bench_shared_done(void *memory, size_t size)
{
    if (memory)
        munmap(memory, size);
}

enum kiln_code bench_gate_init(struct bench_gate *gate, unsigned count, struct kiln_err *err)
{
    pthread_barrierattr_t attr;
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    int rc = pthread_barrier_init(&gate->barrier, &attr, count);
    pthread_barrierattr_destroy(&attr);
    return rc ? kiln_fail_errno(err, rc, "cannot make a barrier for %u processes", count) : KILN_OK;
}

void bench_gate_pass(struct bench_gate *gate) { pthread_barrier_wait(&gate->barrier); }

/* ---- fan-out ---- */

struct fan_out {
    struct kiln_err *errors;
    pid_t pids[CLIENTS_MAX];
    unsigned count;
};

_Noreturn static void run_client(struct fan_out *f, bench_client *client, void *context,
                                 pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    struct kiln_err *err = &f->errors[f->count];
    enum kiln_code rc = client(context, f->count, err);
    if (rc && !err->text[0])
        (void)kiln_fail(err, rc, "%s", kiln_code_text(rc));
    _exit(rc ? 1 : 0);
}

static void end_clients(const struct fan_out *f)
{
    for (unsigned i = 0; i < f->count; i++) {
        if (f->pids[i])
            kill(f->pids[i], SIGKILL);
    }
}

static unsigned index_of(const struct fan_out *f, pid_t pid)
{
    unsigned i = 0;
    while (i < f->count && f->pids[i] != pid)
        i++;
    return i;
}

/* Waits until all clients have ended. Waits only for the clients' process group, because a server
 * is also a child of this process and must not be reaped here. */
static enum kiln_code collect_clients(struct fan_out *f, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    pid_t group = f->count ? f->pids[0] : 0;
    for (unsigned left = f->count; left;) {
        int status;
        pid_t pid = waitpid(-group, &status, 0);
        if (pid < 0 && errno == EINTR)
            continue;
        unsigned i = index_of(f, pid);
        if (pid < 0 || i == f->count)
            return kiln_fail_errno(err, errno, "cannot wait for the clients");
        left--;
        f->pids[i] = 0;
        if (rc || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
            continue;
        rc = f->errors[i].code ? f->errors[i].code : KILN_IO;
        (void)kiln_fail(err, rc, "client %u: %s", i,
                        f->errors[i].text[0] ? f->errors[i].text : "ended without a word");
        end_clients(f);
    }
    return rc;
}

static enum kiln_code start_clients(struct fan_out *f, unsigned count, bench_client *client,
                                    void *context, struct kiln_err *err)
{
    pid_t self = getpid();
    fflush(stdout);
    while (f->count < count) {
        pid_t pid = fork();
        if (pid == 0)
            run_client(f, client, context, self);
        if (pid < 0)
            return kiln_fail_errno(err, errno, "cannot start client %u", f->count);
        f->pids[f->count++] = pid;
        if (setpgid(pid, f->pids[0]))
            return kiln_fail_errno(err, errno, "cannot group client %u", f->count - 1);
    }
    return KILN_OK;
}

enum kiln_code bench_fan_out(unsigned count, bench_client *client, void *context,
                             struct kiln_err *err)
{
    if (count == 0 || count > CLIENTS_MAX)
        return kiln_fail(err, KILN_INVALID, "%u clients are not between 1 and %d", count,
                         CLIENTS_MAX);
    struct fan_out f = { 0 };
    size_t size = count * sizeof(struct kiln_err);
    void *errors = NULL;
    enum kiln_code rc = bench_shared(size, &errors, err);
    if (rc)
        return rc;
    f.errors = errors;
    rc = start_clients(&f, count, client, context, err);
    if (rc)
        end_clients(&f);
    struct kiln_err later = KILN_ERR_INIT;
    enum kiln_code ended = collect_clients(&f, rc ? &later : err);
    bench_shared_done(errors, size);
    return rc ? rc : ended;
}

/* ---- statistics and results ---- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint64_t bench_percentile(uint64_t *samples, size_t count, double fraction)
{
    qsort(samples, count, sizeof(*samples), by_value);
    double rank = fraction * (double)count;
    size_t i = (size_t)rank;
    /* nearest-rank method: takes the smallest sample for which at least |fraction| of all samples
     * are not larger */
    if ((double)i == rank && i > 0)
        i--;
    return samples[i < count ? i : count - 1];
}

struct json *bench_result(const char *bench)
{
    struct json *result = json_object();
    json_set_text(result, "bench", bench);
    return result;
}

enum kiln_code bench_print(struct json *result, struct kiln_err *err)
{
    KILN_AUTO(mem) char *text = json_print(result, false);
    json_destroy(result);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot print a result");
    if (printf("%s\n", text) < 0 || fflush(stdout))
        return kiln_fail_errno(err, errno, "cannot print a result");
    return KILN_OK;
}

void bench_say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}
