/* SPDX-License-Identifier: MIT */
/* Defines functions of libc that a compiler uses for files, and those that start processes.  Each
 * function notes the call (files.h) and then calls libc's own function. */
#include "libclient/rtc/files.h"
#include "libclient/rtc/old_glibc.h"
#include "libclient/rtc/preload.h"

#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// NOLINTBEGIN(readability-*-declaration*): libc's own declarations, but with default visibility

#define EXPORTED __attribute__((visibility("default")))

#define NEXT(type, name) \
    static type *next;   \
    preload_find_next((name), &next);
#define CALLER __builtin_return_address(0)
#define NOTE(directory, use, may_write) \
    files_note_call((struct file_call){ CALLER, (directory), (use), (may_write) }, path);

static bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT); }

/* Notes the open file |fd|, or nothing if |fd| is -1, and returns |fd|. */
static int noted(int fd, int flags)
{
    if (fd >= 0 && writes(flags))
        files_note_written(fd);
    return fd;
}

typedef int open_fn(const char *path, int flags, ...);
typedef int openat_fn(int directory, const char *path, int flags, ...);
typedef int open_2_fn(const char *path, int flags);
typedef int openat_2_fn(int directory, const char *path, int flags);
typedef FILE *fopen_fn(const char *path, const char *mode);
typedef int xstat_fn(int version, const char *path, struct stat *ret_stat);
typedef int xstatat_fn(int version, int directory, const char *path, struct stat *ret_stat,
                       int flags);
typedef int access_fn(const char *path, int mode);
typedef DIR *opendir_fn(const char *path);
typedef int mkdir_fn(const char *path, mode_t mode);
typedef pid_t fork_fn(void);
typedef int system_fn(const char *command);
typedef int spawn_call(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const *arguments,
                       char *const *environment);

/* Declares |mode|, the argument after |flags|, which exists only with some flags. */
#define MODE_OF(flags, mode)               \
    mode_t mode = 0;                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list list;                      \
        va_start(list, flags);             \
        mode = va_arg(list, mode_t);       \
        va_end(list);                      \
    }

