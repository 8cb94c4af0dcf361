/* SPDX-License-Identifier: MIT */

/* Replacements of libc's functions that let calls fail according to a plan (plan.h). They are
 * linked into tests, or loaded into programs through LD_PRELOAD.
 *
 * A call that does not fail is passed on to Linux with syscall(2). Memory comes from the
 * sanitizer if there is one, otherwise from libc. */
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): libc's names are reserved
#include "tests/faults/plan.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))
#define NS 1000000000
#define PATH_SIZE 200

static struct fault_plan *plan; /* may be NULL */
/* Set if the process must die after this thread's current call (FAULT_TEAR). The TLS model is
 * initial-exec, because the first access in other models allocates memory. */
static __thread __attribute__((tls_model("initial-exec"))) bool dies_after;

/* ---- plans ---- */

static struct fault_plan *map_plan(int fd)
{
    void *at = (void *)syscall(SYS_mmap, NULL, sizeof(struct fault_plan), PROT_READ | PROT_WRITE,
                               MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

struct fault_plan *fault_plan_make(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct fault_plan *made = NULL;
    if (fd >= 0 && ftruncate(fd, sizeof(*made)) == 0)
        made = map_plan(fd);
    if (fd >= 0)
        close(fd);
    return made;
}

void fault_plan_arm(struct fault_plan *p)
{
    atomic_store(&p->seen, 0);
    atomic_store(&p->injected, 0);
    p->where[0] = '\0';
    atomic_store(&p->armed, true);
}

bool fault_plan_disarm(struct fault_plan *p)
{
    atomic_store(&p->armed, false);
    return atomic_load(&p->injected) > 0;
}

void fault_plan_obey(struct fault_plan *p) { plan = p; }

__attribute__((constructor)) static void find_plan(void)
{
    const char *path = getenv(FAULT_PLAN_VARIABLE);
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    struct fault_plan *found = fd >= 0 ? map_plan(fd) : NULL;
    if (fd >= 0)
        syscall(SYS_close, fd);
    if (found && (!*found->program || strcmp(found->program, program_invocation_short_name) == 0))
        plan = found;
    if (plan)
        atomic_fetch_add(&plan->programs, 1);
}

/* ---- injection ---- */

static void path_of(int fd, char path[PATH_SIZE])
{
    char link[40];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t got = (ssize_t)syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_SIZE - 1);
    path[got > 0 ? got : 0] = '\0';
}

/* Describes the call in plan->where: the function, and the path of its file or the address of the
 * code that allocates memory. */
static void name_subject(const char *call, const void *caller, const char *path)
{
    Dl_info at;
    if (*path)
        snprintf(plan->where, sizeof(plan->where), "%s of %s", call, path);
    else if (dladdr(caller, &at) && at.dli_fname)
        snprintf(plan->where, sizeof(plan->where), "%s for %s+0x%zx", call, at.dli_fname,
                 (size_t)((const char *)caller - (const char *)at.dli_fbase));
    else
        snprintf(plan->where, sizeof(plan->where), "%s", call);
}

static _Noreturn void die(void)
{
    for (;;)
        syscall(SYS_kill, (int)syscall(SYS_getpid), SIGKILL);
}

struct call {
    unsigned kinds; /* enum fault_calls */
    const char *name;
    const void *caller;
    int file;         /* descriptor + 1; 0 means none */
    const char *path; /* NULL means the path of |file| */
    /* the number of bytes to write or read, which a fault may reduce; NULL if the call must
     * transfer all bytes or none */
    size_t *size;
};

/* Writes a step's name such as "pwrite of kernels.db-wal". Replaces numbers by '#', and cuts the
 * random suffix of mkdtemp. */
static void name_step(const char *call, const char *path, char step[FAULT_STEP_SIZE])
{
    const char *slash = strrchr(path, '/');
    const char *name = slash && slash[1] ? slash + 1 : path;
    size_t size = (size_t)snprintf(step, FAULT_STEP_SIZE, *name ? "%s of %.40s" : "%s", call, name);
    size_t kept = strlen(call), at = kept;
    for (; at < size && at < FAULT_STEP_SIZE - 1; at++) {
        bool is_number = step[at] >= '0' && step[at] <= '9';
        bool is_made_up = (step[at - 1] == '-' || step[at - 1] == '.') && size - at == 6;
        if (is_made_up)
            break;
        if (!is_number || (kept > 0 && step[kept - 1] != '#'))
            step[kept++] = is_number ? '#' : step[at];
    }
    step[kept] = '\0';
}

static void note_step(const char *step)
{
    while (atomic_flag_test_and_set(&plan->noting)) {
    }
    unsigned at = 0;
    while (at < plan->step_count && strcmp(plan->steps[at], step) != 0)
        at++;
    if (at == plan->step_count && at < FAULT_STEPS_MAX)
        strcpy(plan->steps[plan->step_count++], step);
    atomic_flag_clear(&plan->noting);
}

static bool is_of_library(const void *caller, const char *library)
{
    Dl_info at;
    return dladdr(caller, &at) && at.dli_fname && strstr(at.dli_fname, library);
}

static bool is_selected(const struct call *call, char path[PATH_SIZE])
{
    bool by_step = plan->notes_steps || *plan->step;
    char step[FAULT_STEP_SIZE];
    path[0] = '\0';
    if (call->path)
        snprintf(path, PATH_SIZE, "%s", call->path);
    else if (call->file && (*plan->path || by_step))
        path_of(call->file - 1, path);
    if (by_step)
        name_step(call->name, path, step);
    if (plan->notes_steps)
        note_step(step);
    if (*plan->without && is_of_library(call->caller, plan->without))
        return false;
    return (!*plan->path || strstr(path, plan->path)) &&
           (!*plan->step || strcmp(step, plan->step) == 0);
}

static bool inject_fault(const struct call *call, const char *path)
{
    char known[PATH_SIZE];
    snprintf(known, sizeof(known), "%s", path);
    if (!*known && call->file)
        path_of(call->file - 1, known);
    if (atomic_fetch_add(&plan->injected, 1) == 0) {
        plan->pid = (int)syscall(SYS_getpid);
        name_subject(call->name, call->caller, known);
    }
    bool halves = plan->action == FAULT_SHORT || plan->action == FAULT_TEAR;
    if (halves && call->size && *call->size > 1)
        *call->size /= 2;
    if (plan->action == FAULT_KILL)
        die();
    dies_after = plan->action == FAULT_TEAR;
    errno = plan->error;
    return plan->action != FAULT_FAIL;
}

static bool may_pass(const struct call *call)
{
    char path[PATH_SIZE];
    if (!plan || !(plan->calls & call->kinds) || !atomic_load(&plan->armed))
        return true;
    int before = errno;
    if (is_selected(call, path)) {
        unsigned number = atomic_fetch_add(&plan->seen, 1) + 1;
        if (number == plan->first || (plan->onwards && number > plan->first))
            return inject_fault(call, path);
    }
    errno = before;
    return true;
}

static ssize_t finish_call(ssize_t result)
{
    if (dies_after)
        die();
    return result;
}

#define HERE __builtin_return_address(0)
#define MAY_PASS(...) may_pass(&(const struct call){ .caller = HERE, __VA_ARGS__ })

static unsigned kinds_of(int fd, unsigned of_file, unsigned of_socket)
{
    struct stat seen;
    if (!plan || !atomic_load(&plan->armed) || !(plan->calls & (of_file | of_socket)))
        return 0;
    int before = errno;
    int rc = fstat(fd, &seen);
    errno = before;
    return rc != 0 ? 0 : S_ISREG(seen.st_mode) ? of_file : S_ISSOCK(seen.st_mode) ? of_socket : 0;
}

/* ---- memory ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
/* Defined by the sanitizer, if there is one. */
__attribute__((weak)) void *__interceptor_malloc(size_t size);
__attribute__((weak)) void *__interceptor_calloc(size_t count, size_t size);
__attribute__((weak)) void *__interceptor_realloc(void *old, size_t size);
__attribute__((weak)) void *__interceptor_memalign(size_t alignment, size_t size);

VISIBLE void *malloc(size_t size)
{
    if (!MAY_PASS(.kinds = FAULT_MEMORY, .name = "malloc"))
        return NULL;
    return __interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size);
}

