/* SPDX-License-Identifier: MIT */
#include "engine/compile/program.h"
#include "common/base/fs.h"
#include "engine/compile/scratch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define EXIT_NOT_STARTED 127
#define PASSED_FD 3

/* Returns the CPU time that this process has left. It becomes the child's limit, because Linux
 * counts the child's CPU time from zero. */
static struct rlimit cpu_left(void)
{
    struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
    struct rusage used;
    getrlimit(RLIMIT_CPU, &limit);
    if (limit.rlim_cur == RLIM_INFINITY || getrusage(RUSAGE_SELF, &used) != 0)
        return limit;
    rlim_t spent = (rlim_t)used.ru_utime.tv_sec + (rlim_t)used.ru_stime.tv_sec;
    limit.rlim_cur = limit.rlim_cur > spent ? limit.rlim_cur - spent : 1;
    return limit;
}

/* Runs in the forked child. Makes only system calls, because a thread of the parent may have held a
 * lock of libc at the fork. */
_Noreturn static void exec_program(const struct program *p, const struct rlimit *cpu, pid_t parent,
                                   char *const *environment)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_NOT_STARTED);
    setrlimit(RLIMIT_CPU, cpu);
    if (p->out_fd >= 0 && dup2(p->out_fd, STDOUT_FILENO) < 0)
        _exit(EXIT_NOT_STARTED);
    if (p->pass_fd >= 0 && dup2(p->pass_fd, PASSED_FD) < 0)
        _exit(EXIT_NOT_STARTED);
    if (p->directory && chdir(p->directory) != 0)
        _exit(EXIT_NOT_STARTED);
    execve(p->argv[0], (char *const *)p->argv, environment);
    _exit(EXIT_NOT_STARTED);
}

static char **environment_with(const char *added)
{
    size_t count = 0, kept = 0, name = added ? strcspn(added, "=") + 1 : 0;
    while (environ[count])
        count++;
    char **copy = calloc(count + 2, sizeof(*copy));
    for (size_t i = 0; copy && i < count; i++) {
        if (!added || strncmp(environ[i], added, name) != 0)
            copy[kept++] = environ[i];
    }
    if (copy)
        copy[kept] = (char *)added;
    return copy;
}

enum kiln_code program_start(const struct program *program, pid_t *ret_pid, struct kiln_err *err)
{
    KILN_AUTO(mem) char **environment = environment_with(program->environment);
    if (!environment)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot start '%s'", program->argv[0]);
    struct rlimit cpu = cpu_left();
    pid_t self = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return kiln_fail_errno(err, errno, "cannot start '%s'", program->argv[0]);
    if (pid == 0)
        exec_program(program, &cpu, self, environment);
    *ret_pid = pid;
    return KILN_OK;
}

enum kiln_code program_wait(pid_t pid, int *ret_status, struct kiln_err *err)
{
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return kiln_fail_errno(err, errno, "cannot wait for process %d", (int)pid);
    }
    *ret_status = status;
    return KILN_OK;
}

enum kiln_code program_read(const char *const *argv, const char *environment,
                            struct buffer *ret_output, struct kiln_err *err)
{
    KILN_AUTO(fd) int out = -1;
    pid_t pid;
    int status = 0;
    enum kiln_code rc = scratch_unnamed(&out, err);
    if (rc)
        return rc;
    struct program program = {
        .argv = argv, .environment = environment, .out_fd = out, .pass_fd = -1
    };
    rc = program_start(&program, &pid, err);
    if (!rc)
        rc = program_wait(pid, &status, err);
    if (rc)
        return rc;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return kiln_fail(err, KILN_UNAVAILABLE, "'%s %s' failed", argv[0], argv[1]);
    return fs_read_fd(out, ret_output->limit, ret_output, err);
}
