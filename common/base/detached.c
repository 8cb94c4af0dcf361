/* SPDX-License-Identifier: MIT */
/*
 * The program's parent is an intermediate process, made by clone(2) without a termination signal.
 * Therefore wait() and waitpid() skip the intermediate (unless called with __WALL or __WCLONE), and
 * its end sends no SIGCHLD.
 *
 *   - Usually the intermediate exits at once.  Then process 1 or a subreaper becomes the program's
 *     parent.
 *   - If this process itself would become the parent (it is process 1 or a subreaper), the
 *     intermediate stays until the program or this process exits.
 *
 * The intermediate shares this process's memory, as after vfork, because fork would copy the page
 * tables.  The intermediate executes nothing: after execve it would be an ordinary child, which
 * sends SIGCHLD.  The calling thread continues once the intermediate has exited or waits for the
 * program.
 */
#include "common/base/detached.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK 65536
#define FILES_MAX 8

#ifdef __SANITIZE_THREAD__
/* Functions of the intermediate are not instrumented: ThreadSanitizer would attribute their calls
 * to this thread.  __clone is used because ThreadSanitizer replaces clone() with a version that
 * acts like fork. */
#define UNWATCHED __attribute__((no_sanitize_thread))
int __clone(int (*run)(void *context), void *stack, int flags, void *context, ...);
#define clone __clone
#else
#define UNWATCHED
#endif

struct spawn {
    const struct detached *detached;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t parent;
    int result;
    /* If the intermediate stays, it writes to this pipe after it has spawned the program. */
    int done;
};

UNWATCHED static pid_t spawn_program(struct spawn *s)
{
    pid_t pid = 0;
    s->result = posix_spawn(&pid, s->detached->program, &s->actions, &s->attributes,
                            s->detached->arguments, s->detached->environment);
    return s->result ? 0 : pid;
}

/* Does not call _exit, because sanitizers intercept it. */
UNWATCHED static int spawn_and_end(void *context)
{
    spawn_program(context);
    syscall(SYS_exit_group, 0);
    return 0;
}

/* Makes a system call without setting errno, which belongs to the calling thread.  libc's functions
 * set errno, so this is assembly. */
#if defined __x86_64__
UNWATCHED static long call_system(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined __aarch64__
UNWATCHED static long call_system(long number, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#else
/* syscall() sets the calling thread's errno, but only once: when wait4 finds no child. */
#define call_system syscall
#endif

/* Reaps children until there are none, or until |parent| has ended.  Both events send SIGCHLD. The
 * signal is blocked, and this function waits for it. */
UNWATCHED static void reap_children(pid_t parent)
{
    static const unsigned long child_signal[_NSIG / CHAR_BIT] = { 1ul << (SIGCHLD - 1) };
    for (;;) {
        long reaped = call_system(SYS_wait4, -1l, 0l, (long)WNOHANG, 0l);
        if (reaped > 0)
            continue;
        if (reaped < 0 || call_system(SYS_getppid, 0l, 0l, 0l, 0l) != parent)
            return;
        call_system(SYS_rt_sigtimedwait, (long)child_signal, 0l, 0l, (long)(_NSIG / CHAR_BIT));
    }
}

/* Spawns the program and waits for it.  After this function writes to |done|, the calling thread
 * runs again and uses the shared memory.  From then on this function must not change that memory,
 * which includes errno.  So it only makes system calls that succeed, or uses call_system(). */
UNWATCHED static int spawn_and_wait(void *context)
{
    static const unsigned long by_default[16];
    struct spawn *s = context;
    pid_t parent = s->parent;
    syscall(SYS_rt_sigaction, SIGCHLD, by_default, NULL, _NSIG / CHAR_BIT);
    syscall(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    /* Linux sends this process SIGCHLD as soon as the thread that created it has exited, even if
     * other threads of the creating process still run. */
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGCHLD, 0, 0, 0);
    spawn_program(s);
    int done = s->done;
    if (done > 0)
        syscall(SYS_close_range, 0, done - 1, 0);
    syscall(SYS_close_range, done + 1, UINT_MAX, 0);
    syscall(SYS_write, done, "", 1);
    syscall(SYS_close, done);
    reap_children(parent);
    syscall(SYS_exit_group, 0);
    return 0;
}

static int start_without_reaper(struct spawn *s)
{
    _Alignas(16) char stack[STACK];
    pid_t pid = clone(spawn_and_end, stack + sizeof(stack), CLONE_VM | CLONE_VFORK, s);
    if (pid < 0)
        return errno;
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        continue; /* any other error means that another thread has reaped the intermediate */
    return s->result;
}

/* Starts the program with an intermediate that stays.  Never frees the stack, because the
 * intermediate runs on it; a process starts only a few programs in this way.  The intermediate also
 * needs this code, so libkiln is linked as a library that is never unloaded. */
static int start_with_reaper(struct spawn *s)
{
    int ends[2];
    char byte;
    void *stack =
        mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return errno;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        int errnum = errno;
        munmap(stack, STACK);
        return errnum;
    }
    s->done = ends[1];
    pid_t pid = clone(spawn_and_wait, (char *)stack + STACK, CLONE_VM, s);
    int errnum = errno;
    close(ends[1]);
    ssize_t got;
    do
        got = pid < 0 ? 0 : read(ends[0], &byte, 1);
    while (got < 0 && errno == EINTR);
    close(ends[0]);
    if (pid < 0)
        munmap(stack, STACK);
    return pid < 0 ? errnum : got == 1 ? s->result : EAGAIN;
}

static bool adopts_orphans(void)
{
    int is_subreaper = 0;
    return getpid() == 1 ||
           (prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper) == 0 && is_subreaper != 0);
}