VISIBLE void *calloc(size_t count, size_t size)
{
    if (!MAY_PASS(.kinds = FAULT_MEMORY, .name = "calloc"))
        return NULL;
    return __interceptor_calloc ? __interceptor_calloc(count, size) : __libc_calloc(count, size);
}

VISIBLE void *realloc(void *old, size_t size)
{
    if (!MAY_PASS(.kinds = FAULT_MEMORY, .name = "realloc"))
        return NULL;
    return __interceptor_realloc ? __interceptor_realloc(old, size) : __libc_realloc(old, size);
}

static void *align(size_t alignment, size_t size)
{
    return __interceptor_memalign ? __interceptor_memalign(alignment, size)
                                  : __libc_memalign(alignment, size);
}

VISIBLE void *aligned_alloc(size_t alignment, size_t size)
{
    return MAY_PASS(.kinds = FAULT_MEMORY, .name = "aligned_alloc") ? align(alignment, size) : NULL;
}

VISIBLE int posix_memalign(void **ret_at, size_t alignment, size_t size)
{
    if (!MAY_PASS(.kinds = FAULT_MEMORY, .name = "posix_memalign"))
        return ENOMEM;
    *ret_at = align(alignment, size);
    return *ret_at ? 0 : ENOMEM;
}

VISIBLE void *mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t from)
{
    if (!MAY_PASS(.kinds = FAULT_MAP, .name = "mmap", .file = 1 + fd))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, prot, flags, fd, from);
}

