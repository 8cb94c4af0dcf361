/* SPDX-License-Identifier: MIT */
#include "tests/integration/private_job.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

void private_open(struct fixture *f)
{
    daemon_process_init(&f->daemon);
    f->shared = test_shared_memory(sizeof(*f->shared));
}

void private_path_of(const struct fixture *f, const char *below, char path[256])
{
    snprintf(path, 256, "%.90s/%s", f->daemon.directory, below);
}

int private_holder_of_lock(const struct fixture *f)
{
    char path[256], text[32] = "";
    private_path_of(f, PRIVATE_LOCK, path);
    KILN_AUTO(fd) int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || pread(fd, text, sizeof(text) - 1, 0) <= 0)
        return 0;
    return atoi(text);
}

bool private_has_ended(void *context) { return private_holder_of_lock(context) == 0; }

void private_close(struct fixture *f)
{
    int pid = private_holder_of_lock(f);
    if (pid > 1)
        kill(pid, SIGKILL);
    wait_until("the lock of the private kilnd", private_has_ended, f);
}

void private_set_variable(const struct fixture *f, const char *name, const char *below)
{
    char path[256];
    private_path_of(f, below, path);
    setenv(name, path, 1);
}

void private_be_a_job(const struct fixture *f)
{
    char path[256];
    private_set_variable(f, "HOME", "home");
    private_set_variable(f, "XDG_RUNTIME_DIR", "run");
    private_set_variable(f, "XDG_CACHE_HOME", "cache-home");
    private_set_variable(f, "XDG_STATE_HOME", "state-home");
    private_set_variable(f, "XDG_CONFIG_HOME", "config-home");
    setenv("KILN_SOCKET", f->daemon.socket, 1);
    setenv("KILN_FALLBACK", "private", 1);
    setenv("KILND_WORKERS", "1", 1);
    private_path_of(f, "stderr", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

pid_t private_start_job(struct fixture *f, int (*body)(struct fixture *f))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    private_be_a_job(f);
    _exit(body(f));
}

void private_run_job(struct fixture *f, int (*body)(struct fixture *f))
{
    int status = wait_program(private_start_job(f, body));
    if (status)
        fail_msg("step %d of the job failed: %s", status, f->shared->error);
}

int private_open_client(struct fixture *f, struct kiln_client **ret_client)
{
    struct kiln_error err = { .code = 0 };
    int rc = kiln_client_open(NULL, ret_client, &err);
    snprintf(f->shared->error, sizeof(f->shared->error), "%s", err.text);
    return rc;
}

int private_ping(struct fixture *f, struct kiln_client *client, int timeout_ms)
{
    struct kiln_error err = { .code = 0 };
    int rc = kiln_client_ping(client, timeout_ms, NULL, &err);
    if (rc)
        snprintf(f->shared->error, sizeof(f->shared->error), "%s", err.text);
    return rc;
}

struct kiln_status private_status(struct kiln_client *client)
{
    struct kiln_status status = { .size = sizeof(status) };
    kiln_client_status(client, &status, NULL);
    return status;
}

int private_use_once(struct fixture *f)
{
    struct kiln_client *client;
    NEED(1, private_open_client(f, &client) == 0);
    NEED(2, private_ping(f, client, 0) == 0);
    struct kiln_status status = private_status(client);
    atomic_store(&f->shared->servers[0], status.daemon_pid);
    snprintf(f->shared->error, sizeof(f->shared->error), "%s", status.reason);
    NEED(3, status.level == KILN_LEVEL_PRIVATE);
    kiln_client_close(client);
    return 0;
}

void private_read_proc(int pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, size - 1);
    text[got > 0 ? got : 0] = '\0';
    for (ssize_t i = 0; i < got - 1; i++)
        text[i] = text[i] ? text[i] : ' ';
}
