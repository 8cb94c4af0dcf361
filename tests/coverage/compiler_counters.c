/* SPDX-License-Identifier: MIT */
/* What kiln-compiler counted is written just before it is confined, in the coverage build alone. */
#include "engine/compile/compiler.h"
#include "engine/compile/confine.h"
#include "engine/compile/worker_wire.h"

#include <sys/resource.h>
#include <unistd.h>

void __gcov_dump(void);

/* More than the counters of any one file of the source take. */
#define ROOM_FOR_COUNTERS (1u << 18)

/* A worker whose files a test keeps smaller than that would be ended for writing them. */
static int may_write_counters(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= ROOM_FOR_COUNTERS;
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
