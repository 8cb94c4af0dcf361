/* SPDX-License-Identifier: MIT */
#include "tests/support/daemon_process.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "tests/support/child.h"
#include "tests/support/children.h"
#include "tests/support/raw_client.h"
#include "tests/support/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 48
/* time limit of a program; enough for a compile under a sanitizer on a loaded machine */
#define PROGRAM_MAX_S 240

static void set(const char *name, const char *directory, const char *below)
{
    char value[256];
    snprintf(value, sizeof(value), "%s/%s", directory, below);
    setenv(name, value, 1);
}

/* Called in the child. Replaces HOME and the XDG directories, so that nothing uses the user's
 * own files. */
static void private_environment(const struct daemon_process *d)
{
    set("HOME", d->directory, "home");
    set("XDG_RUNTIME_DIR", d->directory, "run");
    set("XDG_CACHE_HOME", d->directory, "cache-home");
    set("XDG_STATE_HOME", d->directory, "state-home");
    set("XDG_CONFIG_HOME", d->directory, "config-home");
    set("POCL_CACHE_DIR", d->directory, "pocl");
    setenv("KILN_SOCKET", d->socket, 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void remove_at_end(void *d) { daemon_process_remove(d); }

void daemon_process_init(struct daemon_process *d)
{
    static const char *const directories[] = { "home", "run", "pocl" };
    memset(d, 0, sizeof(*d));
    snprintf(d->directory, sizeof(d->directory), "/tmp/kiln-test-XXXXXX");
    assert_non_null(mkdtemp(d->directory));
    test_at_end(remove_at_end, d);
    snprintf(d->cache, sizeof(d->cache), "%s/cache", d->directory);
    snprintf(d->state, sizeof(d->state), "%s/state", d->directory);
    snprintf(d->log, sizeof(d->log), "%s/kilnd.log", d->directory);
    snprintf(d->socket, sizeof(d->socket), "%s/kilnd.sock", d->directory);
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
        char path[256];
        snprintf(path, sizeof(path), "%s/%s", d->directory, directories[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
}

static bool answers(const char *path)
{
    KILN_AUTO(fd) int fd = unix_try_connect(SOCK_STREAM, path);
    return fd >= 0 && raw_greets(fd);
}

static void log_to_file(const struct daemon_process *d)
{
    int fd = open(d->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(126);
}

static void exec_one(struct daemon_process *d)
{
    const char *argv[ARGUMENTS_MAX] = { KILN_BIN "/kilnd" };
    const char *const places[] = { "--socket", d->socket,     "--cache-dir",
                                   d->cache,   "--state-dir", d->state };
    size_t count = 1;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        argv[count++] = places[i];
    for (size_t i = 0; d->arguments[i]; i++)
        argv[count++] = d->arguments[i];
    private_environment(d);
    if (d->keep_log)
        log_to_file(d);
    if (d->prepare)
        d->prepare(d->context);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static bool has_started(void *context)
{
    struct daemon_process *d = context;
    int status = 0;
    if (waitpid(d->pid, &status, WNOHANG) == d->pid) {
        d->pid = 0;
        fail_msg("kilnd ended at once, wait status %d", status);
    }
    return answers(d->socket);
}

void daemon_process_begin(struct daemon_process *d)
{
    assert_int_equal(d->pid, 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        exec_one(d);
    /* The child must not write |d->pid|: |d| may be in memory that parent and child share. */
    d->pid = pid;
}

void daemon_process_start(struct daemon_process *d)
{
    daemon_process_begin(d);
    wait_until("kilnd to answer on its socket", has_started, d);
}

void daemon_process_open(struct daemon_process *d, const char *const *arguments)
{
    daemon_process_init(d);
    for (size_t i = 0; arguments && arguments[i]; i++)
        d->arguments[i] = arguments[i];
    daemon_process_start(d);
}

void admit_all_users(const struct daemon_process *d)
{
    assert_int_equal(chmod(d->directory, 0755) | chmod(d->socket, 0666), 0);
}

static int exit_status(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int wait_program(pid_t pid)
{
    return exit_status(await_process(pid, "a program to end", PROGRAM_MAX_S));
}

int daemon_process_wait(struct daemon_process *d)
{
    assert_true(d->pid > 0);
    int status = exit_status(await_process(d->pid, "kilnd to end", PROGRAM_MAX_S));
    d->pid = 0;
    return status;
}

static int end(struct daemon_process *d, int signal)
{
    assert_true(d->pid > 0);
    assert_int_equal(kill(d->pid, signal), 0);
    return daemon_process_wait(d);
}

int daemon_process_stop(struct daemon_process *d) { return end(d, SIGTERM); }
void daemon_process_kill(struct daemon_process *d) { end(d, SIGKILL); }

void daemon_process_remove(struct daemon_process *d)
{
    if (d->pid)
        end(d, SIGTERM);
    fs_remove_tree(AT_FDCWD, d->directory);
    test_not_at_end(remove_at_end, d);
}

char *daemon_process_log(const struct daemon_process *d)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer log;
    buffer_init(&log, 1u << 20);
    must(fs_read_file(d->log, 1u << 20, &log, &err), err);
    return bytes_to_text(buffer_view(&log));
}

static int signal_children(int pid, int signal)
{
    pid_t children[CHILDREN_MAX];
    unsigned count = children_of(pid, children, CHILDREN_MAX);
    for (unsigned i = 0; i < count; i++)
        /* signals the worker's process group, which may still have processes if the worker has
         * ended */
        kill(-children[i], signal);
    return (int)count;
}

static bool none_starts(void *context)
{
    static struct program_result result;
    run_program(context, &result, "kilnctl", "status", "--json", NULL);
    if (result.status)
        fail_msg("kilnctl status --json: status %d, '%s'", result.status, result.output);
    KILN_AUTO(json) struct json *status = result_json(&result);
    const struct json *workers = json_get(status, "workers");
    uint64_t at_hand = json_get_u64(workers, "idle", 0) + json_get_u64(workers, "busy", 0);
    return at_hand == json_get_u64(workers, "total", 0);
}

/* If |signal| is SIGSTOP, first waits until each worker has called exec. A thread of kilnd that
 * starts a worker waits for that exec, and would hang if the worker were stopped before. */
void daemon_process_signal_workers(struct daemon_process *d, int signal)
{
    if (signal == SIGSTOP)
        wait_until("all compilers to have started", none_starts, d);
    assert_true(signal_children((int)d->pid, signal) > 0);
}

long daemon_process_memory(const struct daemon_process *d, const char *name)
{
    char path[64], line[256];
    long kb = -1;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)d->pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), ": %ld", &kb);
    }
    fclose(file);
    assert_true(kb > 0);
    return kb;
}

static pid_t spawn(struct daemon_process *d, const char *name, va_list more, int output_fd)
{
    char path[512];
    const char *argv[ARGUMENTS_MAX] = { path };
    snprintf(path, sizeof(path), KILN_BIN "/%s", name);
    size_t count = 1;
    for (const char *word = va_arg(more, const char *); word; word = va_arg(more, const char *)) {
        assert_true(count < ARGUMENTS_MAX - 1);
        argv[count++] = word;
    }
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    if (d->user && setresuid(d->user, d->user, d->user) < 0)
        _exit(126);
    private_environment(d);
    dup2(output_fd, STDOUT_FILENO);
    dup2(output_fd, STDERR_FILENO);
    execv(path, (char *const *)(uintptr_t)argv);
    _exit(127);
}

pid_t start_program(struct daemon_process *d, int *ret_fd, const char *name, ...)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    va_list more;
    va_start(more, name);
    pid_t pid = spawn(d, name, more, ends[1]);
    va_end(more);
    close(ends[1]);
    *ret_fd = ends[0];
    return pid;
}

static void read_output(pid_t pid, const char *name, int fd, struct program_result *result)
{
    size_t used = 0;
    char spill[4096];
    uint64_t end = clock_monotonic_ns() + PROGRAM_MAX_S * UINT64_C(1000000000);
    for (ssize_t got = 1; got > 0; result->output[used] = '\0') {
        size_t room = sizeof(result->output) - 1 - used;
        struct pollfd p = { .fd = fd, .events = POLLIN };
        if (clock_monotonic_ns() > end || poll(&p, 1, PROGRAM_MAX_S * 1000) == 0) {
            kill(pid, SIGKILL);
            fprintf(stderr, "%s said: '%s'\n", name, result->output);
            fail_wait(PROGRAM_MAX_S, "the end of the output of a program");
        }
        got = read(fd, room ? result->output + used : spill, room ? room : sizeof(spill));
        used += room && got > 0 ? (size_t)got : 0;
    }
}

void finish_program(pid_t pid, int fd, const char *name, struct program_result *ret_result)
{
    read_output(pid, name, fd, ret_result);
    close(fd);
    ret_result->status = wait_program(pid);
}

void run_program(struct daemon_process *d, struct program_result *ret_result, const char *name, ...)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    va_list more;
    va_start(more, name);
    pid_t pid = spawn(d, name, more, ends[1]);
    va_end(more);
    close(ends[1]);
    finish_program(pid, ends[0], name, ret_result);
}

struct json *result_json(const struct program_result *result)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct json *json = NULL;
    if (json_parse(bytes_of_text(result->output), "output", &json, &err))
        fail_msg("%s: '%s'", err.text, result->output);
    return json;
}