VISIBLE void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t from)
{
    if (!MAY_PASS(.kinds = FAULT_MAP, .name = "mmap", .file = 1 + fd))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, prot, flags, fd, from);
}

/* ---- bytes ---- */

#define WRITES(call, of, halved)                                                               \
    MAY_PASS(.kinds = kinds_of(of, FAULT_WRITE, FAULT_SEND), .name = (call), .file = 1 + (of), \
             .size = (halved))
#define READS(call, of, halved)                                                                  \
    MAY_PASS(.kinds = kinds_of(of, FAULT_READ, FAULT_RECEIVE), .name = (call), .file = 1 + (of), \
             .size = (halved))

VISIBLE ssize_t write(int fd, const void *from, size_t size)
{
    return WRITES("write", fd, &size) ? finish_call(syscall(SYS_write, fd, from, size)) : -1;
}

VISIBLE ssize_t pwrite(int fd, const void *from, size_t size, off_t at)
{
    return WRITES("pwrite", fd, &size) ? finish_call(syscall(SYS_pwrite64, fd, from, size, at))
                                       : -1;
}

VISIBLE ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at)
{
    return WRITES("pwrite", fd, &size) ? finish_call(syscall(SYS_pwrite64, fd, from, size, at))
                                       : -1;
}

VISIBLE ssize_t writev(int fd, const struct iovec *pieces, int count)
{
    size_t most = (size_t)count;
    return WRITES("writev", fd, &most) ? finish_call(syscall(SYS_writev, fd, pieces, most)) : -1;
}

VISIBLE ssize_t read(int fd, void *to, size_t size)
{
    return READS("read", fd, &size) ? syscall(SYS_read, fd, to, size) : -1;
}

VISIBLE ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    return READS("pread", fd, &size) ? syscall(SYS_pread64, fd, to, size, at) : -1;
}

