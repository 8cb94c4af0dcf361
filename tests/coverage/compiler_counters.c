/* SPDX-License-Identifier: MIT */
/* Writes kiln-compiler's coverage counters before kiln-compiler enters its sandbox, where it can no
 * longer write them. */
#include "engine/compile/compiler.h"
#include "engine/compile/confine.h"
#include "engine/compile/worker_wire.h"

#include <sys/resource.h>
#include <unistd.h>

void __gcov_dump(void);

/* Lowest file size limit (RLIMIT_FSIZE, in bytes) with which a process writes its counters. The
 * counters of each source file need less. */
#define COUNTERS_MAX (1u << 18)

/* Returns whether the file size limit permits writing the counters. A write beyond the limit would
 * kill the worker with SIGXFSZ. */
static int may_write_counters(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= COUNTERS_MAX;
}

enum kiln_code __real_confine_begin(struct confinement *c, const struct confine_options *options,
                                    struct kiln_err *err);
enum kiln_code __wrap_confine_begin(struct confinement *c, const struct confine_options *options,
                                    struct kiln_err *err);
enum kiln_code __wrap_confine_begin(struct confinement *c, const struct confine_options *options,
                                    struct kiln_err *err)
{
    if (may_write_counters())
        __gcov_dump();
    return __real_confine_begin(c, options, err);
}

/* These functions run in the sandbox. They end the process with _exit, because exit would try to
 * write the counters, and fail. */

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