int detached_set_signals(posix_spawnattr_t *attributes)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    int rc = posix_spawnattr_setsigdefault(attributes, &all);
    if (!rc)
        rc = posix_spawnattr_setsigmask(attributes, &none);
    return rc ? rc
              : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF |
                                                         POSIX_SPAWN_SETSIGMASK);
}

static int set_file(struct spawn *s, int fd, int number)
{
    return fd < 0 ? posix_spawn_file_actions_addopen(&s->actions, number, "/dev/null", O_RDWR, 0)
                  : posix_spawn_file_actions_adddup2(&s->actions, fd, number);
}

/* Makes |files| the program's descriptors 1, 2, ... |files| must have higher numbers in this
 * process than in the program.  Otherwise placing one descriptor would overwrite another. */
static int set_files(struct spawn *s, const int *files)
{
    int count = (int)s->detached->file_count;
    int rc = set_file(s, -1, STDIN_FILENO);
    for (int i = 0; i < count && !rc; i++)
        rc = set_file(s, files[i], i + 1);
    if (!rc)
        rc = posix_spawn_file_actions_addchdir_np(&s->actions, "/");
    return rc ? rc : posix_spawn_file_actions_addclosefrom_np(&s->actions, count + 1);
}

static int start_with_files(struct spawn *s, const int *files)
{
    sigset_t all, before;
    int rc = detached_set_signals(&s->attributes);
    if (!rc)
        rc = set_files(s, files);
    if (rc)
        return rc;
    sigfillset(&all); /* no signal handler of this process may run in the intermediate */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    rc = adopts_orphans() ? start_with_reaper(s) : start_without_reaper(s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int detached_start(const struct detached *detached)
{
    struct spawn s = { .detached = detached, .parent = getpid() };
    int files[FILES_MAX], rc = posix_spawnattr_init(&s.attributes);
    size_t count = 0;
    if (rc)
        return rc;
    rc = posix_spawn_file_actions_init(&s.actions);
    for (; !rc && count < detached->file_count; count++) {
        int fd = detached->files[count];
        files[count] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FILES_MAX);
        if (files[count] < 0 && fd >= 0)
            rc = errno;
    }
    if (!rc)
        rc = start_with_files(&s, files);
    for (size_t i = 0; i < count; i++) {
        if (files[i] >= 0)
            close(files[i]);
    }
    posix_spawn_file_actions_destroy(&s.actions);
    posix_spawnattr_destroy(&s.attributes);
    return rc;
}