VISIBLE ssize_t pread64(int fd, void *to, size_t size, off64_t at)
{
    return READS("pread", fd, &size) ? syscall(SYS_pread64, fd, to, size, at) : -1;
}

/* gcc calls these functions with _FORTIFY_SOURCE. They check the buffer's size first. */
ssize_t __read_chk(int fd, void *to, size_t size, size_t capacity);
ssize_t __pread_chk(int fd, void *to, size_t size, off_t at, size_t capacity);
ssize_t __pread64_chk(int fd, void *to, size_t size, off64_t at, size_t capacity);
ssize_t __recv_chk(int fd, void *to, size_t size, size_t capacity, int flags);

VISIBLE ssize_t __read_chk(int fd, void *to, size_t size, size_t capacity)
{
    return size > capacity ? (abort(), -1) : read(fd, to, size);
}

VISIBLE ssize_t __pread_chk(int fd, void *to, size_t size, off_t at, size_t capacity)
{
    return size > capacity ? (abort(), -1) : pread(fd, to, size, at);
}

VISIBLE ssize_t __pread64_chk(int fd, void *to, size_t size, off64_t at, size_t capacity)
{
    return size > capacity ? (abort(), -1) : pread64(fd, to, size, at);
}

VISIBLE ssize_t __recv_chk(int fd, void *to, size_t size, size_t capacity, int flags)
{
    return size > capacity ? (abort(), -1) : recv(fd, to, size, flags);
}

VISIBLE int ftruncate(int fd, off_t size)
{
    return MAY_PASS(.kinds = FAULT_WRITE, .name = "ftruncate", .file = 1 + fd)
               ? (int)finish_call(syscall(SYS_ftruncate, fd, size))
               : -1;
}

VISIBLE int ftruncate64(int fd, off64_t size)
{
    return MAY_PASS(.kinds = FAULT_WRITE, .name = "ftruncate", .file = 1 + fd)
               ? (int)finish_call(syscall(SYS_ftruncate, fd, size))
               : -1;
}

VISIBLE int fallocate(int fd, int mode, off_t from, off_t size)
{
    return MAY_PASS(.kinds = FAULT_WRITE, .name = "fallocate", .file = 1 + fd)
               ? (int)finish_call(syscall(SYS_fallocate, fd, mode, from, size))
               : -1;
}

VISIBLE int fallocate64(int fd, int mode, off64_t from, off64_t size)
{
    return MAY_PASS(.kinds = FAULT_WRITE, .name = "fallocate", .file = 1 + fd)
               ? (int)finish_call(syscall(SYS_fallocate, fd, mode, from, size))
               : -1;
}

static int sync_file(int fd, long number)
{
    return plan && plan->no_sync ? 0 : (int)syscall(number, fd);
}

VISIBLE int fsync(int fd)
{
    return MAY_PASS(.kinds = FAULT_SYNC, .name = "fsync", .file = 1 + fd) ? sync_file(fd, SYS_fsync)
                                                                          : -1;
}

VISIBLE int fdatasync(int fd)
{
    return MAY_PASS(.kinds = FAULT_SYNC, .name = "fdatasync", .file = 1 + fd)
               ? sync_file(fd, SYS_fdatasync)
               : -1;
}

/* ---- names and descriptors ---- */

#define OPENS(subject) \
    MAY_PASS(.kinds = FAULT_NAME | FAULT_DESCRIPTOR, .name = "open", .path = (subject))

static int open_at(int directory, const char *path, int flags, va_list more)
{
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}

#define DEFINE_OPEN(name)                              \
    VISIBLE int name(const char *path, int flags, ...) \
    {                                                  \
        va_list more;                                  \
        if (!OPENS(path))                              \
            return -1;                                 \
        va_start(more, flags);                         \
        int fd = open_at(AT_FDCWD, path, flags, more); \
        va_end(more);                                  \
        return fd;                                     \
    }
