/* SPDX-License-Identifier: MIT */
/*
 * Each has a parent of its own.  As a child without a signal of its end that parent is none that
 * wait and waitpid look at (they would with __WALL or __WCLONE), nor is SIGCHLD sent.
 *
 *   as a rule  it ends at once: who it leaves behind goes to process 1, or to a subreaper
 *   where that is this very process (process 1 of a container, say), it stays until its child ends
 *
 * It is in our memory, as with vfork: fork would take its time in a process with much of it.  While
 * it does more than wait, our thread, whose errno it has, waits for it.
 */
#include "daemon/loop/orphan.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARENT_STACK 65536
/* What the kernel lets a limit be unless it was told otherwise (fs.nr_open). */
#define FILES_MOST (1 << 20)
/* Of a parent whose child is about to end, and how often it is looked at. */
#define LOOK_MS 2
#define MS 1000000ull

#ifdef __SANITIZE_THREAD__
/* It would keep a book of this thread's calls, with the parent's in it; and its own clone takes
 * what it calls for a fork, after which it no more sees what this thread locks. */
#define UNWATCHED __attribute__((no_sanitize_thread))
int __clone(int (*run)(void *context), void *stack, int flags, void *context, ...);
#define clone __clone
#else
#define UNWATCHED
#endif

struct birth {
    const char *program;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
    char *const *arguments, *const *environment;
    pid_t pid;
    int said; /* of one that stays: where it writes its errno */
};

struct parent { /* one that stays */
    struct parent *next;
    void *stack;
    pid_t pid;
};

static struct parent *parents; /* that may have to be waited for */

UNWATCHED static int bear(struct birth *b)
{
    return posix_spawn(&b->pid, b->program, b->actions, b->attributes, b->arguments,
                       b->environment);
}

/* ---- one that ends at once ---- */

/* Not by _exit, which a sanitizer may have something to do at. */
UNWATCHED static int bear_and_end(void *context)
{
    syscall(SYS_exit_group, bear(context));
    return 0;
}

static int await(pid_t pid, int options, int *ret_status)
{
    pid_t rc;
    do
        rc = waitpid(pid, ret_status, __WALL | options);
    while (rc < 0 && errno == EINTR);
    return rc;
}

static int spawn_left_alone(struct birth *birth)
{
    _Alignas(16) char stack[PARENT_STACK];
    int status = 0;
    pid_t pid = clone(bear_and_end, stack + sizeof(stack), CLONE_VM | CLONE_VFORK, birth);
    if (pid < 0)
        return errno;
    if (await(pid, 0, &status) < 0)
        return 0; /* taken by who waits for all kinds; a start that failed shows all the same */
    return WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
}

/* ---- one that stays ---- */

/* A job that ignores SIGCHLD has no child to wait for: a wait fails once the child has ended.  This
 * process has handlers of its own.  What is all zeros is the default, on every machine. */
UNWATCHED static void have_children(void)
{
    static const unsigned long by_default[16];
    syscall(SYS_rt_sigaction, SIGCHLD, by_default, NULL, _NSIG / CHAR_BIT);
}

/* Neither an old kernel nor a container's filter may have close_range. */
UNWATCHED static void close_all_but(int kept)
{
    struct rlimit files;
    if (syscall(SYS_close_range, kept + 1, UINT_MAX, 0) == 0 &&
        (kept == 0 || syscall(SYS_close_range, 0, kept - 1, 0) == 0))
        return;
    int end = FILES_MOST;
    if (syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &files) == 0 && files.rlim_cur < FILES_MOST)
        end = (int)files.rlim_cur;
    for (int fd = 0; fd < end; fd++) {
        if (fd != kept)
            syscall(SYS_close, fd);
    }
}

/* Our thread waits until it has said how it went, and goes on with the same errno: from there on
 * there are system calls alone that succeed. */
UNWATCHED static int bear_and_wait(void *context)
{
    struct birth *b = context;
    have_children();
    int errnum = bear(b);
    pid_t child = b->pid;
    close_all_but(b->said);
    int said = b->said;
    syscall(SYS_write, said, &errnum, sizeof(errnum));
    syscall(SYS_close, said);
    if (!errnum)
        syscall(SYS_wait4, child, NULL, 0, NULL);
    syscall(SYS_exit_group, 0);
    return 0;
}

static void forget_ended(void)
{
    for (struct parent **at = &parents; *at;) {
        struct parent *p = *at;
        if (await(p->pid, WNOHANG, NULL) == 0) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        munmap(p->stack, PARENT_STACK);
        free(p);
    }
}

static int start_parent(struct parent *p, struct birth *birth)
{
    p->stack = mmap(NULL, PARENT_STACK, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (p->stack == MAP_FAILED)
        return errno;
    p->pid = clone(bear_and_wait, (char *)p->stack + PARENT_STACK, CLONE_VM, birth);
    if (p->pid > 0)
        return 0;
    int errnum = errno;
    munmap(p->stack, PARENT_STACK);
    return errnum;
}

static int spawn_with_parent(struct birth *birth)
{
    int ends[2], said = EAGAIN;
    struct parent *p = calloc(1, sizeof(*p));
    forget_ended();
    if (!p)
        return ENOMEM;
    int rc = pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
    if (!rc) {
        birth->said = ends[1];
        rc = start_parent(p, birth);
        close(ends[1]);
        if (!rc && read(ends[0], &said, sizeof(said)) == (ssize_t)sizeof(said))
            rc = said;
        else if (!rc)
            rc = EAGAIN; /* killed */
        close(ends[0]);
    }
    if (p->pid > 0) {
        p->next = parents;
        parents = p;
    } else {
        free(p);
    }
    return rc;
}

void loop_orphans_reap(unsigned patience_ms)
{
    uint64_t end = clock_monotonic_ns() + patience_ms * MS;
    forget_ended();
    while (parents && clock_monotonic_ns() < end) {
        (void)poll(NULL, 0, LOOK_MS);
        forget_ended();
    }
}

void loop_orphans_disown(void) { parents = NULL; }

/* ---- either ---- */

static bool orphans_come_to_us(void)
{
    int is_subreaper = 0;
    return getpid() == 1 ||
           (prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper) == 0 && is_subreaper != 0);
}

static int spawn_orphan(pid_t *ret_pid, const char *program,
                        const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const *arguments,
                        char *const *environment)
{
    struct birth birth = { .program = program,
                           .actions = actions,
                           .attributes = attributes,
                           .arguments = arguments,
                           .environment = environment };
    int errnum = orphans_come_to_us() ? spawn_with_parent(&birth) : spawn_left_alone(&birth);
    *ret_pid = birth.pid;
    return errnum;
}

enum kiln_code loop_orphan_start(const struct loop_spawn *spawn, struct kiln_err *err)
{
    pid_t unused;
    int errnum = spawn_process(spawn, spawn_orphan, &unused);
    return errnum ? kiln_fail_errno(err, errnum, "cannot run '%s'", spawn->program) : KILN_OK;
}
