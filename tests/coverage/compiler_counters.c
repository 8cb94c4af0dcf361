/* SPDX-License-Identifier: MIT */
/* What kiln-compiler counted is written just before it is confined, in the coverage build alone. */
#include "engine/compile/compiler.h"
#include "engine/compile/confine.h"
#include "engine/compile/worker_wire.h"

#include <sys/syscall.h>
#include <unistd.h>

void __gcov_dump(void);

enum kiln_code __real_confine_begin(struct confinement *c, const char *outside, const char *folder,
                                    keeper_give_up *give_up, void *context, struct kiln_err *err);
enum kiln_code __wrap_confine_begin(struct confinement *c, const char *outside, const char *folder,
                                    keeper_give_up *give_up, void *context, struct kiln_err *err);
enum kiln_code __wrap_confine_begin(struct confinement *c, const char *outside, const char *folder,
                                    keeper_give_up *give_up, void *context, struct kiln_err *err)
{
    __gcov_dump();
    return __real_confine_begin(c, outside, folder, give_up, context, err);
}

/* From here on it is confined: leaving by exit would try to write, and say that it cannot. */

int __real_compiler_worker_serve(const struct compiler_worker_options *options);
int __wrap_compiler_worker_serve(const struct compiler_worker_options *options);
int __wrap_compiler_worker_serve(const struct compiler_worker_options *options)
{
    _exit(__real_compiler_worker_serve(options));
}

int __real_compiler_worker_resume(const struct compiler_worker_options *options,
                                  const int files[3]);
int __wrap_compiler_worker_resume(const struct compiler_worker_options *options,
                                  const int files[3]);
int __wrap_compiler_worker_resume(const struct compiler_worker_options *options, const int files[3])
{
    _exit(__real_compiler_worker_resume(options, files));
}

int __real_compiler_describe_to(const char *name, int fd);
int __wrap_compiler_describe_to(const char *name, int fd);
int __wrap_compiler_describe_to(const char *name, int fd)
{
    _exit(__real_compiler_describe_to(name, fd));
}

/* Before another program takes its place, the same: gcc makes these of execve and execv. */

int __wrap___gcov_execve(const char *path, char *const arguments[], char *const environment[]);
int __wrap___gcov_execve(const char *path, char *const arguments[], char *const environment[])
{
    return (int)syscall(SYS_execve, path, arguments, environment);
}

int __wrap___gcov_execv(const char *path, char *const arguments[]);
int __wrap___gcov_execv(const char *path, char *const arguments[])
{
    return (int)syscall(SYS_execve, path, arguments, environ);
}