#define DEFINE_OPENAT(name)                                           \
    VISIBLE int name(int directory, const char *path, int flags, ...) \
    {                                                                 \
        va_list more;                                                 \
        if (!OPENS(path))                                             \
            return -1;                                                \
        va_start(more, flags);                                        \
        int fd = open_at(directory, path, flags, more);               \
        va_end(more);                                                 \
        return fd;                                                    \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

/* gcc calls these functions with _FORTIFY_SOURCE if it does not know |flags|. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int directory, const char *path, int flags);
int __openat64_2(int directory, const char *path, int flags);

VISIBLE int __open_2(const char *path, int flags) { return open(path, flags); }
VISIBLE int __open64_2(const char *path, int flags) { return open(path, flags); }
VISIBLE int __openat_2(int directory, const char *path, int flags)
{
    return openat(directory, path, flags);
}
VISIBLE int __openat64_2(int directory, const char *path, int flags)
{
    return openat(directory, path, flags);
}

#define NAMES(call, subject) MAY_PASS(.kinds = FAULT_NAME, .name = (call), .path = (subject))

VISIBLE int rename(const char *from, const char *to)
{
    return NAMES("rename", to) ? (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0) : -1;
}

VISIBLE int renameat(int directory, const char *from, int other, const char *to)
{
    return NAMES("rename", to) ? (int)syscall(SYS_renameat2, directory, from, other, to, 0) : -1;
}

VISIBLE int renameat2(int directory, const char *from, int other, const char *to, unsigned flags)
{
    return NAMES("rename", to) ? (int)syscall(SYS_renameat2, directory, from, other, to, flags)
                               : -1;
}

VISIBLE int unlink(const char *path)
{
    return NAMES("unlink", path) ? (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0) : -1;
}

VISIBLE int unlinkat(int directory, const char *path, int flags)
{
    return NAMES("unlink", path) ? (int)syscall(SYS_unlinkat, directory, path, flags) : -1;
}

VISIBLE int rmdir(const char *path)
{
    return NAMES("rmdir", path) ? (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR) : -1;
}

VISIBLE int mkdir(const char *path, mode_t mode)
{
    return NAMES("mkdir", path) ? (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode) : -1;
}

VISIBLE int mkdirat(int directory, const char *path, mode_t mode)
{
    return NAMES("mkdir", path) ? (int)syscall(SYS_mkdirat, directory, path, mode) : -1;
}

VISIBLE int linkat(int directory, const char *from, int other, const char *to, int flags)
{
    return NAMES("link", to) ? (int)syscall(SYS_linkat, directory, from, other, to, flags) : -1;
}

VISIBLE int link(const char *from, const char *to)
{
    return NAMES("link", to) ? (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0) : -1;
}

VISIBLE int memfd_create(const char *name, unsigned flags)
{
    return MAY_PASS(.kinds = FAULT_MEMFD | FAULT_DESCRIPTOR, .name = "memfd_create")
               ? (int)syscall(SYS_memfd_create, name, flags)
               : -1;
}

VISIBLE int pipe2(int ends[2], int flags)
{
    return MAY_PASS(.kinds = FAULT_DESCRIPTOR, .name = "pipe2")
               ? (int)syscall(SYS_pipe2, ends, flags)
               : -1;
}

VISIBLE int pipe(int ends[2])
{
    return MAY_PASS(.kinds = FAULT_DESCRIPTOR, .name = "pipe") ? (int)syscall(SYS_pipe2, ends, 0)
                                                               : -1;
}

VISIBLE int dup(int fd)
{
    return MAY_PASS(.kinds = FAULT_DESCRIPTOR, .name = "dup") ? (int)syscall(SYS_dup, fd) : -1;
}

VISIBLE int dup3(int fd, int to, int flags)
{
    return MAY_PASS(.kinds = FAULT_DESCRIPTOR, .name = "dup3")
               ? (int)syscall(SYS_dup3, fd, to, flags)
               : -1;
}

VISIBLE int eventfd(unsigned value, int flags)
{
    return MAY_PASS(.kinds = FAULT_DESCRIPTOR, .name = "eventfd")
               ? (int)syscall(SYS_eventfd2, value, flags)
               : -1;
}

VISIBLE int epoll_create1(int flags)
{
    return MAY_PASS(.kinds = FAULT_DESCRIPTOR, .name = "epoll_create1")
               ? (int)syscall(SYS_epoll_create1, flags)
               : -1;
}

/* ---- sockets ---- */

VISIBLE int socket(int domain, int type, int protocol)
{
    return MAY_PASS(.kinds = FAULT_CONNECT | FAULT_DESCRIPTOR, .name = "socket")
               ? (int)syscall(SYS_socket, domain, type, protocol)
               : -1;
}

VISIBLE int socketpair(int domain, int type, int protocol, int ends[2])
{
    return MAY_PASS(.kinds = FAULT_CONNECT | FAULT_DESCRIPTOR, .name = "socketpair")
               ? (int)syscall(SYS_socketpair, domain, type, protocol, ends)
               : -1;
}

/* libc declares the address of connect as a transparent union, so this definition must do the
 * same. */
VISIBLE int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t size)
{
    return MAY_PASS(.kinds = FAULT_CONNECT, .name = "connect")
               ? (int)syscall(SYS_connect, fd, address.__sockaddr__, size)
               : -1;
}