#define HOOK_OPEN(name)                                  \
    EXPORTED int name(const char *path, int flags, ...); \
    int name(const char *path, int flags, ...)           \
    {                                                    \
        MODE_OF(flags, mode)                             \
        NEXT(open_fn, #name)                             \
        NOTE(AT_FDCWD, FILE_USE_OPEN, writes(flags))     \
        return noted(next(path, flags, mode), flags);    \
    }
#define HOOK_OPENAT(name)                                               \
    EXPORTED int name(int directory, const char *path, int flags, ...); \
    int name(int directory, const char *path, int flags, ...)           \
    {                                                                   \
        MODE_OF(flags, mode)                                            \
        NEXT(openat_fn, #name)                                          \
        NOTE(directory, FILE_USE_OPEN, writes(flags))                   \
        return noted(next(directory, path, flags, mode), flags);        \
    }
#define HOOK_FOPEN(name)                                      \
    EXPORTED FILE *name(const char *path, const char *mode);  \
    FILE *name(const char *path, const char *mode)            \
    {                                                         \
        NEXT(fopen_fn, #name)                                 \
        bool may_write = mode[0] != 'r' || strchr(mode, '+'); \
        NOTE(AT_FDCWD, FILE_USE_OPEN, may_write)              \
        FILE *file = next(path, mode);                        \
        if (file && may_write)                                \
            files_note_written(fileno(file));                 \
        return file;                                          \
    }
/* Defines a function that gcc and clang call with _FORTIFY_SOURCE, if |flags| is not a constant. */
#define HOOK_OPEN_2(name)                            \
    EXPORTED int name(const char *path, int flags);  \
    int name(const char *path, int flags)            \
    {                                                \
        NEXT(open_2_fn, #name)                       \
        NOTE(AT_FDCWD, FILE_USE_OPEN, writes(flags)) \
        return noted(next(path, flags), flags);      \
    }
#define HOOK_OPENAT_2(name)                                        \
    EXPORTED int name(int directory, const char *path, int flags); \
    int name(int directory, const char *path, int flags)           \
    {                                                              \
        NEXT(openat_2_fn, #name)                                   \
        NOTE(directory, FILE_USE_OPEN, writes(flags))              \
        return noted(next(directory, path, flags), flags);         \
    }
/* Defines |name|, a form of stat.  Calls |old| if libc does not define |name|: before glibc 2.33,
 * stat, lstat and fstatat are inline functions, which call |old|. */
#define HOOK_STAT(name, old, type)                                \
    EXPORTED int name(const char *path, struct type *seen);       \
    int name(const char *path, struct type *seen)                 \
    {                                                             \
        static int (*next)(const char *, struct type *);          \
        static int (*next_old)(int, const char *, struct type *); \
        preload_find_next(#name, &next);                          \
        NOTE(AT_FDCWD, FILE_USE_STAT, false)                      \
        if (next)                                                 \
            return next(path, seen);                              \
        preload_find_next(#old, &next_old);                       \
        return next_old(GLIBC_STAT_VERSION, path, seen);          \
    }
#define HOOK_STATAT(name, old, type)                                                  \
    EXPORTED int name(int directory, const char *path, struct type *seen, int flags); \
    int name(int directory, const char *path, struct type *seen, int flags)           \
    {                                                                                 \
        static int (*next)(int, const char *, struct type *, int);                    \
        static int (*next_old)(int, int, const char *, struct type *, int);           \
        preload_find_next(#name, &next);                                              \
        NOTE(directory, FILE_USE_STAT, false)                                         \
        if (next)                                                                     \
            return next(directory, path, seen, flags);                                \
        preload_find_next(#old, &next_old);                                           \
        return next_old(GLIBC_STAT_VERSION, directory, path, seen, flags);            \
    }
#define HOOK_XSTAT(name)                                                 \
    EXPORTED int name(int version, const char *path, struct stat *seen); \
    int name(int version, const char *path, struct stat *seen)           \
    {                                                                    \
        NEXT(xstat_fn, #name)                                            \
        NOTE(AT_FDCWD, FILE_USE_STAT, false)                             \
        return next(version, path, seen);                                \
    }
#define HOOK_XSTATAT(name)                                                                         \
    EXPORTED int name(int version, int directory, const char *path, struct stat *seen, int flags); \
    int name(int version, int directory, const char *path, struct stat *seen, int flags)           \
    {                                                                                              \
        NEXT(xstatat_fn, #name)                                                                    \
        NOTE(directory, FILE_USE_STAT, false)                                                      \
        return next(version, directory, path, seen, flags);                                        \
    }

#undef open
#undef open64
#undef openat
#undef openat64
#undef fopen
#undef fopen64
#undef stat
#undef stat64
#undef lstat
#undef lstat64
#undef fstatat
#undef fstatat64
HOOK_OPEN(open)
HOOK_OPEN(open64)
HOOK_OPENAT(openat)
HOOK_OPENAT(openat64)
HOOK_OPEN_2(__open_2)
HOOK_OPEN_2(__open64_2)
HOOK_OPENAT_2(__openat_2)
HOOK_OPENAT_2(__openat64_2)
HOOK_FOPEN(fopen)
HOOK_FOPEN(fopen64)
HOOK_XSTAT(__xstat)
HOOK_XSTAT(__xstat64)
HOOK_XSTAT(__lxstat)
HOOK_XSTAT(__lxstat64)
HOOK_XSTATAT(__fxstatat)
HOOK_XSTATAT(__fxstatat64)
HOOK_STAT(stat, __xstat, stat)
HOOK_STAT(stat64, __xstat64, stat64)
HOOK_STAT(lstat, __lxstat, stat)
HOOK_STAT(lstat64, __lxstat64, stat64)
HOOK_STATAT(fstatat, __fxstatat, stat)
HOOK_STATAT(fstatat64, __fxstatat64, stat64)

EXPORTED int statx(int directory, const char *path, int flags, unsigned mask, struct statx *seen);
int statx(int directory, const char *path, int flags, unsigned mask, struct statx *seen)
{
    static int (*next)(int, const char *, int, unsigned, struct statx *);
    preload_find_next("statx", &next);
    NOTE(directory, FILE_USE_STAT, false)
    return next(directory, path, flags, mask, seen);
}

EXPORTED int access(const char *path, int mode);
int access(const char *path, int mode)
{
    NEXT(access_fn, "access")
    NOTE(AT_FDCWD, FILE_USE_STAT, (mode & W_OK) != 0)
    return next(path, mode);
}

EXPORTED DIR *opendir(const char *path);
DIR *opendir(const char *path)
{
    NEXT(opendir_fn, "opendir")
    NOTE(AT_FDCWD, FILE_USE_LIST, false)
    return next(path);
}

/* chdir and fchdir note the change before and after the call, because a compile may begin or end
 * during the call.  Both functions make the system call themselves, because a program may call them
 * after fork, where dlsym is not allowed. */
EXPORTED int chdir(const char *path);
int chdir(const char *path)
{
    files_note_chdir();
    int rc = (int)syscall(SYS_chdir, path);
    files_note_chdir();
    return rc;
}

EXPORTED int fchdir(int directory);
int fchdir(int directory)
{
    files_note_chdir();
    int rc = (int)syscall(SYS_fchdir, directory);
    files_note_chdir();
    return rc;
}

EXPORTED int rename(const char *from, const char *path);
int rename(const char *from, const char *path)
{
    static int (*next)(const char *, const char *);
    preload_find_next("rename", &next);
    NOTE(AT_FDCWD, FILE_USE_OPEN, true)
    return next(from, path);
}

EXPORTED int mkdir(const char *path, mode_t mode);
int mkdir(const char *path, mode_t mode)
{
    NEXT(mkdir_fn, "mkdir")
    int rc = next(path, mode);
    if (rc == 0)
        files_note_created(CALLER, path);
    return rc;
}

#define HOOK_SPAWN(name)                                                                       \
    EXPORTED int name(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, \
                      const posix_spawnattr_t *attributes, char *const *arguments,             \
                      char *const *environment);                                               \
    int name(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,          \
             const posix_spawnattr_t *attributes, char *const *arguments,                      \
             char *const *environment)                                                         \
    {                                                                                          \
        NEXT(spawn_call, #name)                                                                \
        files_note_process(CALLER);                                                            \
        return next(pid, path, actions, attributes, arguments, environment);                   \
    }
HOOK_SPAWN(posix_spawn)
HOOK_SPAWN(posix_spawnp)

EXPORTED int system(const char *command);
int system(const char *command)
{
    NEXT(system_fn, "system")
    files_note_process(CALLER);
    return next(command);
}

EXPORTED FILE *popen(const char *command, const char *mode);
FILE *popen(const char *command, const char *mode)
{
    NEXT(fopen_fn, "popen")
    files_note_process(CALLER);
    return next(command, mode);
}

EXPORTED pid_t fork(void);
pid_t fork(void)
{
    NEXT(fork_fn, "fork")
    files_note_process(CALLER);
    return next();
}

fork_fn *hooks_note_vfork(const void *caller);

/* Returns libc's vfork.  Only the assembly below calls this function. */
fork_fn *hooks_note_vfork(const void *caller)
{
    NEXT(fork_fn, "vfork")
    files_note_process(caller);
    return next;
}

/* Defines vfork.  The child returns first, and uses the parent's stack.  So this function must jump
 * to libc's vfork: a function that called it would return to a stack that the child has changed. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        "    movq (%rsp), %rdi\n"
        "    subq $8, %rsp\n"
        "    call hooks_note_vfork\n"
        "    addq $8, %rsp\n"
        "    jmp *%rax\n"
        ".size vfork, . - vfork\n");
#else
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, %function\n"
        "vfork:\n"
        "    stp x29, x30, [sp, #-16]!\n"
        "    mov x0, x30\n"
        "    bl hooks_note_vfork\n"
        "    mov x16, x0\n"
        "    ldp x29, x30, [sp], #16\n"
        "    br x16\n"
        ".size vfork, . - vfork\n");
#endif
// NOLINTEND(readability-*-declaration*)
