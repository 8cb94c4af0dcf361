/* SPDX-License-Identifier: MIT */
#include "tests/support/failing_calls.h"

#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define FROM_THEN_ON 1000000u

static struct {
    _Atomic(const char *) name; /* may be NULL */
    atomic_uint seen, first, last, failed;
    int error;
} chosen;

static bool fails(const char *name)
{
    const char *wanted = atomic_load(&chosen.name);
    if (!wanted || strcmp(wanted, name) != 0)
        return false;
    unsigned number = atomic_fetch_add(&chosen.seen, 1) + 1;
    if (number < atomic_load(&chosen.first) || number > atomic_load(&chosen.last))
        return false;
    atomic_fetch_add(&chosen.failed, 1);
    errno = chosen.error;
    return true;
}

#define CALL(type, otherwise, name, parameters, arguments) \
    type __real_##name parameters;                         \
    type __wrap_##name parameters;                         \
    type __wrap_##name parameters { return fails(#name) ? (otherwise) : __real_##name arguments; }
#define INT(name, parameters, arguments) CALL(int, -1, name, parameters, arguments)
#define SIZE(name, parameters, arguments) CALL(ssize_t, -1, name, parameters, arguments)
#define POINTER(type, name, parameters, arguments) CALL(type, NULL, name, parameters, arguments)

/* FAILING_CALLS in tests/support/CMakeLists.txt lists the same functions for the linker. */
POINTER(void *, malloc, (size_t size), (size))
POINTER(void *, calloc, (size_t count, size_t size), (count, size))
POINTER(void *, realloc, (void *old, size_t size), (old, size))
POINTER(char *, strdup, (const char *text), (text))
POINTER(char *, getcwd, (char *to, size_t size), (to, size))
POINTER(char *, mkdtemp, (char *pattern), (pattern))
POINTER(char *, realpath, (const char *path, char *to), (path, to))
POINTER(DIR *, fdopendir, (int fd), (fd))
POINTER(struct dirent *, readdir, (DIR * dir), (dir))
POINTER(struct group *, getgrnam, (const char *name), (name))
POINTER(locale_t, newlocale, (int which, const char *name, locale_t base), (which, name, base))
INT(stat, (const char *path, struct stat *to), (path, to))
INT(lstat, (const char *path, struct stat *to), (path, to))
INT(fstat, (int fd, struct stat *to), (fd, to))
INT(statfs, (const char *path, struct statfs *to), (path, to))
INT(statvfs, (const char *path, struct statvfs *to), (path, to))
INT(setenv, (const char *name, const char *value, int replace), (name, value, replace))
INT(chdir, (const char *path), (path))
INT(fchdir, (int fd), (fd))
INT(dup2, (int fd, int to), (fd, to))
INT(fork, (void), ())
INT(poll, (struct pollfd * waited, nfds_t count, int ms), (waited, count, ms))
INT(access, (const char *path, int mode), (path, mode))
INT(faccessat, (int at, const char *path, int mode, int flags), (at, path, mode, flags))
INT(mkdir, (const char *path, mode_t mode), (path, mode))
INT(mkostemp, (char *pattern, int flags), (pattern, flags))
INT(chmod, (const char *path, mode_t mode), (path, mode))
INT(fchmod, (int fd, mode_t mode), (fd, mode))
INT(fchmodat, (int at, const char *path, mode_t mode, int flags), (at, path, mode, flags))
INT(chown, (const char *path, uid_t uid, gid_t gid), (path, uid, gid))
INT(lchown, (const char *path, uid_t uid, gid_t gid), (path, uid, gid))
INT(fchown, (int fd, uid_t uid, gid_t gid), (fd, uid, gid))
INT(unlink, (const char *path), (path))
INT(unlinkat, (int at, const char *path, int flags), (at, path, flags))
INT(rmdir, (const char *path), (path))
INT(rename, (const char *from, const char *to), (from, to))
INT(renameat2, (int at, const char *from, int other, const char *to, unsigned flags),
    (at, from, other, to, flags))
INT(ftruncate, (int fd, off_t size), (fd, size))
INT(fsync, (int fd), (fd))
INT(fdatasync, (int fd), (fd))
INT(flock, (int fd, int how), (fd, how))
INT(memfd_create, (const char *name, unsigned flags), (name, flags))
INT(eventfd, (unsigned value, int flags), (value, flags))
INT(timerfd_create, (int clock, int flags), (clock, flags))
INT(socket, (int domain, int type, int protocol), (domain, type, protocol))
INT(socketpair, (int domain, int type, int protocol, int ends[2]), (domain, type, protocol, ends))
INT(connect, (int fd, __CONST_SOCKADDR_ARG address, socklen_t size), (fd, address, size))
INT(bind, (int fd, __CONST_SOCKADDR_ARG address, socklen_t size), (fd, address, size))
INT(listen, (int fd, int backlog), (fd, backlog))
INT(getsockname, (int fd, __SOCKADDR_ARG address, socklen_t *size), (fd, address, size))
INT(getsockopt, (int fd, int level, int name, void *to, socklen_t *size),
    (fd, level, name, to, size))