VISIBLE int accept4(int fd, __SOCKADDR_ARG address, socklen_t *size, int flags)
{
    return MAY_PASS(.kinds = FAULT_CONNECT | FAULT_DESCRIPTOR, .name = "accept4")
               ? (int)syscall(SYS_accept4, fd, address.__sockaddr__, size, flags)
               : -1;
}

/* Returns |size| if the socket is a stream. Returns NULL otherwise, because a packet is sent as a
 * whole. */
static size_t *of_stream(int fd, size_t *size)
{
    int type = 0;
    socklen_t type_size = sizeof(type);
    bool armed = plan && atomic_load(&plan->armed);
    bool known = armed && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0;
    return known && type == SOCK_STREAM ? size : NULL;
}

VISIBLE ssize_t send(int fd, const void *from, size_t size, int flags)
{
    return MAY_PASS(.kinds = FAULT_SEND, .name = "send", .size = of_stream(fd, &size))
               ? finish_call(syscall(SYS_sendto, fd, from, size, flags, NULL, 0))
               : -1;
}

/* A short write (FAULT_SHORT, FAULT_TEAR) sends half of the pieces or, if there is only one, half
 * of that piece. */
VISIBLE ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct msghdr part = *message;
    struct iovec first = part.msg_iovlen ? part.msg_iov[0] : (struct iovec){ NULL, 0 };
    bool one = part.msg_iovlen == 1;
    if (one)
        part.msg_iov = &first;
    return MAY_PASS(.kinds = FAULT_SEND, .name = "sendmsg",
                    .size = of_stream(fd, one ? &first.iov_len : (size_t *)&part.msg_iovlen))
               ? finish_call(syscall(SYS_sendmsg, fd, &part, flags))
               : -1;
}

VISIBLE ssize_t recv(int fd, void *to, size_t size, int flags)
{
    return MAY_PASS(.kinds = FAULT_RECEIVE, .name = "recv", .size = of_stream(fd, &size))
               ? syscall(SYS_recvfrom, fd, to, size, flags, NULL, NULL)
               : -1;
}

VISIBLE ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    return MAY_PASS(.kinds = FAULT_RECEIVE, .name = "recvmsg")
               ? syscall(SYS_recvmsg, fd, message, flags)
               : -1;
}

/* ---- processes and waiting ---- */

