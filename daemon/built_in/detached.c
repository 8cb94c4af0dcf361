/* SPDX-License-Identifier: MIT */
#include "daemon/built_in/detached.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_SIZE 65536

struct start {
    const char *program;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
    char *const *arguments, *const *environment;
    pid_t pid;
};

/* Not by _exit, which a sanitizer may have something to do at. */
static int start_and_end(void *context)
{
    struct start *s = context;
    int errnum =
        posix_spawn(&s->pid, s->program, s->actions, s->attributes, s->arguments, s->environment);
    syscall(SYS_exit_group, errnum);
    return 0;
}

static pid_t wait_for(pid_t pid, int *ret_status)
{
    pid_t waited;
    do
        waited = waitpid(pid, ret_status, __WALL);
    while (waited < 0 && errno == EINTR);
    return waited;
}

/*
 * A process between the two, which ends at once.  Created without a signal of its end it is no
 * child that wait and waitpid look at.  As with vfork it is in our memory, since fork would take
 * its time in a large process, and our thread waits for it.
 */
static int start_by_another(pid_t *ret_pid, const char *program,
                            const posix_spawn_file_actions_t *actions,
                            const posix_spawnattr_t *attributes, char *const *arguments,
                            char *const *environment)
{
    _Alignas(16) char stack[STACK_SIZE];
    struct start start = { program, actions, attributes, arguments, environment, -1 };
    int status = 0;
    pid_t between = clone(start_and_end, stack + sizeof(stack), CLONE_VM | CLONE_VFORK, &start);
    if (between < 0)
        return errno;
    bool is_known = wait_for(between, &status) == between; /* else another part took its status */
    *ret_pid = start.pid;
    if (is_known && !WIFEXITED(status))
        return EAGAIN;
    return is_known ? WEXITSTATUS(status) : 0;
}

int detached_start(const struct loop_spawn *spawn, pid_t *ret_pid)
{
    sigset_t all, before; /* no handler of the program's runs in the process between */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int errnum = spawn_process(spawn, start_by_another, ret_pid);
    pthread_sigmask(SIG_SETMASK, &before, /* old= */ NULL);
    return errnum;
}