INT(sched_getaffinity, (pid_t pid, size_t size, cpu_set_t *to), (pid, size, to))
INT(getrlimit, (__rlimit_resource_t which, struct rlimit *to), (which, to))
INT(setrlimit, (__rlimit_resource_t which, const struct rlimit *to), (which, to))
CALL(int, EAGAIN, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context),
     (thread, attributes, run, context))
CALL(int, EAGAIN, pthread_mutex_init,
     (pthread_mutex_t * mutex, const pthread_mutexattr_t *attributes), (mutex, attributes))
CALL(int, ENOMEM, pthread_attr_init, (pthread_attr_t * attributes), (attributes))
SIZE(read, (int fd, void *to, size_t size), (fd, to, size))
SIZE(pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
SIZE(write, (int fd, const void *from, size_t size), (fd, from, size))
SIZE(pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
SIZE(readlink, (const char *path, char *to, size_t size), (path, to, size))
SIZE(send, (int fd, const void *from, size_t size, int flags), (fd, from, size, flags))
SIZE(sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
SIZE(recv, (int fd, void *to, size_t size, int flags), (fd, to, size, flags))
SIZE(recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))

/* Wraps a function with one optional argument, a number or a pointer, which is passed on as a
 * long. */
#define VARIADIC(name, parameters, last, arguments)         \
    int __real_##name parameters;                           \
    int __wrap_##name parameters;                           \
    int __wrap_##name parameters                            \
    {                                                       \
        va_list more;                                       \
        va_start(more, last);                               \
        long further = va_arg(more, long);                  \
        va_end(more);                                       \
        return fails(#name) ? -1 : __real_##name arguments; \
    }
VARIADIC(open, (const char *path, int flags, ...), flags, (path, flags, further))
VARIADIC(openat, (int at, const char *path, int flags, ...), flags, (at, path, flags, further))
VARIADIC(fcntl, (int fd, int what, ...), what, (fd, what, further))
VARIADIC(ioctl, (int fd, unsigned long what, ...), what, (fd, what, further))

static void end_failures(void *nothing)
{
    (void)nothing;
    calls_failed();
}

static void choose(const char *name, unsigned first, unsigned last, int error)
{
    test_at_end(end_failures, NULL);
    atomic_store(&chosen.name, NULL);
    chosen.error = error;
    atomic_store(&chosen.seen, 0);
    atomic_store(&chosen.failed, 0);
    atomic_store(&chosen.first, first);
    atomic_store(&chosen.last, last);
    atomic_store(&chosen.name, name);
}

void fail_call(const char *name, unsigned nth, int error) { choose(name, nth, nth, error); }

void fail_calls(const char *name, int error) { choose(name, 1, FROM_THEN_ON, error); }

bool calls_failed(void)
{
    atomic_store(&chosen.name, NULL);
    return atomic_load(&chosen.failed) > 0;
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Runs |act| while the call |nth| of |call.name| fails (0: every call). Returns false if |act|
 * made fewer calls. */
static bool fail_nth(fallible *act, void *context, struct failing_call call, unsigned nth,
                     struct kiln_err *err)
{
    unsigned before = open_descriptors();
    kiln_err_init(err);
    if (nth)
        fail_call(call.name, nth, call.error);
    else
        fail_calls(call.name, call.error);
    err->code = act(context, err);
    bool failed = calls_failed();
    if (open_descriptors() != before)
        fail_msg("call %u of %s that fails leaves a descriptor open, or closes one", nth,
                 call.name);
    return failed;
}

static void check_failure(const struct kiln_err *err, struct failing_call call, enum kiln_code code,
                          const char *words)
{
    if (err->code != code || !strstr(err->text, words))
        fail_msg("call %u of %s failed: code %d, '%s', not code %d with '%s'", call.nth, call.name,
                 (int)err->code, err->text, (int)code, words);
}

void expect_failure(fallible *act, void *context, struct failing_call call, enum kiln_code code,
                    const char *words)
{
    struct kiln_err err;
    if (!fail_nth(act, context, call, call.nth, &err))
        fail_msg("call %u of %s did not happen", call.nth, call.name);
    check_failure(&err, call, code, words);
}

void expect_failures(fallible *act, void *context, struct failing_call call, enum kiln_code code,
                     const char *words)
{
    struct kiln_err err;
    for (call.nth = 1; fail_nth(act, context, call, call.nth, &err); call.nth++)
        check_failure(&err, call, code, words);
    must(err.code, err);
    assert_int_not_equal(call.nth, 1);
}

void expect_no_harm(fallible *act, void *context, const char *name, int error)
{
    struct kiln_err err;
    unsigned nth = 1;
    for (; fail_nth(act, context, FAILING(name, error), nth, &err); nth++)
        must(err.code, err);
    must(err.code, err);
    assert_int_not_equal(nth, 1);
}