VISIBLE pid_t fork(void)
{
    static pid_t (*real)(void);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fork");
    return MAY_PASS(.kinds = FAULT_PROCESS, .name = "fork") ? real() : -1;
}

typedef int spawn_call(pid_t *, const char *, const posix_spawn_file_actions_t *,
                       const posix_spawnattr_t *, char *const[], char *const[]);

#define DEFINE_SPAWN(function)                                                                   \
    VISIBLE int function(                                                                        \
        pid_t *ret_pid, const char *path, const posix_spawn_file_actions_t *actions,             \
        const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) \
    {                                                                                            \
        static spawn_call *real;                                                                 \
        if (!real)                                                                               \
            *(void **)&real = dlsym(RTLD_NEXT, #function);                                       \
        return MAY_PASS(.kinds = FAULT_PROCESS, .name = "posix_spawn", .path = (path))           \
                   ? real(ret_pid, path, actions, attributes, arguments, environment)            \
                   : errno;                                                                      \
    }
DEFINE_SPAWN(posix_spawn)
DEFINE_SPAWN(posix_spawnp)

VISIBLE int epoll_pwait(int fd, struct epoll_event *events, int most, int ms, const sigset_t *mask)
{
    return MAY_PASS(.kinds = FAULT_WAIT, .name = "epoll_wait")
               ? (int)syscall(SYS_epoll_pwait, fd, events, most, ms, mask, (size_t)(_NSIG / 8))
               : -1;
}

VISIBLE int epoll_wait(int fd, struct epoll_event *events, int most, int ms)
{
    return epoll_pwait(fd, events, most, ms, NULL);
}

VISIBLE int poll(struct pollfd *waited, nfds_t count, int ms)
{
    const struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
    return MAY_PASS(.kinds = FAULT_WAIT, .name = "poll")
               ? (int)syscall(SYS_ppoll, waited, count, ms < 0 ? NULL : &time, NULL, 0)
               : -1;
}

/* ---- clocks ---- */

static int64_t ahead(clockid_t clock)
{
    if (!plan)
        return 0;
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE: return plan->realtime_ns;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME: return plan->monotonic_ns;
    default: return 0;
    }
}

VISIBLE int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(clock, ret_time);
    int64_t more = ahead(clock);
    if (rc == 0 && more) {
        int64_t ns = (int64_t)ret_time->tv_sec * NS + ret_time->tv_nsec + more;
        ret_time->tv_sec = ns / NS;
        ret_time->tv_nsec = ns % NS;
    }
    return rc;
}

/* A plan moves the monotonic clock that this process reads, but not Linux's clock, which expires
 * timers. So this function subtracts the plan's offset from an absolute time. All of kiln's timers
 * use a monotonic clock. */
VISIBLE int timerfd_settime(int fd, int flags, const struct itimerspec *at,
                            struct itimerspec *ret_before)
{
    struct itimerspec real = *at;
    int64_t more = ahead(CLOCK_MONOTONIC);
    int64_t ns = (int64_t)at->it_value.tv_sec * NS + at->it_value.tv_nsec;
    if ((flags & TFD_TIMER_ABSTIME) && ns > 0) {
        ns = ns > more ? ns - more : 1;
        real.it_value = (struct timespec){ .tv_sec = ns / NS, .tv_nsec = ns % NS };
    }
    return (int)syscall(SYS_timerfd_settime, fd, flags, &real, ret_before);
}

VISIBLE time_t time(time_t *ret_seconds)
{
    struct timespec now = { 0 };
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret_seconds)
        *ret_seconds = now.tv_sec;
    return now.tv_sec;
}

VISIBLE int gettimeofday(struct timeval *ret_time, void *zone)
{
    struct timespec now = { 0 };
    int rc = clock_gettime(CLOCK_REALTIME, &now);
    (void)zone;
    *ret_time = (struct timeval){ .tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000 };
    return rc;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
