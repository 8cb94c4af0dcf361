/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/old_glibc.h"

#include "libclient/rtc/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>

/* The linker calls these functions in place of glibc's (the option --wrap in CMakeLists.txt). */

// NOLINTBEGIN(*-reserved-identifier,readability-*-declaration*): names that --wrap requires

#define OLD_FUNCTION(version, type, name, parameters, arguments) \
    type __real_##name parameters;                               \
    type __wrap_##name parameters;                               \
    __asm__(".symver __real_" #name ", " #name "@" version);     \
    type __wrap_##name parameters { return __real_##name arguments; }

OLD_FUNCTION(GLIBC_OLDEST, void *, dlopen, (const char *path, int flags), (path, flags))
OLD_FUNCTION(GLIBC_OLDEST, int, dlclose, (void *handle), (handle))
OLD_FUNCTION(GLIBC_OLDEST, void *, dlvsym,
             (void *handle, const char *name, const char *symbol_version),
             (handle, name, symbol_version))
OLD_FUNCTION(GLIBC_OLDEST, int, dladdr, (const void *address, Dl_info *info), (address, info))
OLD_FUNCTION(GLIBC_2_3_3, int, dladdr1,
             (const void *address, Dl_info *info, void **extra, int flags),
             (address, info, extra, flags))
OLD_FUNCTION(GLIBC_OLDEST, int, pthread_once, (pthread_once_t * once, void (*run)(void)),
             (once, run))
OLD_FUNCTION(GLIBC_OLDEST, int, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
OLD_FUNCTION(GLIBC_OLDEST, int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *before),
             (how, set, before))
OLD_FUNCTION(GLIBC_2_3_3, int, pthread_condattr_setclock,
             (pthread_condattr_t * attributes, clockid_t clock), (attributes, clock))

/* Before glibc 2.33, fstat is an inline function that calls this function. */
int __old_fxstat(int version, int fd, struct stat *ret_stat);
__asm__(".symver __old_fxstat, __fxstat@" GLIBC_OLDEST);

int __wrap_fstat(int fd, struct stat *ret_stat);
int __wrap_fstat(int fd, struct stat *ret_stat)
{
    return __old_fxstat(GLIBC_STAT_VERSION, fd, ret_stat);
}

/* glibc 2.28 does not have the following two functions.  Without them, libkiln cannot start a
 * private kilnd, which would not run with this glibc either. */

typedef int add_path_fn(posix_spawn_file_actions_t *actions, const char *path);
typedef int add_number_fn(posix_spawn_file_actions_t *actions, int fd);

add_path_fn __wrap_posix_spawn_file_actions_addchdir_np;
int __wrap_posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *actions,
                                                const char *path)
{
    static add_path_fn *next;
    preload_find_next("posix_spawn_file_actions_addchdir_np", &next);
    return next ? next(actions, path) : ENOSYS;
}

add_number_fn __wrap_posix_spawn_file_actions_addclosefrom_np;
int __wrap_posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int fd)
{
    static add_number_fn *next;
    preload_find_next("posix_spawn_file_actions_addclosefrom_np", &next);
    return next ? next(actions, fd) : ENOSYS;
}
// NOLINTEND(*-reserved-identifier,readability-*-declaration*)
