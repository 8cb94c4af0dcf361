/* SPDX-License-Identifier: MIT */
#include "tests/bench/server.h"

#include "common/base/fs.h"

#include <kiln/client.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define START_MAX_NS 30000000000u
#define STOP_MAX_MS 20000
/* interval between tries to connect; short, because kilnd takes milliseconds to start */
#define LOOK_AGAIN_NS 200000

_Noreturn static void exec_server(const char *const *argv, const char *log, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(127);
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(127);
    execvp(argv[0], (char *const *)argv);
    dprintf(STDERR_FILENO, "cannot run '%s': %s\n", argv[0], strerror(errno));
    _exit(127);
}

static enum kiln_code spawn_server(const char *const *argv, const char *log, pid_t *ret_pid,
                                   struct kiln_err *err)
{
    pid_t self = getpid();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        exec_server(argv, log, self);
    if (pid < 0)
        return kiln_fail_errno(err, errno, "cannot start '%s'", argv[0]);
    *ret_pid = pid;
    return KILN_OK;
}

static bool accepts_connections(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, path);
    KILN_AUTO(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static enum kiln_code wait_for_socket(struct server *s, const char *log, struct kiln_err *err)
{
    if (strlen(s->socket) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return kiln_fail(err, KILN_INVALID,
                         "'%s' is too long for a socket: use a work directory with a shorter path",
                         s->socket);
    uint64_t until = clock_monotonic_ns() + START_MAX_NS;
    while (!accepts_connections(s->socket)) {
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid) {
            s->pid = 0;
            return kiln_fail(err, KILN_UNAVAILABLE, "a server ended at once; its log is '%s'", log);
        }
        if (clock_monotonic_ns() > until)
            return kiln_fail(err, KILN_TIMED_OUT, "nothing listens on '%s' after 30 s; see '%s'",
                             s->socket, log);
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_AGAIN_NS }, NULL);
    }
    return KILN_OK;
}

void server_stop(struct server *s)
{
    if (s->pid <= 0)
        return;
    KILN_AUTO(fd) int watch = pidfd_open(s->pid, 0);
    kill(s->pid, SIGTERM);
    struct pollfd p = { .fd = watch, .events = POLLIN };
    if (watch < 0 || poll(&p, 1, STOP_MAX_MS) <= 0)
        kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

static enum kiln_code path_below(const struct bench_options *bench, const char *name,
                                 const char *leaf, char path[BENCH_PATH_MAX], struct kiln_err *err)
{
    char both[160];
    snprintf(both, sizeof(both), "%s%s", name, leaf);
    return bench_path(bench->work, both, path, err);
}

enum kiln_code kilnd_cache_directory(const struct bench_options *bench, const char *name,
                                     char path[BENCH_PATH_MAX], struct kiln_err *err)
{
    enum kiln_code rc = path_below(bench, name, "/cache", path, err);
    return rc ? rc : fs_make_directories(path, err);
}

enum kiln_code kilnd_state_directory(const struct bench_options *bench, const char *name,
                                     char path[BENCH_PATH_MAX], struct kiln_err *err)
{
    enum kiln_code rc = path_below(bench, name, "/state", path, err);
    return rc ? rc : fs_make_directories(path, err);
}

struct kilnd_paths {
    char program[BENCH_PATH_MAX], cache[BENCH_PATH_MAX], state[BENCH_PATH_MAX];
    char config[BENCH_PATH_MAX], log[BENCH_PATH_MAX];
};

/* Writes an empty configuration file, so that kilnd does not read this machine's. */
static enum kiln_code write_config(const char *path, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot write '%s'", path);
    return fs_write_all(fd, bytes_of_text("{}\n"), err);
}

static enum kiln_code kilnd_paths(const struct bench_options *bench, const char *name,
                                  struct kilnd_paths *p, char socket[BENCH_PATH_MAX],
                                  struct kiln_err *err)
{
    const struct {
        const char *leaf;
        char *path;
    } all[] = {
        { "/state", p->state },
        { "/kilnd.json", p->config },
        { "/kilnd.log", p->log },
        { "/s", socket },
    };
    enum kiln_code rc = bench_path(bench->bin, "kilnd", p->program, err);
    if (!rc)
        rc = kilnd_cache_directory(bench, name, p->cache, err);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && !rc; i++)
        rc = path_below(bench, name, all[i].leaf, all[i].path, err);
    return rc ? rc : write_config(p->config, err);
}

