/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/compile/compiler_process.h"
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/compile/worker_wire.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define WAIT_MS 60000
#define SOCKET_FD 3

static void limit(int resource, rlim_t value)
{
    struct rlimit both = { value, value };
    if (value)
        setrlimit(resource, &both);
}

_Noreturn static void become(int socket_fd, const struct compiler_process *p,
                             const struct compiler_setup *setup)
{
    char jobs[16], user[32];
    const char *argv[12] = { "kiln-compiler", "--temp", p->directory, "--max-jobs", jobs };
    size_t count = 5;
    snprintf(jobs, sizeof(jobs), "%u", setup->max_jobs);
    snprintf(user, sizeof(user), "%u:%u", (unsigned)setup->user, (unsigned)setup->user);
    if (setup->limits) {
        argv[count++] = "--limits";
        argv[count++] = setup->limits;
    }
    if (setup->user) {
        argv[count++] = "--user";
        argv[count++] = user;
    }
    setsid();
    dup2(socket_fd, SOCKET_FD);
    limit(RLIMIT_FSIZE, setup->file_size);
    limit(RLIMIT_AS, setup->addresses);
    limit(RLIMIT_CORE, 1);
    execv(KILN_COMPILER, (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* Makes a directory for the compiler. If it runs as another |user|, the directory is in /tmp,
 * because that user may be unable to enter the build directory. */
static void make_directory(struct compiler_process *p, uid_t user)
{
    strcpy(p->directory, user ? "/tmp/kiln-test-compiler-XXXXXX" : "kiln-test-compiler-XXXXXX");
    assert_non_null(mkdtemp(p->directory));
    assert_int_equal(user ? chown(p->directory, user, user) : 0, 0);
}

static enum worker_message wait_for(struct compiler_process *p, struct worker_result *collected,
                                    enum kiln_code *ret_code, struct kiln_err *err)
{
    enum worker_message message = WORKER_READY;
    struct pollfd readable = { .fd = p->socket_fd, .events = POLLIN };
    do {
        assert_int_equal(poll(&readable, 1, WAIT_MS), 1);
        *ret_code = worker_receive(p->socket_fd, &message, collected, err);
    } while (*ret_code == KILN_BUSY);
    return message;
}

/* Returns the last child of |pid|. If |pid| is the supervisor of a process namespace, its last
 * child is the worker, because the supervisor starts init first. */
static pid_t last_child(pid_t pid)
{
    char path[64];
    int child = 0, last = (int)pid;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fscanf(file, "%d", &child) == 1)
        last = child;
    fclose(file);
    return last;
}

void compiler_start(struct compiler_process *p, const struct compiler_setup *setup)
{
    static const struct compiler_setup none = { 0 };
    struct kiln_err err = KILN_ERR_INIT;
    struct worker_result handshake;
    enum kiln_code rc;
    int pair[2];
    make_directory(p, setup ? setup->user : 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0)
        become(pair[1], p, setup ? setup : &none);
    close(pair[1]);
    p->socket_fd = pair[0];
    assert_int_equal(wait_for(p, &handshake, &rc, &err), WORKER_READY);
    must(rc, err);
    p->sandbox = handshake.sandbox;
    p->worker = last_child(p->pid);
}

struct compile_result compiler_run(struct compiler_process *p, const struct compile_job *job)
{
    struct compile_result result = COMPILE_RESULT_INIT;
    struct kiln_err err = KILN_ERR_INIT;
    struct worker_files files;
    struct worker_result collected;
    enum kiln_code rc;
    uint64_t start = clock_monotonic_ns();
    must(worker_send_job(p->socket_fd, job, &files, &err), err);
    wait_for(p, &collected, &rc, &err);
    worker_collect(&files, COMPILE_CRASHED, err.text, rc ? NULL : &collected, &result);
    result.wall_ns = clock_monotonic_ns() - start;
    return result;
}

int compiler_stop(struct compiler_process *p)
{
    close(p->socket_fd);
    int status = await_child(p->pid);
    fs_remove_tree(AT_FDCWD, p->directory);
    return status;
}