unsigned long long stats_number(const struct json *stats, const char *name)
{
    const struct json *from = strncmp(name, "hits.", 5) == 0 ? json_get(stats, "hits") : stats;
    const char *member = from == stats ? name : name + 5;
    if (!json_get(from, member))
        fail_msg("stats has no '%s'", name);
    return json_get_u64(from, member, 0);
}

unsigned long long daemon_stat(struct daemon_process *d, const char *name)
{
    static struct program_result result;
    run_program(d, &result, "kilnctl", "stats", "--json", NULL);
    if (result.status)
        fail_msg("kilnctl stats --json: status %d, '%s'", result.status, result.output);
    KILN_AUTO(json) struct json *stats = result_json(&result);
    return stats_number(stats, name);
}

struct whole_sandbox {
    struct daemon_process *daemon;
    char missing[400]; /* the missing layers, or "" */
};

static bool is_sandbox_known(void *context)
{
    static struct program_result result;
    struct whole_sandbox *s = context;
    run_program(s->daemon, &result, "kilnctl", "status", "--json", NULL);
    if (result.status)
        fail_msg("kilnctl status --json: status %d, '%s'", result.status, result.output);
    KILN_AUTO(json) struct json *status = result_json(&result);
    const struct json *sandbox = json_get(json_get(status, "workers"), "sandbox");
    snprintf(s->missing, sizeof(s->missing), "%s", json_get_text(sandbox, "missing", ""));
    return json_get(sandbox, "layers") != NULL;
}

void daemon_process_start_in_whole_sandbox(struct daemon_process *d)
{
    struct whole_sandbox s = { .daemon = d };
    assert_null(d->arguments[0]);
    d->arguments[0] = "--sandbox";
    d->arguments[1] = "require";
    daemon_process_start(d);
    wait_until("the report of the sandbox", is_sandbox_known, &s);
    if (!*s.missing)
        return;
    print_message("not in a whole sandbox: there is no '%s' here\n", s.missing);
    assert_int_equal(daemon_process_stop(d), 0);
    d->arguments[0] = d->arguments[1] = NULL;
    daemon_process_start(d);
}