static enum kiln_code ping_server(const char *socket, const char *log, struct kiln_err *err)
{
    struct kiln_client_options options = { .size = sizeof(options), .socket_path = socket };
    struct kiln_client *client;
    struct kiln_error error = { 0 };
    if (kiln_client_open(&options, &client, &error))
        return kiln_fail(err, (enum kiln_code)error.code, "%s", error.text);
    int rc = kiln_client_ping(client, 30000, NULL, &error);
    kiln_client_close(client);
    if (rc)
        return kiln_fail(err, (enum kiln_code)rc, "kilnd does not answer: %s; see '%s'", error.text,
                         log);
    return KILN_OK;
}

enum kiln_code kilnd_start(const struct bench_options *bench, const struct kilnd_options *options,
                           struct server *ret_server, struct kiln_err *err)
{
    struct kilnd_paths p;
    SERVER_AUTO struct server s = { 0 };
    enum kiln_code rc = kilnd_paths(bench, options->name, &p, s.socket, err);
    if (rc)
        return rc;
    char workers[16];
    snprintf(workers, sizeof(workers), "%u", options->workers ? options->workers : bench->cpus);
    const char *const argv[] = {
        p.program, "--config",    p.config, "--socket",      s.socket, "--cache-dir",
        p.cache,   "--state-dir", p.state,  "--workers",     workers,  "--hot-limit",
        "2GiB",    "--hot-count", "16384",  "--cache-limit", "64GiB",  NULL,
    };
    uint64_t start = clock_monotonic_ns();
    rc = spawn_server(argv, p.log, &s.pid, err);
    if (!rc)
        rc = wait_for_socket(&s, p.log, err);
    if (!rc)
        rc = ping_server(s.socket, p.log, err);
    if (rc)
        return rc;
    s.ready_ns = clock_monotonic_ns() - start;
    *ret_server = s;
    s.pid = 0;
    return KILN_OK;
}

enum kiln_code redis_start(const struct bench_options *bench, struct server *ret_server,
                           struct kiln_err *err)
{
    SERVER_AUTO struct server s = { 0 };
    char log[BENCH_PATH_MAX];
    enum kiln_code rc = bench_path(bench->work, "redis.sock", s.socket, err);
    if (!rc)
        rc = bench_path(bench->work, "redis.log", log, err);
    if (rc)
        return rc;
    /* removes the socket of an earlier run that was killed: it would look as if the new server were
     * ready */
    unlink(s.socket);
    const char *const argv[] = {
        "redis-server", "--port", "0",     "--unixsocket", s.socket,     "--save",  "",
        "--appendonly", "no",     "--dir", bench->work,    "--loglevel", "warning", NULL,
    };
    uint64_t start = clock_monotonic_ns();
    rc = spawn_server(argv, log, &s.pid, err);
    if (!rc)
        rc = wait_for_socket(&s, log, err);
    if (rc)
        return kiln_while(err, "starting redis-server");
    s.ready_ns = clock_monotonic_ns() - start;
    *ret_server = s;
    s.pid = 0;
    return KILN_OK;
}

enum kiln_code server_pin(const struct server *s, unsigned cpu, struct kiln_err *err)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)s->pid);
    DIR *threads = opendir(path);
    if (!threads)
        return kiln_fail_errno(err, errno, "cannot list the threads of process %d", (int)s->pid);
    enum kiln_code rc = KILN_OK;
    for (struct dirent *d; !rc && (d = readdir(threads));) {
        if (d->d_name[0] != '.')
            rc = bench_pin((pid_t)strtol(d->d_name, NULL, 10), cpu, err);
    }
    closedir(threads);
    return rc;
}

static uint64_t kib_after(const char *text, const char *label)
{
    const char *at = strstr(text, label);
    return at ? strtoull(at + strlen(label), NULL, 10) << 10 : 0;
}

enum kiln_code server_memory(const struct server *s, struct server_memory *ret_memory,
                             struct kiln_err *err)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)s->pid);
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, 64 << 10);
    enum kiln_code rc = fs_read_file(path, 64 << 10, &content, err);
    if (rc)
        return rc;
    buffer_put_u8(&content, 0);
    if (content.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot read '%s'", path);
    ret_memory->resident = kib_after((const char *)content.data, "VmRSS:");
    ret_memory->shared = kib_after((const char *)content.data, "RssShmem:");
    return KILN_OK;
}
